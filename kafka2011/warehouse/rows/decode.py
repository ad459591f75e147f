"""From the rows of the source to the rows of a table: whole batches of payloads, each with the schema that it names.

Runs on executors. What cannot be decoded is left out of the rows, or given alone, with the reason.
"""

from __future__ import annotations

import base64
import json
import logging
import struct
from collections import defaultdict
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka2011.events.codec import HEADER_BYTES, EventDecoder, fingerprint_of
from kafka2011.events.columns.evolution import evolved
from kafka2011.events.columns.values import FIRST_DAY, FIRST_US, LAST_DAY, LAST_US
from kafka2011.events.errors import InvalidSchemaError, UndecodableEventError, UnknownSchemaError
from kafka2011.warehouse.rows.batch_reader import batch_reader
from kafka2011.warehouse.rows.columns import LOAD_ID, OWN, SCHEMA, arrow_of, table_schema
from kafka2011.warehouse.rows.program import compile_program
from zk.errors import MalformedNode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from kafka2011.events.columns.column_types import Column
    from kafka2011.events.columns.held_columns import HeldColumns
    from kafka2011.events.schemas import EventSchema, KnownSchemas
    from kafka2011.warehouse.rows.batch_reader import BatchReader
    from kafka2011.warehouse.rows.program import Program

_WORTH_A_GROUP = 20
"""So many events of another schema than the first one's in a batch are decoded at once too."""

_MISFITS = (pa.ArrowException, OverflowError, RecursionError, TypeError, ValueError)
"""What a value raises that its column cannot hold."""

logger = logging.getLogger(__name__)

CORRUPT = "the bytes in the log are no message"
PLACE = ("brokerId", "partition", "offset", "nextOffset", "indexInSet")


class RefusedRow(NamedTuple):
    """A message that is no row of the table: its place in the source's batch, and why."""

    row: int
    reason: str


class BatchDecoder:
    """Decodes batches of the source's rows for one load of one topic. Pickles; for one thread."""

    def __init__(self, topic: str, schemas: KnownSchemas, load_id: int, held: HeldColumns | None = None) -> None:
        """Take the columns that the table has already, if any. Raises UnknownSchemaError, ColumnError."""
        self._topic = topic
        self._schemas = schemas
        self._load_id = load_id
        self._held = held
        self._evolution = evolved(schemas, topic, held)
        self.columns = self._evolution.columns
        self.schema = table_schema(self.columns)
        self.widened = self._evolution.widened
        """What columns of the table must have become before it takes these rows."""
        self.fixed = frozenset() if held is None else held.fixed
        """Columns of the table that cannot become what schemas want."""
        self._decoder = EventDecoder(schemas, resolver=self._evolution)
        self.readers: dict[bytes, BatchReader | None] = {}

    def __reduce__(self) -> tuple[type[BatchDecoder], tuple[str, KnownSchemas, int, HeldColumns | None]]:
        return BatchDecoder, (self._topic, self._schemas, self._load_id, self._held)

    def with_answers(self, found: Iterable[EventSchema], absent: Iterable[str]) -> BatchDecoder:
        """Return a decoder that also knows schemas that were looked up, and fingerprints that nobody has registered."""
        return BatchDecoder(self._topic, self._schemas.with_answers(found, absent), self._load_id, self._held)

    def unanswered(self, batch: pa.RecordBatch) -> set[str]:
        """Return the fingerprints in a batch of which it is not known whether they are registered."""
        heads = pc.unique(pc.binary_slice(batch.column("value"), 0, HEADER_BYTES)).to_pylist()
        found: set[str] = set()
        for head in heads:
            with suppress(UndecodableEventError):
                found.add(fingerprint_of(head or b""))
        return {fingerprint for fingerprint in found if not self._schemas.is_answered(fingerprint)}

    def decode(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[RefusedRow]]:
        """Return the rows of the table that a batch of the source holds, and what could not be decoded.

        Raises UnansweredSchemaError: see `unanswered`.
        """
        decoded: list[pa.RecordBatch] = []
        doubtful: list[int] = []
        if batch.num_rows:
            first = _heads(batch.column("value").slice(0, 1))[0]
            left = self.decode_whole(batch, first, np.arange(batch.num_rows), decoded)
            others: dict[bytes | None, list[int]] = defaultdict(list)
            if len(left):
                heads = _heads(batch.column("value").take(pa.array(left)))
                for row, head in zip(left.tolist(), heads, strict=True):
                    others[head].append(row)
            doubtful = others.pop(first, [])
            for head, rows in others.items():
                if len(rows) >= _WORTH_A_GROUP:
                    rows = self.decode_whole(batch, head, np.array(rows), decoded).tolist()  # noqa: PLW2901
                doubtful += rows
        if decoded and not doubtful:
            return decoded[0] if len(decoded) == 1 else pa.concat_batches(decoded), []
        good, refused = self.decode_each(batch.take(pa.array(doubtful, pa.int64())))
        refused = sorted(RefusedRow(doubtful[refusal.row], refusal.reason) for refusal in refused)
        return pa.concat_batches([*decoded, good]), refused

    def decode_whole(
        self, batch: pa.RecordBatch, head: bytes | None, rows: NDArray[np.int64], decoded: list[pa.RecordBatch]
    ) -> NDArray[np.int64]:
        """Decode those of some rows that begin with a head and are good, add them, and return the other rows."""
        reader = self._reader(head)
        if head is None or reader is None:
            return rows
        part = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
        values, refused = reader.decode(part.column("value"))
        if len(refused) < len(rows):
            good = np.delete(np.arange(len(rows)), refused) if len(refused) else range(len(rows))
            decoded.append(self._with_own(values, part, good, fingerprint_of(head)))
        return rows[refused]

    def _reader(self, head: bytes | None) -> BatchReader | None:
        """Return what decodes the events that begin so all at once; None where nothing does."""
        if head is None or len(head) < HEADER_BYTES:
            return None
        if head not in self.readers:
            try:
                schema = self._schemas.schema_of(fingerprint_of(head))
            except (InvalidSchemaError, MalformedNode, UndecodableEventError, UnknownSchemaError):
                return None  # and is not kept: there may be as many as there are messages
            self.readers[head] = batch_reader(schema.fingerprint, partial(self._program, schema))
        return self.readers[head]

    def _program(self, schema: EventSchema) -> Program | None:
        """Return what decodes events of a schema all at once; None where they are decoded one by one."""
        evolution = self._evolution
        if not evolution.is_read_as_written(schema):
            return None
        try:
            return compile_program(evolution.resolved(schema)[0], evolution.reader, evolution.columns)
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError, struct.error) as error:
            logger.debug("topic %s: events of %s are decoded one by one: %s", self._topic, schema, error)
            return None

    def decode_each(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[RefusedRow]]:
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
        self,
        values: list[pa.Array],
        batch: pa.RecordBatch,
        rows: Sequence[int] | NDArray[np.int64],
        fingerprints: list[str] | str,
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


def _heads(payloads: pa.Array) -> list[bytes | None]:
    """Return what stands before the body of each event."""
    heads: list[bytes | None] = pc.binary_slice(payloads, 0, HEADER_BYTES).to_pylist()
    return heads


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
    values = [event[name] for event in events] if change is None else [change(event[name]) for event in events]
    array = pa.array(values, arrow_of(column.column_type.type))
    check_times(array)
    return array


def check_times(array: pa.Array) -> None:
    """Raise ValueError when an array has a time in it that no calendar of a reader has."""
    if pa.types.is_temporal(array.type) and len(array) > array.null_count:
        is_date = pa.types.is_date32(array.type)
        bounds = pc.min_max(array.view(pa.int32() if is_date else pa.int64()))
        first, last = (FIRST_DAY, LAST_DAY) if is_date else (FIRST_US, LAST_US)
        if bounds["min"].as_py() < first or bounds["max"].as_py() > last:
            raise ValueError("a time outside of the years 1 to 9999")
    elif pa.types.is_struct(array.type):
        for inner in array.flatten():
            check_times(inner)
    elif pa.types.is_map(array.type):
        check_times(array.items)
    elif pa.types.is_list(array.type):
        check_times(array.flatten())


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
