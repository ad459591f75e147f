"""One type for a field through all schemas of a topic: the widest, by Avro's own promotions.

A type is taken apart into what a column sees of it (`FieldType`): whether it may be null, and its core. Two of them are
merged into one that holds the values of both, each exactly:

    int, long                           long
    a whole number and a float          double: a float has 24 bits
    float, double                       double
    string, bytes                       the one that came first; a text is bytes, and bytes that are UTF-8 are a text
    times in milli- and microseconds    microseconds
    decimals of one scale               the larger precision
    enums                               all symbols
    records                             all fields; an alias names the field that was there before
    a union that gains a member         JSON text, as every union of several types

All else cannot be merged. Nothing here is changed once it is made.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.events.columns.column_types import names_that_differ_in_case
from kafka2011.events.schema_walk import RECORDS, named_types, walk
from kafka2011.events.schemas import reads

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MISSING: Any = object()
"""The default of a field that has none."""

_RANKS = {"int": 0, "long": 1, "float": 2, "double": 3}
_TEXTS = frozenset({"string", "bytes"})


class UnmergeableError(Exception):
    """No type holds the values of two; the text says of which."""


class Logical(NamedTuple):
    """A logical type that columns know. Times are in microseconds, `factor` of which are one of the schema's own."""

    base: str
    name: str
    precision: int = 0
    scale: int = 0
    size: int = 0
    factor: int = 1


class Enum(NamedTuple):
    """An enum; `name` has no namespace."""

    name: str
    symbols: tuple[str, ...]
    default: str | None


class Fixed(NamedTuple):
    """So many bytes."""

    name: str
    size: int


class Items(NamedTuple):
    """An array or a map."""

    kind: str
    inner: FieldType


class RecordField(NamedTuple):
    """A field of a record: its first name, and all names it had; the default is that of the newest schema with it."""

    name: str
    type: FieldType
    default: Any
    source: FieldType
    """The type that the default is a value of."""
    names: frozenset[str]
    aliases: tuple[str, ...]


class Record(NamedTuple):
    """A record, and for each schema by its number how the record's fields there are named here."""

    name: str
    fields: tuple[RecordField, ...]
    maps: Mapping[int, Mapping[str, str]]


class Json(NamedTuple):
    """What columns keep as JSON text: a union of several types, a record within itself or without fields."""

    branches: tuple[Branch, ...]


Core = None | str | Logical | Enum | Fixed | Items | Record | Json
"""None where there is nothing but null."""


@dataclass(frozen=True, slots=True)
class FieldType:
    """What a column sees of a type; `branches` are the types of the schemas themselves, as JSON text needs them."""

    core: Core
    is_nullable: bool
    branches: tuple[Branch, ...] = ()

    def __str__(self) -> str:  # noqa: PLR0911 (one for each kind of type)
        """Name the type, as reasons do."""
        core = self.core
        if core is None:
            return "null"
        if isinstance(core, str):
            return core
        if isinstance(core, Logical):
            return f"{core.name}({core.precision}, {core.scale})" if core.name == "decimal" else core.name
        if isinstance(core, Items):
            return f"{core.kind} of {core.inner}"
        if isinstance(core, Json):
            return "union of " + " and ".join(branch.kind for branch in core.branches)
        if isinstance(core, Fixed):
            return f"fixed of {core.size} bytes"
        return f"{type(core).__name__.lower()} {core.name}"


@dataclass(frozen=True)
class Branch:
    """A type as a parsed schema has it, whose named types are `named`."""

    part: Any
    named: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """The kind of the type, or the name of a logical one."""
        found = self.named.get(self.part, self.part) if isinstance(self.part, str) else self.part
        return found if isinstance(found, str) else str(found["type"])

    @property
    def key(self) -> tuple[str, str]:
        """What tells the members of a union apart."""
        found = self.named.get(self.part, self.part) if isinstance(self.part, str) else self.part
        name = found.get("name", "") if isinstance(found, dict) else ""
        return self.kind, _last(name)

    def document(self, namespace: str, defined: set[str]) -> Any:
        """Return the type as JSON that needs no other: its named types lie in a namespace, each defined once."""
        return _opaque(self.part, self.named, namespace, defined)

    @property
    def text(self) -> str:
        """The type as text, the same for equal ones."""
        return json.dumps(self.document("", set()), sort_keys=True)


def type_of(part: Any, named: Mapping[str, Any], number: int) -> FieldType:
    """Return a type of the parsed schema of a number, whose named types are `named`."""
    if isinstance(part, list):
        rest = [branch for branch in part if branch != "null"]
        is_nullable = len(rest) < len(part)
        if not rest:
            return FieldType(None, is_nullable=True)
        if len(rest) == 1:
            return replace(type_of(rest[0], named, number), is_nullable=is_nullable)
        branches = tuple(Branch(branch, named) for branch in rest)
        core: Core = "long" if set(map(str, rest)) <= {"int", "long"} else Json(branches)
        return FieldType(core, is_nullable, branches)
    if part == "null":
        return FieldType(None, is_nullable=True)
    whole = named.get(part, part) if isinstance(part, str) else part
    branches = (Branch(part, named),)
    return FieldType(_core_of(whole, named, number, branches), is_nullable=False, branches=branches)


def _core_of(  # noqa: PLR0911 (one for each kind of type)
    part: Any, named: Mapping[str, Any], number: int, branches: tuple[Branch, ...]
) -> Core:
    if isinstance(part, str):
        return part
    kind, logical = part["type"], part.get("logicalType")
    if logical == "decimal" and kind in {"bytes", "fixed"}:
        return Logical(kind, logical, part["precision"], part.get("scale", 0), part.get("size", 0))
    if (logical, kind) in KNOWN_TIMES:
        factor = 1000 if logical.endswith("millis") else 1
        return Logical(kind, logical.replace("millis", "micros"), factor=factor)
    if kind == "enum":
        return Enum(_last(part["name"]), tuple(part["symbols"]), part.get("default"))
    if kind == "fixed":
        return Fixed(_last(part["name"]), part["size"])
    if kind in {"array", "map"}:
        return Items(kind, type_of(part["items" if kind == "array" else "values"], named, number))
    if kind not in RECORDS:
        return str(kind)
    if not part["fields"] or part["name"] in walk(part, named):
        return Json(branches)
    fields = tuple(field_of(field, named, number) for field in part["fields"])
    return Record(_last(part["name"]), fields, {number: {field.name: field.name for field in fields}})


KNOWN_TIMES = frozenset(
    {
        ("timestamp-micros", "long"),
        ("timestamp-millis", "long"),
        ("local-timestamp-micros", "long"),
        ("local-timestamp-millis", "long"),
        ("date", "int"),
    }
)
"""The logical types of times that columns know, with their bases."""


def field_of(field: Mapping[str, Any], named: Mapping[str, Any], number: int) -> RecordField:
    """Return a field of a record of the parsed schema of a number."""
    kind = type_of(field["type"], named, number)
    name, aliases = field["name"], tuple(field.get("aliases", ()))
    return RecordField(name, kind, field.get("default", MISSING), kind, frozenset({name}), aliases)


# Merging -------------------------------------------------------------------------------------------------------------


def merged(held: FieldType, new: FieldType) -> FieldType:
    """Return the type that holds the values of both. Raises UnmergeableError."""
    is_nullable = held.is_nullable or new.is_nullable
    branches = _distinct((*held.branches, *new.branches))
    if held.core is None or new.core is None:
        return FieldType(held.core if new.core is None else new.core, is_nullable, branches)
    if isinstance(held.core, Json) or isinstance(new.core, Json):
        return FieldType(Json(_members(branches)), is_nullable, branches)
    core = _merged_core(held.core, new.core)
    if core is None:
        raise UnmergeableError(f"{new} is no {held}")
    return FieldType(core, is_nullable, branches)


def covers(held: FieldType, new: FieldType) -> bool:
    """Say whether a type holds the values of another one as it is."""
    try:
        return bool(_shape(merged(held, new)) == _shape(held))
    except UnmergeableError:
        return False


def _merged_core(held: Core, new: Core) -> Core:  # noqa: PLR0911 (one for each kind of type)
    """Return the core of a type that holds both, None where there is none. Raises UnmergeableError."""
    if isinstance(held, str) and isinstance(new, str):
        if held in _RANKS and new in _RANKS:
            low, high = sorted((held, new), key=_RANKS.__getitem__)
            return "double" if high == "float" and low != "float" else high
        return held if held == new or {held, new} <= _TEXTS else None
    if type(held) is not type(new):
        return None
    if isinstance(held, Logical) and isinstance(new, Logical):
        return _merged_logical(held, new)
    if isinstance(held, Enum) and isinstance(new, Enum):
        return Enum(new.name, tuple(dict.fromkeys(held.symbols + new.symbols)), new.default)
    if isinstance(held, Fixed) and isinstance(new, Fixed):
        return new if held.size == new.size else None
    if isinstance(held, Items) and isinstance(new, Items):
        return Items(held.kind, merged(held.inner, new.inner)) if held.kind == new.kind else None
    assert isinstance(held, Record), "there are no others"
    assert isinstance(new, Record), "it is of the same type"
    return _merged_record(held, new)


def _merged_logical(held: Logical, new: Logical) -> Logical | None:
    if held._replace(precision=0, factor=1) != new._replace(precision=0, factor=1):
        return None
    return held if held.precision >= new.precision else new


def _merged_record(held: Record, new: Record) -> Record:
    own, by_alias = matches(held.fields, new.fields)
    fields = {field.name: field for field in held.fields}
    names: dict[str, str] = {}
    for field in new.fields:
        if field.name in own:
            key = own[field.name]
            try:
                fields[key] = merged_field(fields[key], field)
            except UnmergeableError as error:
                raise UnmergeableError(f"{field.name}: {error}") from None
        else:
            key = by_alias.get(field.name, field.name)
            try:
                fields[key] = merged_field(fields[key], field) if key in fields else field
            except UnmergeableError:
                key = field.name
                fields[key] = field
        names[field.name] = key
    if twins := names_that_differ_in_case(fields):
        raise UnmergeableError(f"its fields {twins[0]} and {twins[1]} are one to readers that ignore case")
    translated = {number: {name: names[here] for name, here in own_map.items()} for number, own_map in new.maps.items()}
    return Record(new.name, tuple(fields.values()), {**held.maps, **translated})


def merged_field(held: RecordField, new: RecordField) -> RecordField:
    """Return a field that holds the values of both, with the default of the new one. Raises UnmergeableError."""
    kind = merged(held.type, new.type)
    return RecordField(held.name, kind, new.default, new.source, held.names | new.names, ())


def matches(held: Iterable[RecordField], new: Sequence[RecordField]) -> tuple[dict[str, str], dict[str, str]]:
    """Return for each field of a newer schema which of those it is: of a name it has had, and of its aliases.

    Those of the latter are renamed. No two fields of a schema are one. Fields in neither are new.
    """
    held = list(held)
    every = {name: field.name for field in held for name in field.names} | {field.name: field.name for field in held}
    exact = {field.name for field in held}
    own = {field.name: field.name for field in new if field.name in exact}
    for field in new:
        if field.name not in own and field.name in every and every[field.name] not in own.values():
            own[field.name] = every[field.name]
    by_alias: dict[str, str] = {}
    for field in new:
        taken = {*own.values(), *by_alias.values()}
        found = (every[alias] for alias in field.aliases if alias in every and every[alias] not in taken)
        if field.name not in own and (target := next(found, None)) is not None:
            by_alias[field.name] = target
    return own, by_alias


# What is kept as JSON text -------------------------------------------------------------------------------------------


def _distinct(branches: Iterable[Branch]) -> tuple[Branch, ...]:
    return tuple({branch.text: branch for branch in branches}.values())


def _members(branches: Sequence[Branch]) -> tuple[Branch, ...]:
    """Return the members of one union that reads them all. Raises UnmergeableError."""
    by_key: dict[tuple[str, str], list[Branch]] = {}
    for branch in branches:
        by_key.setdefault(branch.key, []).append(branch)
    if {("string", ""), ("bytes", "")} <= by_key.keys():
        raise UnmergeableError("a union of string and bytes: their values could not be told apart")
    members = [reduce(_wider, alike) for alike in by_key.values()]
    return tuple(sorted(members, key=lambda member: _RANKS.get(member.kind, len(_RANKS))))


def _wider(held: Branch, new: Branch) -> Branch:
    """Return the one of two types of one name that reads the other's values."""
    old_text, new_text = held.document("", set()), new.document("", set())
    if reads(new_text, old_text):
        return new
    if reads(old_text, new_text):
        return held
    raise UnmergeableError(f"{' '.join(new.key).strip()} has changed within a union, and does not read what it was")


def _opaque(part: Any, named: Mapping[str, Any], namespace: str, defined: set[str]) -> Any:
    if isinstance(part, list):
        return [_opaque(branch, named, namespace, defined) for branch in part]
    whole = named.get(part, part) if isinstance(part, str) else part
    if isinstance(whole, str):
        return whole
    kind = whole["type"]
    if kind in {"array", "map"}:
        held = "items" if kind == "array" else "values"
        return {"type": kind, held: _opaque(whole[held], named, namespace, defined)}
    if "name" not in whole:
        return {name: value for name, value in whole.items() if not name.startswith("__")}
    name = _placed_name(whole["name"], named, namespace)
    if name in defined:
        return name
    defined.add(name)
    kept = {
        key: whole[key]
        for key in ("type", "symbols", "default", "size", "logicalType", "precision", "scale")
        if key in whole
    }
    if kind in RECORDS:
        kept["fields"] = [_opaque_field(field, named, namespace, defined) for field in whole["fields"]]
    return {**kept, "name": name}


def _opaque_field(field: Mapping[str, Any], named: Mapping[str, Any], namespace: str, defined: set[str]) -> Any:
    kept = {key: field[key] for key in ("name", "aliases") if key in field}
    kept["type"] = _opaque(field["type"], named, namespace, defined)
    return kept | ({"default": plain(field["default"])} if "default" in field else {})


def _placed_name(name: str, named: Mapping[str, Any], namespace: str) -> str:
    """Return a name in a namespace: without its own one, unless two types differ in nothing else."""
    alike = sum(_last(other) == _last(name) for other in named)
    own = name.replace(".", "_") if alike > 1 else _last(name)
    return f"{namespace}.{own}" if namespace else own


def plain(value: Any) -> Any:
    """Return the default of a parsed schema as JSON has it."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def _shape(kind: FieldType) -> Any:
    """Return what of a type decides on its column and on what it reads."""
    core = kind.core
    if isinstance(core, Items):
        return core.kind, _shape(core.inner)
    if isinstance(core, Record):
        return [(field.name, _shape(field.type)) for field in core.fields]
    if isinstance(core, Enum):
        return set(core.symbols)
    if isinstance(core, Fixed):
        return core.size
    if isinstance(core, Logical):
        return core._replace(factor=1)
    return [branch.text for branch in core.branches] if isinstance(core, Json) else core


def fields_of(parsed: Any, number: int) -> list[RecordField]:
    """Return the fields of the parsed schema of a number."""
    named = named_types(parsed)
    return [field_of(field, named, number) for field in parsed["fields"]]


def _last(name: str) -> str:
    return name.rpartition(".")[2]
