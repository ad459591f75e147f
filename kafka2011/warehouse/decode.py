"""From the rows of the source to the rows of a table: whole batches of payloads, each with the schema that it names.

Runs on executors. What cannot be decoded is left out of the rows, or given alone, with the reason.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafka2011.pipeline.errors import UndecodableEventError
from kafka2011.pipeline.events import EventDecoder, fingerprint_of
from kafka2011.warehouse.columns import LOAD_ID, OWN, SCHEMA, arrow_schema, columns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.pipeline.schemas import KnownSchemas
    from kafka2011.warehouse.columns import Column

FIRST_US = -62_135_596_800_000_000
LAST_US = 253_402_300_799_999_999
"""The first and last microsecond that readers have a date for: of the years 1 and 9999."""

CORRUPT = "the bytes in the log are no message"
PLACE = ("brokerId", "partition", "offset", "nextOffset", "indexInSet")


class Refused(NamedTuple):
    """A message that is no row of the table: its place in the source's batch, and why."""

    row: int
    reason: str


class BatchDecoder:
    """Decodes batches of the source's rows for one load of one topic. Pickles; for one thread."""

    def __init__(self, topic: str, schemas: KnownSchemas, load_id: int) -> None:
        self._topic = topic
        self._schemas = schemas
        self._load_id = load_id
        self.columns = columns_of(schemas.newest(topic), topic)
        self.schema = arrow_schema(self.columns)

    def __reduce__(self) -> tuple[type[BatchDecoder], tuple[str, KnownSchemas, int]]:
        return BatchDecoder, (self._topic, self._schemas, self._load_id)

    def decode(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Refused]]:
        """Return the rows of the table that a batch of the source holds, and what could not be decoded."""
        decoder = EventDecoder(self._schemas, self._schemas.newest(self._topic))
        events: list[dict[str, Any]] = []
        good: list[int] = []
        refused: list[Refused] = []
        fingerprints: list[str] = []
        for row, payload in enumerate(batch.column("value").to_pylist()):
            if payload is None:
                refused.append(Refused(row, CORRUPT))
                continue
            try:
                event = decoder.decode_payload(payload)
            except UndecodableEventError as error:
                refused.append(Refused(row, str(error)))
                continue
            events.append(event.fields)
            good.append(row)
            fingerprints.append(fingerprint_of(payload))
        values, misfits = columns_from_events(self.columns, events)
        if misfits:
            refused += [Refused(good[row], reason) for row, reason in misfits]
            bad = {row for row, _ in misfits}
            kept = [number for number in range(len(good)) if number not in bad]
            good = [good[number] for number in kept]
            fingerprints = [fingerprints[number] for number in kept]
        return self._with_own(values, batch, good, fingerprints), refused

    def _with_own(
        self, values: list[pa.Array], batch: pa.RecordBatch, rows: Sequence[int], fingerprints: list[str]
    ) -> pa.RecordBatch:
        """Return the batch of the table: decoded columns, and where each row comes from."""
        if len(rows) != batch.num_rows:
            batch = batch.take(pa.array(rows, pa.int64()))
        own = [batch.column(name) for name in PLACE]
        own.append(pa.repeat(pa.scalar(self._load_id, OWN.field(LOAD_ID).type), len(rows)))
        own.append(pa.array(fingerprints, OWN.field(SCHEMA).type))
        return pa.RecordBatch.from_arrays([*values, *own], schema=self.schema)


def columns_from_events(columns: list[Column], events: list[dict[str, Any]]) -> tuple[list[pa.Array], list[Refused]]:
    """Return one array for each column, and the events that have a value which a column cannot hold."""
    try:
        return [_array(column, events) for column in columns], []
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        pass
    misfits = [Refused(row, why) for row, event in enumerate(events) if (why := _misfit(columns, event))]
    bad = {row for row, _ in misfits}
    return [_array(column, [e for row, e in enumerate(events) if row not in bad]) for column in columns], misfits


def _array(column: Column, events: list[dict[str, Any]]) -> pa.Array:
    name, change = column.field, column.kind.convert
    found = [event[name] for event in events] if change is None else [change(event[name]) for event in events]
    array = pa.array(found, column.kind.type)
    check_times(array)
    return array


def check_times(array: pa.Array) -> None:
    """Raise ValueError when an array of times has one that no calendar of a reader has."""
    if pa.types.is_timestamp(array.type) and len(array) > array.null_count:
        bounds = pc.min_max(array.view(pa.int64()))
        if bounds["min"].as_py() < FIRST_US or bounds["max"].as_py() > LAST_US:
            raise ValueError("a time outside of the years 1 to 9999")


def _misfit(columns: list[Column], event: dict[str, Any]) -> str | None:
    for column in columns:
        try:
            _array(column, [event])
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            return f"field {column.field}: {error}"
    return None


def json_line(batch: pa.RecordBatch, refused: Refused, topic: str) -> str:
    """Return the line of JSON for a message of a batch of the source that was refused."""
    place = {name: batch.column(name)[refused.row].as_py() for name in PLACE}
    payload = batch.column("value")[refused.row].as_py()
    return json.dumps(
        {
            "topic": topic,
            "broker_id": place["brokerId"],
            "partition": place["partition"],
            "offset": place["offset"],
            "next_offset": place["nextOffset"],
            "index_in_set": place["indexInSet"],
            "reason": refused.reason,
            "payload": None if payload is None else base64.b64encode(payload).decode(),
        },
        ensure_ascii=False,
    )
