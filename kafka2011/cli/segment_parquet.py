"""Segment files as Parquet: one file for each, without a broker.

A file is written under another name and renamed once it is on disk, so what has its name is whole.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from kafka2011.disk import SYSTEM_DISK
from kafka2011.errors import InvalidMessageError, LogError
from kafka2011.log.label import labelled_broker
from kafka2011.log.segment import find_segment_files, os_error_text
from kafka2011.message.columns import SCHEMA, decode_columns
from kafka2011.message.header import LENGTH, LENGTH_BYTES
from kafka2011.message.message_set import complete_prefix_bytes, scan
from kafka2011.message.topic import log_directory_name, parse_log_directory_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

logger = logging.getLogger(__name__)

READ_BYTES = 4 * 1024 * 1024
MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""No message that is larger is read into memory."""
_ENCODING = {
    "compression": "zstd",
    "use_dictionary": ["topic", "broker_id", "partition", "index_in_set"],
    "column_encoding": dict.fromkeys(("offset", "next_offset"), "DELTA_BINARY_PACKED"),
}
GROUP_BYTES = 64 * 1024 * 1024
"""About how much memory one row group takes before it is written."""


class Segment(NamedTuple):
    """A segment file, and whose it is. Only a partition's last may end within a message, which is being written."""

    path: Path
    start_offset: int
    topic: str
    partition: int
    broker_id: int | None
    is_last: bool

    @property
    def target(self) -> Path:
        """Where its messages go, below some directory: several brokers have partitions of one name."""
        name = log_directory_name(self.topic, self.partition)
        broker = "" if self.broker_id is None else f"broker-{self.broker_id}"
        return Path(broker, name, f"{self.path.stem}.parquet")


class Exported(NamedTuple):
    """What became of a segment file: what was written, and the offset up to which its messages are there."""

    path: Path
    into: Path
    messages: int
    end_offset: int
    bytes: int


def find_segments(path: Path) -> list[Segment]:
    """Return the segment files that a path names: itself, or those of a partition's directory, or all below a log.dir.

    Raises LogError when there is none, or when a directory's name says no topic and partition.
    """
    if not path.is_dir():
        segments = [segment for segment in _of_partition(path.parent) if segment.path.name == path.name]
    elif parse_log_directory_name(path.name) is not None and find_segment_files(path):
        segments = _of_partition(path)
    else:
        inside = sorted({file.parent for file in path.rglob("*.kafka")})
        segments = [segment for directory in inside for segment in _of_partition(directory)]
    if not segments:
        raise LogError(f"there are no segment files in {path}")
    return segments


def _of_partition(directory: Path) -> list[Segment]:
    name = parse_log_directory_name(directory.resolve().name)
    if name is None:
        raise LogError(f"{directory} is not called as the directory of a partition is, such as views-0")
    files = find_segment_files(directory)
    broker_id = labelled_broker(directory.resolve().parent)
    return [Segment(path, start, *name, broker_id, is_last=path == files[-1][1]) for start, path in files]


def export(segment: Segment, into: Path, advance: Callable[[int], None] = lambda _done_bytes: None) -> Exported | None:
    """Write a segment's messages to a Parquet file below a directory, in place of what was there; None if it has none.

    `advance` is called with the bytes done since the last call. Raises LogError, which names the path and the offset
    where bytes are no message, and leaves what was there.
    """
    batches = read_batches(segment, advance)
    first = next(batches, None)
    if first is None:
        return None
    target = into / segment.target
    begun = target.with_name(f".{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with SYSTEM_DISK.replacing(target, begun) as file:
            messages, end_offset = _write(file, chain([first], batches))
        size_bytes = target.stat().st_size
    except OSError as error:
        raise LogError(os_error_text("writing", target, error)) from error
    finally:
        with suppress(OSError):  # it has mostly been renamed
            begun.unlink()
    return Exported(segment.path, target, messages, end_offset, size_bytes)


def _write(file: BinaryIO, batches: Iterable[pa.RecordBatch]) -> tuple[int, int]:
    """Write Parquet; return the number of messages, and the offset after the last one."""
    messages = end_offset = held_bytes = 0
    held: list[pa.RecordBatch] = []
    with pq.ParquetWriter(file, SCHEMA, **_ENCODING) as writer:
        for batch in batches:
            messages += batch.num_rows
            end_offset = batch.column("next_offset")[-1].as_py()
            held.append(batch)
            held_bytes += batch.nbytes
            if held_bytes >= GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(held))
                held, held_bytes = [], 0
        if held:
            writer.write_table(pa.Table.from_batches(held))
    file.flush()
    return messages, end_offset


def read_batches(segment: Segment, advance: Callable[[int], None]) -> Iterator[pa.RecordBatch]:
    """Yield all messages of a segment file as it is now, those inside compressed ones too. Raises LogError."""
    where = segment.topic, segment.broker_id, segment.partition
    try:
        for data, offset in _pieces(segment):
            yield from decode_columns(data, *where, offset)
            advance(len(data))
    except InvalidMessageError as error:  # which says at which offset
        raise LogError(f"{segment.path}: {error}") from error
    except OSError as error:
        raise LogError(os_error_text("reading", segment.path, error)) from error


def _pieces(segment: Segment) -> Iterator[tuple[bytes, int]]:
    """Yield whole messages by their lengths, and the offset where they start; what cannot be decoded as it stands."""
    offset, rest = segment.start_offset, b""
    with segment.path.open("rb", buffering=0) as file:
        end_offset = offset + os.fstat(file.fileno()).st_size
        while offset < end_offset:
            if rest and not _goes_on(segment, rest, offset, end_offset):
                return
            wanted_bytes = READ_BYTES
            if len(rest) >= LENGTH_BYTES:
                wanted_bytes = max(wanted_bytes, LENGTH_BYTES + LENGTH.unpack_from(rest)[0] - len(rest))
            data = rest + file.read(min(wanted_bytes, end_offset - offset - len(rest)))
            if len(data) == len(rest):
                raise LogError(f"{segment.path}: it became shorter while it was read, at offset {offset + len(data)}")
            complete_bytes = complete_prefix_bytes(data)
            if complete_bytes:
                yield data[:complete_bytes], offset
            offset += complete_bytes
            rest = data[complete_bytes:]


def _goes_on(segment: Segment, data: bytes, offset: int, end_offset: int) -> bool:
    """Say whether more bytes make a message of those at an offset; False if they are the last one, being written.

    Raises LogError when they are none.
    """
    fault = scan(data, max_messages=1).fault
    if fault is None:
        size_bytes = LENGTH_BYTES + LENGTH.unpack_from(data)[0] if len(data) >= LENGTH_BYTES else 0
        if offset + max(size_bytes, len(data) + 1) <= end_offset:
            if size_bytes <= MAX_MESSAGE_BYTES:
                return True
            fault = f"a message of {size_bytes} bytes, more than {MAX_MESSAGE_BYTES}"
        elif segment.is_last:
            logger.warning(
                "%s: ends within a message, which is left out: the %d bytes from offset %d on",
                segment.path,
                end_offset - offset,
                offset,
            )
            return False
        else:
            fault = f"the file ends within a message, {end_offset - offset} bytes behind its start"
    raise LogError(f"{segment.path}: corrupt message at offset {offset}: {fault}")
