"""Tries a schema before it is registered: what encoders, decoders and loads will do with it.

A schema passes if it can become columns, alone and beside the topic's other schemas; and if sample events, in which
each default is used, can be written, read and made rows. Schemas that are registered but cannot become columns
themselves do not count against a new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.events.codec import EventDecoder, EventEncoder
from kafka2011.events.columns.column_types import table_columns
from kafka2011.events.columns.evolution import Evolution, evolution_of
from kafka2011.events.columns.held_columns import HeldColumn, HeldColumns
from kafka2011.events.columns.sample_events import NoValueError, sample_events
from kafka2011.events.columns.values import why_no_row
from kafka2011.events.errors import ColumnError, InvalidSchemaError, UndecodableEventError, UnencodableEventError
from kafka2011.events.schemas import KnownSchemas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.events.schemas import EventSchema

    Numbered = tuple[int, EventSchema]


def check_usable(
    new: EventSchema,
    known: Sequence[Numbered],
    topic: str,
    *,
    number: int | None = None,
    may_exclude: bool = False,
) -> None:
    """Check that a new schema can be used in a topic with these known ones, whose numbers rise.

    `number` is the one that it will have, for the reasons; the next one unless it is given. With `may_exclude` its
    types may exclude those of other schemas, as far as a new table has columns for its events: events of the others
    then wait in quarantine, or its own where a table has columns of the other types already.

    Raises ColumnError and InvalidSchemaError, which name the field and the reason.
    """
    table_columns(new, topic)
    samples = _payloads(new, topic)
    fit = [(number, schema) for number, schema in known if _has_columns(schema, topic)]
    numbered = (number or (known[-1][0] + 1 if known else 1), new)
    together = evolution_of((*fit, numbered), topic, None)
    if may_exclude:
        why = together.why_refused(new) or _why_no_rows(evolution_of((numbered,), topic, None), new, samples)
    elif not fit:
        why = _why_not_in_any([together], new, samples)
    else:
        before = evolution_of(tuple(fit), topic, None)
        grown = evolution_of((*fit, numbered), topic, _held(before, fit[-1][0]))
        tables = (together, grown)
        why = _why_not_in_any(tables, new, samples) or _why_others_are_lost(before, tables, fit, topic)
    if why:
        raise ColumnError(f"topic {topic}: events could not be loaded with this schema: {why}")


def _why_others_are_lost(
    before: Evolution, tables: Sequence[Evolution], known: Sequence[Numbered], topic: str
) -> str | None:
    """Return the reason why tables have no rows of a known schema that the one `before` has; None if they have all."""
    for number, schema in known:
        samples = _payloads(schema, topic, is_registered=True)
        if _why_not_in_any([before], schema, samples) is None:
            why = _why_not_in_any(tables, schema, samples)
            if why is not None:
                return f"those of schema {number} would be refused: {why}"
    return None


def _why_not_in_any(tables: Sequence[Evolution], schema: EventSchema, samples: Sequence[bytes]) -> str | None:
    """Return the reason why events of a schema cannot be rows of one of some tables; None if they can be of each."""
    whys = (table.why_refused(schema) or _why_no_rows(table, schema, samples) for table in tables)
    return next((why for why in whys if why), None)


def _has_columns(schema: EventSchema, topic: str) -> bool:
    try:
        table_columns(schema, topic)
    except ColumnError:
        return False
    return True


def _held(evolution: Evolution, number: int) -> HeldColumns:
    """Return the columns that a table has after loads up to the schema of a number."""
    return HeldColumns(tuple(HeldColumn(column.name, column.column_type.type) for column in evolution.columns), number)


def _payloads(schema: EventSchema, topic: str, *, is_registered: bool = False) -> list[bytes]:
    """Return sample events of a schema as bytes. Raises InvalidSchemaError unless it `is_registered` already."""
    known = KnownSchemas({topic: schema})
    try:
        payloads = [EventEncoder(known).encode(topic, event) for event in sample_events(schema.writer)]
        decoder = EventDecoder(known)
        for payload in payloads:
            decoder.decode_payload(payload)
    except (NoValueError, UnencodableEventError, UndecodableEventError) as error:
        if is_registered:
            return []
        raise InvalidSchemaError(
            f"{schema.name}: an event that leaves out the fields with defaults could not be written or read: {error}"
        ) from error
    return payloads


def _why_no_rows(table: Evolution, schema: EventSchema, payloads: Sequence[bytes]) -> str | None:
    """Return the reason why one of some events of a schema cannot be a row of a table; None if all can."""
    decoder = EventDecoder(KnownSchemas({"": schema}), resolver=table)
    for payload in payloads:
        try:
            event = decoder.decode_payload(payload)
        except UndecodableEventError as error:
            return error.reason
        if why := why_no_row(table.columns, event.fields):
            return why
    return None
