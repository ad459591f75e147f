"""The columns of a table through all schemas of its topic, and where in them each schema's fields go.

A topic's schemas are gone through by number. A field goes into the column of its own name, or of a name that it had
before. Else one of its aliases names the column, or it has a new one. Columns get the widest type of all their fields.
What a schema no longer has stays: null for its own events, and with the values of those that still send it.

Where a type cannot be merged with its column's, all events of its schema are refused, with the reason: they wait in
quarantine for a schema that has room for them. Such a field may find it later: in its column, if a later schema has
made that wide enough, or in a field of a later schema that has its name as an alias.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kafka2011.events.columns.column_types import Column, column_name, column_of, table_columns
from kafka2011.events.columns.field_types import (
    FieldType,
    Items,
    Json,
    Record,
    UnmergeableError,
    covers,
    fields_of,
    matches,
    merged,
    merged_field,
)
from kafka2011.events.columns.held_columns import HeldColumn, HeldColumns, Widening
from kafka2011.events.columns.kinds import (
    BINARY,
    DOUBLE,
    NULL,
    TEXT,
    Kind,
    Lists,
    Maps,
    Structs,
    becomes_json,
    takes,
    widens,
)
from kafka2011.events.columns.resolved import reading_document, reading_type, written_document
from kafka2011.events.errors import ColumnError, UndecodableEventError
from kafka2011.events.resolution import for_reading, for_writing
from kafka2011.events.schema_walk import named_types
from kafka2011.events.schemas import event_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka2011.events.columns.field_types import RecordField
    from kafka2011.events.schemas import EventSchema, KnownSchemas

_HELD_AS_OTHER = {"string": BINARY, "bytes": TEXT}
"""The columns of which text and bytes can be values, though the column is of the other type."""


class Evolution:
    """What the schemas of a topic come to. Make one with `evolved`.

    `columns` are those that events have; of `widened` ones the table must be rewritten before it takes them.
    """

    def __init__(
        self, columns: list[Column], reader: Any, widened: Mapping[str, Widening], *, is_of_one: bool = False
    ) -> None:
        self.columns = columns
        self.widened = widened
        self._is_of_one = is_of_one
        self.reader = for_writing(reader)
        """The schema that reads all events, with logical types."""
        self._wanted = for_reading(reader)
        self._own: dict[str, Any] = {}
        self._readings: dict[str, tuple[Any, Any]] = {}
        self._refused: dict[str, str] = {}
        self._others: Any = None
        self._why_no_others = ""

    def add(self, fingerprint: str, written: Any) -> None:
        """Say how the events of a fingerprint are read; several may have one."""
        self._own[fingerprint] = written
        self._refused.pop(fingerprint, None)

    def refuse(self, fingerprint: str, reason: str) -> None:
        """Say why events of a fingerprint cannot be rows, unless another schema of it can."""
        if fingerprint not in self._own:
            self._refused[fingerprint] = reason

    def read_others_as(self, document: Any) -> None:
        """Say how events of schemas are read that are none of the topic's own."""
        self._others = document

    def refuse_others(self, reason: str) -> None:
        """Say why no events of schemas can be rows that are none of the topic's own."""
        self._why_no_others = reason

    def why_refused(self, schema: EventSchema) -> str | None:
        """Return why no event of one of the topic's schemas can be a row; None if events can."""
        return self._refused.get(schema.fingerprint)

    def resolved(self, schema: EventSchema) -> tuple[Any, Any]:
        """Return how events of a schema are read. Raises UndecodableEventError where none of them can be a row."""
        fingerprint = schema.fingerprint
        if fingerprint in self._refused:
            raise UndecodableEventError(self._refused[fingerprint], fingerprint)
        if self._why_no_others:
            raise UndecodableEventError(self._why_no_others, fingerprint)
        if fingerprint not in self._readings and fingerprint in self._own:
            wanted = None if self._is_of_one else self._wanted
            self._readings[fingerprint] = for_reading(self._own[fingerprint]), wanted
        elif fingerprint not in self._readings:
            self._readings[fingerprint] = schema.reader, self._wanted_of(schema)
        return self._readings[fingerprint]

    def _wanted_of(self, schema: EventSchema) -> Any:
        try:
            return for_reading(self._others, schema.document)
        except Exception as error:
            why = f"schema {schema.name} of another topic cannot be read with the columns of this one: {error}"
            raise UndecodableEventError(why, schema.fingerprint) from error

    def is_read_as_written(self, schema: EventSchema) -> bool:
        """Say whether events of a schema can be decoded all at once, with what `resolved` says of what was written."""
        return schema.fingerprint in self._own or (self._is_of_one and schema.fingerprint not in self._refused)


def evolved(schemas: KnownSchemas, topic: str, held: HeldColumns | None = None) -> Evolution:
    """Return what a topic's schemas come to in its table, whose columns are `held` so far.

    A schema that cannot become columns costs only its own events. Raises UnknownSchemaError.
    """
    return evolution_of(tuple(schemas.stored(topic)), topic, held, tuple(schemas.retired(topic)))


@lru_cache(64)
def evolution_of(
    schemas: tuple[tuple[int, EventSchema], ...],
    topic: str,
    held: HeldColumns | None,
    retired: tuple[tuple[int, EventSchema], ...] = (),
) -> Evolution:
    """Return what these schemas, with their numbers, come to; see `evolved`. Kept, as each load needs it again.

    Events of `retired` schemas are refused.
    """
    unfit: dict[int, str] = {}
    for number, schema in schemas:
        try:
            table_columns(schema, topic)
        except ColumnError as error:
            unfit[number] = f"schema {number} cannot become columns: {error}"
    fit = [(number, schema) for number, schema in schemas if number not in unfit]
    try:
        evolution = _evolution_of_fit(fit, topic, held)
    except Exception:  # noqa: BLE001 (one of them is to blame, and is found)
        evolution = _evolution_of_fit(_fit_together(fit, topic, held, unfit), topic, held)
    for number, schema in schemas:
        if number in unfit:
            evolution.refuse(schema.fingerprint, unfit[number])
    for number, schema in retired:
        hint = f"`kafka2011 schemas retire {topic} {number} --undo` takes it back"
        evolution.refuse(schema.fingerprint, f"schema {number} of topic {topic} is retired: {hint}")
    return evolution


def _fit_together(
    schemas: Sequence[tuple[int, EventSchema]], topic: str, held: HeldColumns | None, unfit: dict[int, str]
) -> list[tuple[int, EventSchema]]:
    """Return the schemas that become columns together; add the others to `unfit`, with the reason."""
    fit: list[tuple[int, EventSchema]] = []
    for number, schema in schemas:
        try:
            _evolution_of_fit([*fit, (number, schema)], topic, held)
        except Exception as error:  # noqa: BLE001 (it costs the events of this schema, and no others)
            why = f"{type(error).__name__}: {error}"
            unfit[number] = f"schema {number} of topic {topic} cannot become columns beside those before it: {why}"
        else:
            fit.append((number, schema))
    return fit


def _evolution_of_fit(schemas: Sequence[tuple[int, EventSchema]], topic: str, held: HeldColumns | None) -> Evolution:
    """Return what schemas come to that can become columns, each alone."""
    if not schemas:
        return _without_fields(topic)
    if len(schemas) == 1:
        columns = table_columns(schemas[0][1], topic)
        if all(_is_as_held(column, held) for column in columns):
            return _unchanged(schemas[0][1], columns)
    first: dict[str, FieldType] = {}
    pinned: frozenset[str] = frozenset()
    while True:
        walk = _Walk(schemas, held, first, pinned)
        if unheld := walk.unheld() - pinned:
            pinned |= unheld
        elif clash := walk.clash_of_newest():
            first |= clash
        else:
            return walk.evolution()


def _is_as_held(column: Column, held: HeldColumns | None) -> bool:
    """Say whether a table has, or can get, a column of the very type that a schema says."""
    if column.column_type.type == NULL:
        return False  # Delta has no column for it
    found = None if held is None else held.find(column.name)
    return found is None or (found.name == column.name and takes(found.type, column.column_type.type, grown=True))


def _unchanged(schema: EventSchema, columns: list[Column]) -> Evolution:
    """Return what one schema alone comes to."""
    evolution = Evolution(columns, schema.document, {}, is_of_one=True)
    evolution.add(schema.fingerprint, schema.document)
    evolution.read_others_as(schema.document)
    return evolution


def _without_fields(topic: str) -> Evolution:
    """Return what a topic comes to of which no schema can become columns: those of the header, and no rows."""
    header = event_schema("Header")
    evolution = Evolution(table_columns(header, topic), header.document, {})
    evolution.refuse_others(f"no schema of topic {topic} can become columns")
    return evolution


class _Walk:
    """Goes through the schemas of a topic.

    `first` are the types that some fields had before all others, and `pinned` the fields whose columns the table cannot
    make as wide as all schemas ask: those that ask for it are refused.
    """

    def __init__(
        self,
        schemas: Sequence[tuple[int, EventSchema]],
        held: HeldColumns | None,
        first: Mapping[str, FieldType],
        pinned: frozenset[str],
    ) -> None:
        self._schemas = schemas
        self._held = held
        self._first = first
        self._pinned = pinned
        self._fields: dict[str, RecordField] = {}
        self._own: dict[int, list[RecordField]] = {}
        self._maps: dict[int, dict[str, str]] = {}
        self._unfit: dict[tuple[int, str], str] = {}
        self._was_json: set[str] = set()
        """Columns that are JSON text by the schemas that the newest commit knew."""
        for number, schema in schemas:
            self._maps[number] = {}
            self._own[number] = fields_of(schema.writer, number)
            self._place(number)
            if held is not None and number <= held.schema_number:
                self._was_json = {name for name, field in self._fields.items() if isinstance(field.type.core, Json)}
        for number, name in list(self._unfit):
            self._place_elsewhere(number, name)

    def unheld(self) -> frozenset[str]:
        """Return the fields whose columns in the table can be neither what was found nor become it."""
        return frozenset(name for name, field in self._fields.items() if not self._is_held(field))

    def clash_of_newest(self) -> dict[str, FieldType]:
        """Return the type of a field of the newest schema that another one's type kept from a new column, if any.

        That one's events are refused then: what programs write today goes before what they wrote once. Not so where the
        topic's own table has decided otherwise: one that is rebuilt gets the same columns.
        """
        newest = self._schemas[-1][0]
        for field in self._own[newest]:
            is_new = field.name not in self._first and not self._holds(field.name)
            beside, known = self._find_beside(field.name), self._fields.get(field.name)
            is_decided = beside and known and takes(beside.type, self._kind(known), grown=True)
            if (newest, field.name) in self._unfit and is_new and not is_decided:
                return {field.name: field.type}
        return {}

    def evolution(self) -> Evolution:
        """Return what was found."""
        newest = self._maps[self._schemas[-1][0]]
        order = [*newest.values(), *(key for key in self._fields if key not in newest.values())]
        kept = (self._fields[key] for key in order if self._fields[key].type.core is not None)
        fields = tuple(field._replace(type=_lifted(field.type, self._held_kind(field.name))) for field in kept)
        name = self._schemas[-1][1].writer["name"].rpartition(".")[2]
        maps = {number: names for number, names in self._maps.items() if not self._reason(number)}
        record = Record(name, fields, maps or {self._schemas[-1][0]: newest})
        document = reading_document(record)
        reader = for_writing(document)
        named = named_types(reader)
        columns = [column_of(field, named) for field in reader["fields"]]
        evolution = Evolution(columns, document, self._widened(columns))
        aliases = {"aliases": sorted({s.writer["name"].rpartition(".")[2] for _, s in self._schemas} - {name})}
        evolution.read_others_as(reading_document(record, with_names=True) | aliases)
        for number, schema in self._schemas:  # of several with one fingerprint, the newest that can be read
            if reason := self._reason(number):
                evolution.refuse(schema.fingerprint, reason)
            else:
                evolution.add(schema.fingerprint, written_document(schema.writer, record, number))
        return evolution

    def _place(self, number: int) -> None:
        """Give each field of a schema its column."""
        own, by_alias = matches(self._fields.values(), self._own[number])
        names = self._maps[number]
        for field in self._own[number]:
            has_own = self._holds(field.name) or self._find_beside(field.name) is not None
            renamed = None if has_own else by_alias.get(field.name)
            for key in dict.fromkeys((own.get(field.name, renamed), field.name)):
                if key is None:
                    continue
                try:
                    known = self._fields.get(key)
                    self._fields[key] = self._checked(
                        self._begun(field) if known is None else merged_field(known, field)
                    )
                except UnmergeableError as error:
                    self._unfit[number, field.name] = f"field {field.name} of schema {number}: {error}"
                else:
                    names[field.name] = key
                    self._unfit.pop((number, field.name), None)
                    break

    def _place_elsewhere(self, number: int, name: str) -> None:
        """Give a field a column after all, if there is one for it now."""
        field = next((field for field in self._own[number] if field.name == name), None)
        if field is None:
            return
        above = [(later, names) for later, names in self._maps.items() if later > number]
        for key in (name, *(key for later, names in above for key in self._aliased(later, name, names))):
            is_free = key not in self._maps[number].values()
            if is_free and key in self._fields and covers(self._fields[key].type, field.type):
                self._maps[number][name] = key
                held = self._fields[key]
                self._fields[key] = merged_field(held, field)._replace(default=held.default, source=held.source)
                del self._unfit[number, name]
                return

    def _aliased(self, number: int, name: str, names: Mapping[str, str]) -> list[str]:
        """Return the columns of fields of a schema that have a name as an alias."""
        return [names[field.name] for field in self._own[number] if name in field.aliases and field.name in names]

    def _holds(self, name: str) -> bool:
        return self._find(name) is not None

    def _find(self, name: str) -> HeldColumn | None:
        return None if self._held is None else self._held.find(column_name(name))

    def _held_kind(self, name: str) -> Kind | None:
        held = self._find(name)
        return None if held is None else held.type

    def _find_beside(self, name: str) -> HeldColumn | None:
        return None if self._held is None else self._held.find_beside(column_name(name))

    def _begun(self, field: RecordField) -> RecordField:
        """Return a field as its column begins: of text and bytes, with what the table has. Raises UnmergeableError."""
        kind = field.type
        if field.name in self._first:
            kind = merged(self._first[field.name], kind)
        held = self._find(field.name)
        if held is not None and isinstance(kind.core, str) and _HELD_AS_OTHER.get(kind.core) == held.type:
            kind = replace(kind, core="string" if kind.core == "bytes" else "bytes")
        taken = next((key for key in self._fields if column_name(key).lower() == column_name(field.name).lower()), None)
        if taken is not None and taken != field.name:
            raise UnmergeableError(f"its column and {column_name(taken)} are one to readers that ignore case")
        return field._replace(type=kind)

    def _checked(self, field: RecordField) -> RecordField:
        """Return a field; one that is pinned only if its column takes it as it is. Raises UnmergeableError."""
        held = self._find(field.name)
        if held is None or field.name not in self._pinned:
            return field
        if held.name != column_name(field.name):
            raise UnmergeableError(f"columns {held.name} and {field.name} are one to readers that ignore case")
        wanted = self._kind(field)
        if isinstance(field.type.core, Json) or not (takes(held.type, wanted, grown=True) or widens(wanted, held.type)):
            raise UnmergeableError(f"{field.source} is no {held.type}, as column {held.name} of the table is")
        return field

    def _is_held(self, field: RecordField) -> bool:
        """Say whether the table's column, if it has one, takes what a field has come to, or can be rewritten."""
        held = self._find(field.name)
        if held is None:
            return True
        if held.name != column_name(field.name):
            return False
        is_fixed = self._held is not None and held.name in self._held.fixed
        if isinstance(field.type.core, Json):
            return held.type == TEXT or (becomes_json(held.type) and not is_fixed)
        wanted = self._kind(field)
        is_wider = takes(held.type, wanted, grown=True) or widens(wanted, held.type)
        return is_wider or (widens(held.type, wanted) and not is_fixed)

    def _kind(self, field: RecordField) -> Kind:
        """Return the type of the column that a field wants."""
        kept = {"name": field.name, "type": reading_type(field.type, "at")}
        parsed = for_writing({"type": "record", "name": "Of", "fields": [kept]})
        return column_of(parsed["fields"][0], named_types(parsed)).column_type.type

    def _widened(self, columns: Sequence[Column]) -> dict[str, Widening]:
        """Return what the table must be rewritten for."""
        wider: dict[str, Widening] = {}
        json = frozenset() if self._held is None else self._held.json
        for column in columns:
            held = self._find(column.field)
            if held is None:
                continue
            kind = column.column_type.type
            if isinstance(self._fields[column.field].type.core, Json):
                is_text = held.type == TEXT
                if not is_text or (held.name not in json and column.field not in self._was_json):
                    wider[column.name] = Widening(kind, is_json=True)
            elif not takes(held.type, kind, grown=True):
                wider[column.name] = Widening(kind)
        return wider

    def _reason(self, number: int) -> str:
        """Return why a schema's events cannot be rows; empty if they can."""
        return next((reason for (unfit, _), reason in self._unfit.items() if unfit == number), "")


def _lifted(kind: FieldType, held: Kind | None) -> FieldType:
    """Return a type that is as wide as the table's column, where that has doubles."""
    if held is None:
        return kind
    core = kind.core
    if held == DOUBLE and isinstance(core, str):
        return replace(kind, core="double")
    if isinstance(core, Items) and isinstance(held, Lists | Maps):
        return replace(kind, core=core._replace(inner=_lifted(core.inner, held.inner)))
    if isinstance(core, Record) and isinstance(held, Structs):
        known = dict(held.fields)
        fields = tuple(field._replace(type=_lifted(field.type, known.get(field.name))) for field in core.fields)
        return replace(kind, core=core._replace(fields=fields))
    return kind
