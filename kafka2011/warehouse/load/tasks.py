"""A load's work on Spark's executors: read ranges of partitions, decode them, and look at what was written.

Everything here pickles to Python workers. No ZooKeeper: addresses and schemas come along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kafka2011.audit.report import short_ids
from kafka2011.spark.reader import read_partition
from kafka2011.warehouse.load.coverage import Run, runs_of
from kafka2011.warehouse.rows.columns import BROKER_ID, INDEX_IN_SET, NEXT_OFFSET, OFFSET, PARTITION
from kafka2011.warehouse.rows.decode import CORRUPT, PLACE, json_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafka2011.spark.reader import RangePartition, ReadSettings
    from kafka2011.warehouse.rows.decode import BatchDecoder

PLACES = (BROKER_ID, PARTITION, OFFSET, NEXT_OFFSET, INDEX_IN_SET)
"""The columns that say where a row comes from, as `runs_of` takes them."""

RUN_COLUMNS = "broker_id int, partition int, start long, end long, rows long, largest int, hashes long"
REFUSED_COLUMNS = "broker_id int, partition int, start long, end long, index int, corrupt boolean, line string"
COUNT_COLUMNS = "broker_id int, partition int, published_at binary, ids binary, offsets binary, indexes binary"

_COUNTS = pa.schema(
    [
        *(pa.field(name, pa.int32()) for name in ("broker_id", "partition")),
        *(pa.field(name, pa.binary()) for name in ("published_at", "ids", "offsets", "indexes")),
    ]
)

_HELD_ROWS = 1_000_000
"""So many places are held until they are made runs of."""


class LoadTasks:
    """The tasks of one load: number them, and each reads its range and decodes it."""

    def __init__(self, topic: str, tasks: Sequence[RangePartition], settings: ReadSettings, decoder: BatchDecoder):
        self.topic = topic
        self.tasks = tuple(tasks)
        self.settings = settings
        self.decoder = decoder

    def rows(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the table that the ranges of these tasks hold."""
        for batch in self._batches(numbers):
            found, _ = self.decoder.decode(batch)
            if found.num_rows:
                yield found

    def refused(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what `rows` leaves out: places, and a line of JSON with the payload and the reason."""
        for batch in self._batches(numbers):
            _, refused = self.decoder.decode(batch)
            if refused:
                rows = pa.array([each.row for each in refused], pa.int64())
                yield pa.RecordBatch.from_arrays(
                    [
                        *(batch.column(name).take(rows) for name in PLACE),
                        pa.array([each.reason == CORRUPT for each in refused]),
                        pa.array([json_line(batch, each, self.topic) for each in refused]),
                    ],
                    names=["broker_id", "partition", "start", "end", "index", "corrupt", "line"],
                )

    def _batches(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from read_partition(self.tasks[number], self.settings)


def runs_in(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the runs that the places in these batches make, see `coverage`."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= _HELD_ROWS:
            yield _as_batch(_runs_of(held))
            held, rows = [], 0
    if rows:
        yield _as_batch(_runs_of(held))


def counts_in(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what the audit counts of these rows: times, short ids and places, packed, for each partition in a batch."""
    for batch in batches:
        broker_ids, partitions = batch.column(BROKER_ID).to_numpy(), batch.column(PARTITION).to_numpy()
        found = []
        for broker_id, partition in sorted(set(zip(broker_ids.tolist(), partitions.tolist(), strict=True))):
            rows = pa.array((broker_ids == broker_id) & (partitions == partition))
            found.append((broker_id, partition, *_packed(batch.filter(rows))))
        if found:
            yield pa.RecordBatch.from_pylist([dict(zip(_COUNTS.names, row, strict=True)) for row in found], _COUNTS)


def _packed(batch: pa.RecordBatch) -> tuple[bytes, bytes, bytes, bytes]:
    ids = batch.column("id").to_pylist()
    try:
        short = short_ids(ids)
    except ValueError:  # as every tier does, leave out what is no UUID
        good = [row for row, each in enumerate(ids) if _is_uuid(each)]
        batch = batch.take(pa.array(good, pa.int64()))
        short = short_ids([ids[row] for row in good])
    published_at = batch.column("published_at").cast(pa.int64()).to_numpy()
    offsets, indexes = batch.column(OFFSET).to_numpy(), batch.column(INDEX_IN_SET).to_numpy()
    return published_at.tobytes(), short.tobytes(), offsets.tobytes(), indexes.tobytes()


def _is_uuid(text: str) -> bool:
    try:
        short_ids([text])
    except ValueError:
        return False
    return True


def _runs_of(batches: list[pa.RecordBatch]) -> list[Run]:
    table = pa.Table.from_batches(batches)
    return runs_of(*(table.column(name).to_numpy() for name in PLACES))


def _as_batch(runs: list[Run]) -> pa.RecordBatch:
    columns = list(zip(*runs, strict=True))
    hashes = np.array(columns[6], np.uint64).astype(np.int64)  # Spark has no unsigned ones
    kinds = (pa.int32(), pa.int32(), pa.int64(), pa.int64(), pa.int64(), pa.int32())
    arrays = [pa.array(column, kind) for column, kind in zip(columns[:6], kinds, strict=True)]
    return pa.RecordBatch.from_arrays([*arrays, pa.array(hashes)], names=list(Run._fields))
