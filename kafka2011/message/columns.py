"""Messages as columns: from the bytes of sets to Arrow's record batches, without an object for each message.

A group's streams, SimpleConsumer, Spark's source, loads and `export` read so. PyArrow is an extra: clients, which must
do without it, import this when it is asked for.
"""

from __future__ import annotations

from array import array
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from kafka2011.errors import InvalidMessageError
from kafka2011.message import runs
from kafka2011.message.compression import decompress
from kafka2011.message.header import MAGIC_1_OVERHEAD_BYTES
from kafka2011.message.message_set import decode, decode_shallow, scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafka2011.message.message_set import Message, Wrapper

SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("broker_id", pa.int32()),  # null where it is not known
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("next_offset", pa.int64(), nullable=False),
        pa.field("index_in_set", pa.int32(), nullable=False),
        pa.field("payload", pa.binary()),  # null only for a corrupt message, where Spark's source is asked for one
    ]
)
"""Of every batch: the fields of `Message`, with the same meaning."""

MAX_BATCH_ROWS = 10_000
MAX_BATCH_BYTES = 2 * 1024 * 1024
"""Of messages as they are stored uncompressed; the one that makes it full still comes in."""

_KEPT_ROWS = 2**14
"""Columns of one value are kept for the next batch up to this length: then that has a slice of them."""
_LEAST_KEPT_ROWS = 2**9
_KEPT = 16

_INT32_BYTES = 4
_INT64_BYTES = 8


class MessageColumns:
    """Gathers the rows of one record batch after another, for one partition. Pure; for one thread."""

    def __init__(
        self,
        topic: str,
        broker_id: int | None,
        partition: int,
        max_rows: int = MAX_BATCH_ROWS,
        max_bytes: int = MAX_BATCH_BYTES,
    ) -> None:
        self._where = topic, broker_id, partition
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._clear()

    def _clear(self) -> None:
        self._size_bytes = 0
        self._payloads: list[pa.Array] = []
        self._single_payloads: list[bytes | None] = []  # which came one by one, after those
        self._offsets = array("q")
        self._next_offsets = array("q")
        self._indexes = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        """Whether it is time to `take` the batch."""
        return len(self._offsets) >= self._max_rows or self._size_bytes >= self._max_bytes

    def add_run(self, data: bytes, position: int, base: int) -> int:
        """Take uncompressed messages from `position` on until one is not, or the batch is full; return where that was.

        `base` is the offset of the data's first byte.
        """
        # The message that makes the bytes full still comes in.
        stop = position + self._max_bytes - self._size_bytes + 1
        room = max(0, self._max_rows - len(self._offsets))
        end, rows, edges, ends, values = runs.chosen.columns(data, position, stop, room, base)
        if rows:
            self._add_payloads(rows, ends, values)
            view = memoryview(edges)
            self._offsets.frombytes(view[:-_INT64_BYTES])
            self._next_offsets.frombytes(view[_INT64_BYTES:])
            self._indexes.frombytes(bytes(_INT32_BYTES * rows))
            self._size_bytes += end - position
        return end

    def add_opened(self, opened: bytes, offset: int, next_offset: int, *, any_size: bool = False) -> bool:
        """Take a whole opened set, if nothing in it is compressed and there is room for it; say whether it was taken.

        `offset` and `next_offset` are where the wrapper starts and ends.
        """
        room = -1 if any_size else max(0, self._max_rows - len(self._offsets))
        if not any_size and len(opened) > self._max_bytes:
            return False
        end, rows, _, ends, values = runs.chosen.columns(opened, 0, len(opened), room, 0)
        if not rows or end != len(opened):
            return False
        self._add_payloads(rows, ends, values)
        self._offsets += array("q", [offset]) * rows
        # Of all but the last it is the start, as 0.7 has it: so a set is replayed whole.
        self._next_offsets += array("q", [offset]) * (rows - 1)
        self._next_offsets.append(next_offset)
        self._indexes += array("i", range(rows))
        self._size_bytes += len(opened)
        return True

    def add(self, message: Message) -> None:
        """Take one message, which may be from inside a compressed set."""
        self._add_row(message.payload, message.offset, message.next_offset, message.index_in_set)

    def add_corrupt(self, offset: int, next_offset: int) -> None:
        """Take a row without a payload for what is corrupt between two offsets."""
        self._add_row(None, offset, next_offset, 0)

    def take(self) -> pa.RecordBatch:
        """Return the gathered rows, and start an empty batch."""
        self._append_singles()
        rows = len(self._offsets)
        payloads = self._payloads
        batch = pa.RecordBatch.from_arrays(
            [
                *_where_columns(*self._where, rows),
                _integers(pa.int64(), self._offsets),
                _integers(pa.int64(), self._next_offsets),
                _integers(pa.int32(), self._indexes),
                payloads[0] if len(payloads) == 1 else pa.concat_arrays(payloads or [pa.array([], pa.binary())]),
            ],
            schema=SCHEMA,
        )
        self._clear()
        return batch

    def _add_payloads(self, rows: int, ends: bytes, values: bytes) -> None:
        self._append_singles()
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(values)]
        self._payloads.append(pa.Array.from_buffers(pa.binary(), rows, buffers))

    def _add_row(self, payload: bytes | None, offset: int, next_offset: int, index: int) -> None:
        self._single_payloads.append(payload)
        self._offsets.append(offset)
        self._next_offsets.append(next_offset)
        self._indexes.append(index)
        self._size_bytes += MAGIC_1_OVERHEAD_BYTES + len(payload or b"")

    def _append_singles(self) -> None:
        if self._single_payloads:
            self._payloads.append(pa.array(self._single_payloads, pa.binary()))
            self._single_payloads = []


def decode_columns(
    data: bytes,
    topic: str,
    broker_id: int | None,
    partition: int,
    offset: int,
    *,
    position: int = 0,
    shallow: bool = False,
    max_rows: int = MAX_BATCH_ROWS,
    max_bytes: int = MAX_BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a fetched set that starts at `offset`, from a position in it on, as record batches.

    Does as `decode`, or `decode_shallow`, and raises as they do, after all good messages before the fault were given;
    but of a compressed set that does not open to its end, nothing is given. A set that makes a batch full comes in
    whole: so no batch ends within one, and a batch may have more than `max_rows` rows.
    """
    where = topic, broker_id, partition
    columns = MessageColumns(*where, max_rows, max_bytes)
    size = len(data)
    is_good = True
    while position < size:
        position = columns.add_run(data, position, offset)
        if not columns.is_full and position < size:
            scanned = scan(data, position, max_messages=1)
            if not scanned.messages:
                is_good = scanned.fault is None and position > 0
                break
            try:
                _add_other(
                    columns, data[position : scanned.end], scanned.wrappers, where, offset + position, shallow=shallow
                )
            except InvalidMessageError:
                if len(columns):
                    yield columns.take()
                raise
            position = scanned.end
        if columns.is_full:
            yield columns.take()
    if len(columns):
        yield columns.take()
    if not is_good:
        for _ in decode(data[position:], *where, offset + position):  # which says what is wrong there
            raise AssertionError("a message is good to one who decodes, and to another not")


def _add_other(
    columns: MessageColumns,
    message: bytes,
    wrappers: Iterable[Wrapper],
    where: tuple[str, int | None, int],
    offset: int,
    *,
    shallow: bool,
) -> None:
    """Add one good message that is not plain, mostly a compressed set.

    Raises InvalidMessageError, with nothing added.
    """
    if not shallow:
        for wrapper in wrappers:  # which is this one
            with suppress(InvalidMessageError):  # and it is found again below, by who says where
                opened = decompress(wrapper.codec, message[wrapper.payload_start - wrapper.start :])
                if columns.add_opened(opened, offset, offset + len(message), any_size=True):
                    return
    for decoded in list((decode_shallow if shallow else decode)(message, *where, offset)):
        columns.add(decoded)


def _where_columns(topic: str, broker_id: int | None, partition: int, rows: int) -> list[pa.Array]:
    """Return the columns that have the same value in all rows."""
    if not _LEAST_KEPT_ROWS <= rows <= _KEPT_ROWS:
        return _repeated(topic, broker_id, partition, rows)
    kept = _kept_columns(topic, broker_id, partition, 1 << (rows - 1).bit_length())
    return [column.slice(0, rows) for column in kept]


def _repeated(topic: str, broker_id: int | None, partition: int, rows: int) -> list[pa.Array]:
    values = pa.scalar(topic, pa.string()), pa.scalar(broker_id, pa.int32()), pa.scalar(partition, pa.int32())
    return [pa.repeat(value, rows) for value in values]


_kept_columns = lru_cache(_KEPT)(_repeated)


def _integers(kind: pa.DataType, values: array[int]) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
