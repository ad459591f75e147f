"""From the rows of the source to the rows of a table: whole batches of payloads, each with the schema that it names.

Runs on executors. What cannot be decoded is left out of the rows, or given alone, with the reason.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka2011.events.codec import HEADER_BYTES, EventDecoder, fingerprint_of
from kafka2011.events.errors import UndecodableEventError, UnknownSchemaError
from kafka2011.warehouse.rows.columns import LOAD_ID, OWN, SCHEMA, table_columns, table_schema
from kafka2011.warehouse.rows.flat import flat_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kafka2011.events.schemas import KnownSchemas
    from kafka2011.warehouse.rows.columns import Column
    from kafka2011.warehouse.rows.flat import FlatReader

FIRST_US = -62_135_596_800_000_000
LAST_US = 253_402_300_799_999_999
"""The first and last microsecond that readers have a date for: of the years 1 and 9999."""

_WORTH_A_GROUP = 100
"""So many events of one schema in a batch are decoded by themselves."""

_MISFITS = (pa.ArrowException, OverflowError, RecursionError, TypeError, ValueError)
"""What a value raises that its column cannot hold."""

CORRUPT = "the bytes in the log are no message"
PLACE = ("brokerId", "partition", "offset", "nextOffset", "indexInSet")


class RefusedRow(NamedTuple):
    """A message that is no row of the table: its place in the source's batch, and why."""

    row: int
    reason: str


class BatchDecoder:
    """Decodes batches of the source's rows for one load of one topic. Pickles; for one thread."""

    def __init__(self, topic: str, schemas: KnownSchemas, load_id: int) -> None:
        self._topic = topic
        self._schemas = schemas
        self._load_id = load_id
        self.columns = table_columns(schemas.newest(topic), topic)
        self.schema = table_schema(self.columns)
        self._decoder = EventDecoder(schemas, schemas.newest(topic))
        self._readers: dict[bytes, FlatReader | None] = {}

    def __reduce__(self) -> tuple[type[BatchDecoder], tuple[str, KnownSchemas, int]]:
        return BatchDecoder, (self._topic, self._schemas, self._load_id)

    def decode(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[RefusedRow]]:
        """Return the rows of the table that a batch of the source holds, and what could not be decoded."""
        whole = self._decode_whole(batch)
        if whole is not None:
            return whole, []
        heads = pc.binary_slice(batch.column("value"), 0, HEADER_BYTES)
        counts = [each.as_py() for each in heads.value_counts()]
        common = [each["values"] for each in counts if each["values"] is not None and each["counts"] >= _WORTH_A_GROUP]
        if len(counts) == 1 or not common:  # some of them are not good
            return self._decode_each(batch)
        found: list[pa.RecordBatch] = []
        refused: list[RefusedRow] = []
        rest = np.ones(batch.num_rows, np.bool_)
        for head in common:
            chosen = np.asarray(pc.equal(heads, pa.scalar(head, heads.type)).fill_null(False))
            rest &= ~chosen
            self._decode_rows(batch, np.flatnonzero(chosen), found, refused)
        self._decode_rows(batch, np.flatnonzero(rest), found, refused)
        return pa.concat_batches(found), sorted(refused)

    def _decode_rows(
        self, batch: pa.RecordBatch, rows: NDArray[np.int64], found: list[pa.RecordBatch], refused: list[RefusedRow]
    ) -> None:
        """Decode some rows of a batch, and add what comes of them."""
        part = batch.take(pa.array(rows))
        whole = self._decode_whole(part)
        if whole is not None:
            found.append(whole)
            return
        good, bad = self._decode_each(part)
        found.append(good)
        refused += [RefusedRow(int(rows[each.row]), each.reason) for each in bad]

    def _decode_whole(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Decode a batch at once, if all its events are of one schema that allows it and all are good."""
        payloads = batch.column("value")
        if payloads.null_count or not len(payloads):
            return None
        head = payloads[0].as_py()[:HEADER_BYTES]
        if head not in self._readers:
            self._readers[head] = self._reader(head)
        reader = self._readers[head]
        values = None if reader is None else reader.decode(payloads)
        if values is None:
            return None
        try:
            for array in values:
                check_times(array)
        except ValueError:
            return None
        return self._with_own(values, batch, range(len(payloads)), fingerprint_of(head))

    def _reader(self, head: bytes) -> FlatReader | None:
        try:
            schema = self._schemas.schema_of(fingerprint_of(head))
        except (UndecodableEventError, UnknownSchemaError):
            return None
        return flat_reader(schema, self._schemas.newest(self._topic), self.columns)

    def _decode_each(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[RefusedRow]]:
        """Decode events one by one: the judge of what is good."""
        decoder = self._decoder
        events: list[dict[str, Any]] = []
        good: list[int] = []
        refused: list[RefusedRow] = []
        fingerprints: list[str] = []
        for row, payload in enumerate(batch.column("value").to_pylist()):
            if payload is None:
                refused.append(RefusedRow(row, CORRUPT))
                continue
            try:
                event = decoder.decode_payload(payload)
            except UndecodableEventError as error:
                refused.append(RefusedRow(row, str(error)))
                continue
            events.append(event.fields)
            good.append(row)
            fingerprints.append(event.schema.fingerprint)
        values, misfits = columns_from_events(self.columns, events)
        if misfits:
            refused += [RefusedRow(good[row], reason) for row, reason in misfits]
            bad = {row for row, _ in misfits}
            kept = [number for number in range(len(good)) if number not in bad]
            good = [good[number] for number in kept]
            fingerprints = [fingerprints[number] for number in kept]
        return self._with_own(values, batch, good, fingerprints), refused

    def _with_own(
        self, values: list[pa.Array], batch: pa.RecordBatch, rows: Sequence[int], fingerprints: list[str] | str
    ) -> pa.RecordBatch:
        """Return the batch of the table: decoded columns, and where each row comes from."""
        if len(rows) != batch.num_rows:
            batch = batch.take(pa.array(rows, pa.int64()))
        own = [batch.column(name) for name in PLACE]
        own.append(pa.repeat(pa.scalar(self._load_id, OWN.field(LOAD_ID).type), len(rows)))
        kind = OWN.field(SCHEMA).type
        one_for_all = isinstance(fingerprints, str)
        own.append(pa.repeat(pa.scalar(fingerprints, kind), len(rows)) if one_for_all else pa.array(fingerprints, kind))
        return pa.RecordBatch.from_arrays([*values, *own], schema=self.schema)


def columns_from_events(columns: list[Column], events: list[dict[str, Any]]) -> tuple[list[pa.Array], list[RefusedRow]]:
    """Return one array for each column, and the events that have a value which a column cannot hold."""
    try:
        return [_array(column, events) for column in columns], []
    except _MISFITS:
        pass
    misfits = [RefusedRow(row, why) for row, event in enumerate(events) if (why := _misfit(columns, event))]
    bad = {row for row, _ in misfits}
    return [_array(column, [e for row, e in enumerate(events) if row not in bad]) for column in columns], misfits


def _array(column: Column, events: list[dict[str, Any]]) -> pa.Array:
    name, change = column.field, column.column_type.convert
    found = [event[name] for event in events] if change is None else [change(event[name]) for event in events]
    array = pa.array(found, column.column_type.type)
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
        except _MISFITS as error:
            return f"field {column.field}: {error}"
    return None


def json_line(batch: pa.RecordBatch, refused: RefusedRow, topic: str) -> str:
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
