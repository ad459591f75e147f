"""A load's tasks, wherever they run: read ranges of partitions, decode them, write rows, and say what was written.

Everything here pickles. No ZooKeeper: addresses and schemas come along.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import numpy as np
import pyarrow as pa

from kafka2011.audit.report import (
    ID_TYPE,
    UUID_CHARACTERS,
    Places,
    is_uuid,
    short_ids,
    short_ids_of_text,
)
from kafka2011.events.errors import UnansweredSchemaError
from kafka2011.spark.reader import PlannedRange, RangeReader, ReadSettings
from kafka2011.warehouse.loading.coverage import Coverage, Run, runs_of
from kafka2011.warehouse.loading.row_files import RowFiles
from kafka2011.warehouse.rows.columns import BROKER_ID, INDEX_IN_SET, OFFSET, PARTITION
from kafka2011.warehouse.rows.decode import CORRUPT, PLACE, BatchDecoder, RefusedRow, json_line
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray
    from pyarrow import NativeFile

    from kafka2011.events.schema_registry import Answers
    from kafka2011.warehouse.table.data_files import DataFile
    from kafka2011.warehouse.table.output import Output

    LoadTask = Sequence[PlannedRange]
    """Ranges that one task reads one after the other."""


class Count(NamedTuple):
    """What the audit counts of some rows of one partition: when they were published, their ids, and their places."""

    partition: TopicPartition
    published_at_us: NDArray[np.int64]
    ids: NDArray[np.uint64]
    places: Places


class TaskResult(NamedTuple):
    """What a task has written: files of rows, and a file of what could not be decoded, its name empty without any.

    `runs` are the places of the rows, `refused` those of messages, and `corrupt` those of bytes that are no messages.
    """

    files: Sequence[DataFile]
    runs: Sequence[Run]
    refused: Sequence[Run]
    corrupt: Sequence[tuple[TopicPartition, int, int]]
    refused_file: str
    counts: Sequence[Count]

    def cover(self, coverage: Coverage) -> None:
        """Say what this accounts for."""
        for run in self.runs:
            coverage.add(run)
        for run in self.refused:
            coverage.add(run, quarantined=True)
        for corrupt_range in self.corrupt:
            coverage.add_corrupt(*corrupt_range)


class UnansweredTask(NamedTuple):
    """A task that has written nothing: fingerprints in its ranges have to be looked up before it runs again."""

    task: LoadTask
    fingerprints: frozenset[str]


_MAX_UNANSWERED = 100_000
"""The fingerprints that are looked up before a task runs again; it may meet further ones then."""


@dataclass(frozen=True, slots=True)
class LoadJob:
    """What the tasks of one load do. It holds about three times `held_bytes`, and a message or compressed set."""

    topic: str
    reading: ReadSettings
    decoder: BatchDecoder
    output: Output
    held_bytes: int
    is_counted: bool = False

    def __call__(self, task: LoadTask) -> TaskResult | UnansweredTask:
        """Load some ranges, unless schemas have to be looked up first.

        Raises DataLossError, BrokerAwayError, OSError.
        """
        files = RowFiles(self.output, self.held_bytes)
        counts: list[Count] = []
        unanswered: set[str] = set()
        with _RefusedFile(self.topic, self.output) as refused:
            for batch in self._batches(task):
                if not unanswered:
                    try:
                        rows, bad = self.decoder.decode(batch)
                    except UnansweredSchemaError:
                        files.discard()
                    else:
                        files.add(rows)
                        if bad:
                            refused.write(batch, bad)
                        if self.is_counted:
                            counts += counted_in(self.topic, rows)
                        continue
                unanswered |= self.decoder.unanswered(batch)
                if len(unanswered) >= _MAX_UNANSWERED:
                    break
            files.end()
        if unanswered:
            refused.discard()
            return UnansweredTask(task, frozenset(unanswered))
        return TaskResult(files.files, files.runs, refused.runs, refused.corrupt, refused.name, counts)

    def with_answers(self, answers: Answers) -> LoadJob:
        """Return the job for processes that know what fingerprints stand for."""
        return replace(self, decoder=self.decoder.with_answers(*answers))

    def _batches(self, task: LoadTask) -> Iterator[pa.RecordBatch]:
        for planned in task:
            yield from RangeReader(*planned, self.reading).batches()


class _RefusedFile:
    """The messages that one task could not decode, as lines of JSON, in a file that is made for the first of them."""

    def __init__(self, topic: str, output: Output) -> None:
        self._topic = topic
        self._output = output
        self._stack = ExitStack()
        self._file: NativeFile | None = None
        self.name = ""
        self.runs: list[Run] = []
        self.corrupt: list[tuple[TopicPartition, int, int]] = []

    def write(self, batch: pa.RecordBatch, bad: Sequence[RefusedRow]) -> None:
        """Write the rows of a batch of the source that were refused."""
        if self._file is None:
            self.name = f"_refused-{uuid4().hex}.json"
            self._file = self._stack.enter_context(self._output.create(self.name))
        for refused in bad:
            self._file.write(json_line(batch, refused, self._topic).encode() + b"\n")
        places = batch.select(list(PLACE))
        messages = [refused.row for refused in bad if refused.reason != CORRUPT]
        columns = places.take(pa.array(messages, pa.int64())).columns
        self.runs += runs_of(*(column.to_numpy() for column in columns))
        corrupt = [refused.row for refused in bad if refused.reason == CORRUPT]
        for broker_id, partition, start, end, _ in zip(
            *(column.to_pylist() for column in places.take(pa.array(corrupt, pa.int64())).columns), strict=True
        ):
            self.corrupt.append((TopicPartition(self._topic, broker_id, partition), start, end))

    def discard(self) -> None:
        """Remove the file, if there is one. Raises OSError."""
        if self.name:
            self._stack.close()
            self._output.delete(self.name)

    def __enter__(self) -> _RefusedFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.__exit__(*exc)  # type: ignore[arg-type]


def counted_in(topic: str, rows: pa.RecordBatch) -> list[Count]:
    """Return what the audit counts of rows of the table, for each partition that they come from."""
    numbers = [rows.column(name).to_numpy() for name in (BROKER_ID, PARTITION)]
    if rows.num_rows and all((column == column[0]).all() for column in numbers):  # as nearly all batches
        return [_count(TopicPartition(topic, *(int(column[0]) for column in numbers)), rows)]
    where = sorted(set(zip(*(column.tolist() for column in numbers), strict=True)))
    return [
        _count(
            TopicPartition(topic, broker_id, partition),
            rows.filter(pa.array((numbers[0] == broker_id) & (numbers[1] == partition))),
        )
        for broker_id, partition in where
    ]


def _count(partition: TopicPartition, rows: pa.RecordBatch) -> Count:
    column = rows.column("id")
    try:
        short = _short_ids_in(column)
    except ValueError:  # as every tier does, leave out what is no UUID
        ids = column.to_pylist()
        good = [row for row, text in enumerate(ids) if is_uuid(text)]
        rows = rows.take(pa.array(good, pa.int64()))
        short = short_ids([ids[row] for row in good])
    published_at_us = rows.column("published_at").cast(pa.int64()).to_numpy()
    places = Places(rows.column(OFFSET).to_numpy(), rows.column(INDEX_IN_SET).to_numpy())
    return Count(partition, published_at_us, short.astype(ID_TYPE, copy=False), places)


def _short_ids_in(column: pa.Array) -> NDArray[np.uint64]:
    """Return the short ids of a column of UUIDs, without a text for each. Raises ValueError for other texts."""
    if not len(column) or column.type != pa.string():
        return short_ids(column.to_pylist())
    _, offsets, letters = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    if (np.diff(ends) != UUID_CHARACTERS).any():
        raise ValueError("an id is no UUID")
    return short_ids_of_text(np.frombuffer(letters, np.uint8)[ends[0] : ends[-1]])
