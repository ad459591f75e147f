"""From the bytes of fetched messages to columns. Pure but for Arrow and NumPy; the hot path of the source.

Messages of magic 1 that are not compressed are taken many at once: one loop finds their ends by their lengths, and the
rest (slices, CRCs, comparisons, offsets) runs in loops that are not Python's. All other messages are handled elsewhere.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from kafka2011.message import runs
from kafka2011.message.crc import crc32
from kafka2011.message.header import (
    LENGTH_AND_KIND,
    LENGTH_BYTES,
    MAGIC_1_OVERHEAD_BYTES,
    UNCOMPRESSED_MAGIC_0,
    UNCOMPRESSED_MAGIC_1,
    MessageFormat,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafka2011.message.message_set import Message
    from zk.cluster import TopicPartition

SCHEMA = pa.schema(
    [
        pa.field("value", pa.binary()),  # null only for a corrupt message, and only when asked for
        pa.field("topic", pa.string(), nullable=False),
        pa.field("brokerId", pa.int32(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("nextOffset", pa.int64(), nullable=False),
        pa.field("indexInSet", pa.int32(), nullable=False),
    ]
)
"""Of every batch; `source_columns.SCHEMA` is the same for Spark."""

MAX_BATCH_ROWS = 10_000
MAX_BATCH_BYTES = 2 * 1024 * 1024

RUN_ROWS = 500
"""How many payloads exist at once where Python makes them: few enough that the next ones reuse their memory while it is
still in the cache."""

_Int64s: TypeAlias = "npt.NDArray[np.int64]"


class MessageColumns:
    """Gathers the rows of one record batch after another, for one partition."""

    def __init__(
        self, partition: TopicPartition, max_rows: int = MAX_BATCH_ROWS, max_bytes: int = MAX_BATCH_BYTES
    ) -> None:
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._topic = pa.repeat(pa.scalar(partition.topic, pa.string()), max_rows)
        self._broker_id = pa.repeat(pa.scalar(partition.broker_id, pa.int32()), max_rows)
        self._partition = pa.repeat(pa.scalar(partition.partition, pa.int32()), max_rows)
        self._zero = pa.repeat(pa.scalar(0, pa.int32()), max_rows)
        self._clear()

    def _clear(self) -> None:
        self._rows = 0
        self._size_bytes = 0
        self._values: list[pa.Array] = []
        self._offsets: list[_Int64s] = []
        self._next_offsets: list[_Int64s] = []
        self._indexes: dict[int, int] = {}  # row to indexInSet, where that is not 0
        self._clear_single()

    def _clear_single(self) -> None:
        """Forget rows that came one by one and are not in the columns yet."""
        self._single_values: list[bytes | None] = []
        self._single_offsets: list[int] = []
        self._single_next_offsets: list[int] = []

    def _append_single(self) -> None:
        if self._single_values:
            self._values.append(pa.array(self._single_values, pa.binary()))
            self._offsets.append(np.array(self._single_offsets, np.int64))
            self._next_offsets.append(np.array(self._single_next_offsets, np.int64))
            self._clear_single()

    def __len__(self) -> int:
        return self._rows

    @property
    def is_full(self) -> bool:
        """Whether it is time to `take` the batch."""
        return self._rows >= self._max_rows or self._size_bytes >= self._max_bytes

    def add_run(self, data: bytes, position: int, base: int) -> int:
        """Take uncompressed messages from `position` on until one is not, or the batch is full; return where that was.

        `base` is the offset of the data's first byte.
        """
        # The message that makes the bytes full still comes in.
        stop = position + self._max_bytes - self._size_bytes + 1
        run_rows = RUN_ROWS if runs.chosen.columns is None else self._max_rows
        while self._rows < self._max_rows:
            values, edges = _run_arrays(data, position, stop, min(self._max_rows - self._rows, run_rows), base)
            if not len(values):
                break
            self._append_single()
            self._values.append(values)
            self._size_bytes += int(edges[-1] - edges[0])
            self._rows += len(values)
            position = int(edges[-1]) - base
            self._offsets.append(edges[:-1])
            self._next_offsets.append(edges[1:])
        return position

    def add_opened(self, opened: bytes, offset: int, next_offset: int) -> bool:
        """Take a whole opened set, if nothing in it is compressed and there is room for it; say whether it was taken.

        `offset` and `next_offset` are where the wrapper starts and ends.
        """
        if len(opened) > self._max_bytes:
            return False
        values, edges = _run_arrays(opened, 0, len(opened), self._max_rows - self._rows, 0)
        rows = len(values)
        if not rows or edges[-1] != len(opened):
            return False
        self._append_single()
        self._values.append(values)
        self._offsets.append(np.full(rows, offset))
        consumed = np.full(rows, offset)  # of all but the last, as 0.7 has it: so a set is replayed whole
        consumed[-1] = next_offset
        self._next_offsets.append(consumed)
        self._indexes.update(enumerate(range(1, rows), self._rows + 1))
        self._size_bytes += len(opened)
        self._rows += rows
        return True

    def add(self, message: Message) -> None:
        """Take one message, which may be from inside a compressed set. The batch must not be full."""
        if message.index_in_set:
            self._indexes[self._rows] = message.index_in_set
        self._add_row(message.payload, message.offset, message.next_offset)

    def add_corrupt(self, offset: int, next_offset: int) -> None:
        """Take a row without a value for what is corrupt between two offsets. The batch must not be full."""
        self._add_row(None, offset, next_offset)

    def _add_row(self, value: bytes | None, offset: int, next_offset: int) -> None:
        self._single_values.append(value)
        self._single_offsets.append(offset)
        self._single_next_offsets.append(next_offset)
        self._rows += 1
        self._size_bytes += MAGIC_1_OVERHEAD_BYTES + len(value or b"")

    def take(self) -> pa.RecordBatch:
        """Return the gathered rows, at least one, and start an empty batch."""
        self._append_single()
        rows = self._rows
        batch = pa.RecordBatch.from_arrays(
            [
                pa.concat_arrays(self._values),
                self._topic[:rows],
                self._broker_id[:rows],
                self._partition[:rows],
                pa.array(np.concatenate(self._offsets), pa.int64()),
                pa.array(np.concatenate(self._next_offsets), pa.int64()),
                self._index_column(rows),
            ],
            schema=SCHEMA,
        )
        self._clear()
        return batch

    def _index_column(self, rows: int) -> pa.Array:
        if not self._indexes:
            return self._zero[:rows]
        column = [0] * rows
        for row, index in self._indexes.items():
            column[row] = index
        return pa.array(column, pa.int32())


def _run_arrays(data: bytes, position: int, stop: int, max_rows: int, base: int) -> tuple[pa.Array, _Int64s]:
    """Return the payloads of a run of messages that start before `stop`, and the offsets of the run's edges.

    `base` is the offset of the data's first byte.
    """
    kinds: tuple[MessageFormat, ...] = (UNCOMPRESSED_MAGIC_1, UNCOMPRESSED_MAGIC_0)
    if runs.chosen.columns is not None:
        _, rows, edges, ends, values = runs.chosen.columns(data, position, stop, max_rows, base)
        if rows:
            buffers = [None, pa.py_buffer(ends), pa.py_buffer(values)]
            return pa.Array.from_buffers(pa.binary(), rows, buffers), np.frombuffer(edges, np.int64)
        kinds = (UNCOMPRESSED_MAGIC_0,)
    for kind in kinds:
        found = _edges(data, position, stop, max_rows, kind)
        if len(found) > 1:
            payloads, positions = _good(data, found, kind)
            return pa.array(payloads, pa.binary()), positions + base
    return pa.array([], pa.binary()), np.array([position + base], np.int64)


def _edges(data: bytes, position: int, stop: int, max_messages: int, kind: MessageFormat) -> list[int]:
    """Return where messages of a kind start from a position on, and where the last of them ends; the hot loop."""
    mask, wanted, overhead_bytes = kind
    size = len(data)
    stop = min(stop, size - MAGIC_1_OVERHEAD_BYTES + 1)
    least_length = overhead_bytes - LENGTH_BYTES
    unpack = LENGTH_AND_KIND.unpack_from
    edges = [position]
    add_edge = edges.append
    for _ in range(max_messages):
        if position >= stop:
            break
        length, found = unpack(data, position)
        end = position + 4 + length
        if found & mask != wanted or length < least_length or end > size:
            break
        add_edge(end)
        position = end
    return edges


def _good(data: bytes, edges: list[int], kind: MessageFormat) -> tuple[list[bytes], _Int64s]:
    """Return the payloads of the messages between edges, up to the first whose CRC is wrong, and their edges."""
    overhead_bytes = kind.overhead_bytes
    payloads = [data[start + overhead_bytes : end] for start, end in pairwise(edges)]
    positions = np.array(edges, np.int64)
    at_every_byte = np.ndarray((len(data) - 3,), ">u4", data, strides=(1,))
    stored = at_every_byte[positions[:-1] + (overhead_bytes - 4)]
    wrong = np.flatnonzero(stored != np.fromiter(map(crc32, payloads), np.uint32, len(payloads)))
    if wrong.size:
        del payloads[wrong[0] :]
        positions = positions[: wrong[0] + 1]
    return payloads, positions
