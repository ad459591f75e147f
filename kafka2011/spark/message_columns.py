"""From the bytes of fetched messages to columns. Pure but for Arrow; the hot path of the source.

Messages of magic 1 that are not compressed take a loop that does as little as possible for each: one unpack, one
slice, one CRC, two appends. Everything else is somebody else's task.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pyarrow as pa

from kafka2011.crc import crc32
from kafka2011.message import CODEC_MASK, MAGIC_1_OVERHEAD_BYTES
from kafka2011.spark.schema import arrow_schema

if TYPE_CHECKING:
    from kafka2011.message import Message
    from kafka2011.spark.offset_range import TopicPartition

MAX_BATCH_ROWS = 10_000
MAX_BATCH_BYTES = 2 * 1024 * 1024

_HEADER = struct.Struct(">iBBI")


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
        self._values: list[bytes | None] = []
        self._offsets: list[int] = []
        self._next_offsets: list[int] = []
        self._indexes: dict[int, int] = {}  # row to indexInSet, where that is not 0
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    @property
    def is_full(self) -> bool:
        """Whether it is time to `take` the batch."""
        return len(self._values) >= self._max_rows or self._size_bytes >= self._max_bytes

    def add_run(self, data: bytes, position: int, base: int) -> int:
        """Take plain messages from `position` on until one is not, or the batch is full; return where that was.

        `base` is the offset of the data's first byte. Only a good message of magic 1 that is not compressed is plain.
        """
        start = position
        room = self._max_rows - len(self._values)
        # Where the bytes run full; the message that crosses it still comes in.
        size = len(data)
        stop = min(size - MAGIC_1_OVERHEAD_BYTES, position + self._max_bytes - self._size_bytes)
        unpack = _HEADER.unpack_from
        payloads: list[bytes | None] = []
        ends: list[int] = []
        add_payload, add_end = payloads.append, ends.append
        while position <= stop and room:
            length, magic, attributes, crc = unpack(data, position)
            end = position + 4 + length
            if magic != 1 or attributes & CODEC_MASK or length < 6 or end > size:
                break
            payload = data[position + 10 : end]
            if crc32(payload) != crc:
                break
            add_payload(payload)
            add_end(base + end)
            position = end
            room -= 1
        if ends:
            self._values += payloads
            self._offsets.append(base + start)
            self._next_offsets += ends
            ends.pop()
            self._offsets += ends
            self._size_bytes += position - start
        return position

    def add(self, message: Message) -> None:
        """Take one message, from inside a compressed set maybe. The batch must not be full."""
        if message.index_in_set:
            self._indexes[len(self._values)] = message.index_in_set
        self._add_row(message.payload, message.offset, message.next_offset)

    def add_corrupt(self, offset: int, next_offset: int) -> None:
        """Take a row without a value for what is corrupt between two offsets. The batch must not be full."""
        self._add_row(None, offset, next_offset)

    def _add_row(self, value: bytes | None, offset: int, next_offset: int) -> None:
        self._values.append(value)
        self._offsets.append(offset)
        self._next_offsets.append(next_offset)
        self._size_bytes += MAGIC_1_OVERHEAD_BYTES + len(value or b"")

    def take(self) -> pa.RecordBatch:
        """Return what was gathered, and begin anew."""
        rows = len(self._values)
        batch = pa.RecordBatch.from_arrays(
            [
                pa.array(self._values, pa.binary()),
                self._topic[:rows],
                self._broker_id[:rows],
                self._partition[:rows],
                pa.array(self._offsets, pa.int64()),
                pa.array(self._next_offsets, pa.int64()),
                self._index_column(rows),
            ],
            schema=arrow_schema(),
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
