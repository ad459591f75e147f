"""Record batches as clients send them: checked, and opened where they are compressed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import cramjam

from kafka2011.errors import InvalidMessageError
from kafka2011.gateway.records import code
from kafka2011.gateway.records.batch_format import (
    APPEND_TIME_BIT,
    BATCH_HEADER,
    CHECKED_FROM,
    CODEC_BITS,
    CONTROL_BIT,
    LENGTH_END,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL_BIT,
    crc32c,
)
from kafka2011.gateway.records.errors import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    MESSAGE_TOO_LARGE,
    UNSUPPORTED_COMPRESSION_TYPE,
    UNSUPPORTED_FOR_MESSAGE_FORMAT,
    InvalidRecordsError,
)
from kafka2011.message.compression import Codec, OpensTooLargeError, decompress

if TYPE_CHECKING:
    from kafka2011.message.header import AnyBytes

_LZ4, _ZSTD = 3, 4
_LIKELY_RATIO = 16
"""Nearly all LZ4 and Zstandard data open to less than this many times their size."""
_LEAST_OPENED_BYTES = 64 * 1024


class RecordBatch(NamedTuple):
    """A batch of records that was found good.

    `producer_id`, `producer_epoch` and `first_sequence` are -1 without idempotence. `codec` is that of the client, in
    Kafka's numbers, 0 for none. Timestamps are in ms, -1 for none; with `is_append_time` the max timestamp is that of
    each record. `body` holds the records, opened.
    """

    producer_id: int
    producer_epoch: int
    first_sequence: int
    records: int
    codec: int
    first_timestamp: int
    max_timestamp: int
    is_append_time: bool
    body: AnyBytes


def open_batches(records: AnyBytes, max_opened_bytes: int) -> list[RecordBatch]:
    """Return the batches that a produce request holds for one partition, at least one.

    What they open to takes at most `max_opened_bytes`. Raises InvalidRecordsError.
    """
    data = memoryview(records)
    batches: list[RecordBatch] = []
    position = 0
    while position < len(data):
        batch, position = _open_batch(data, position, max_opened_bytes)
        if batch.codec:
            max_opened_bytes -= len(batch.body)
        batches.append(batch)
    if not batches:
        raise InvalidRecordsError(INVALID_RECORD, "there is no record batch")
    return batches


def _open_batch(data: memoryview, start: int, max_opened_bytes: int) -> tuple[RecordBatch, int]:
    if len(data) - start > MAGIC_AT and data[start + MAGIC_AT] in {0, 1}:
        raise InvalidRecordsError(UNSUPPORTED_FOR_MESSAGE_FORMAT, f"magic {data[start + MAGIC_AT]} instead of {MAGIC}")
    if len(data) - start < BATCH_HEADER.size:
        raise InvalidRecordsError(CORRUPT_MESSAGE, f"{len(data) - start} bytes are too few for a record batch")
    _, length, _, magic, crc, attributes, last_delta, first, last, *producer, records = BATCH_HEADER.unpack_from(
        data, start
    )
    end = start + LENGTH_END + length
    if magic != MAGIC or not start + BATCH_HEADER.size <= end <= len(data):
        raise InvalidRecordsError(
            CORRUPT_MESSAGE, f"a record batch of magic {magic} and length {length} in {len(data) - start} bytes"
        )
    if crc32c(data[start + CHECKED_FROM : end]) != crc:
        raise InvalidRecordsError(CORRUPT_MESSAGE, f"the CRC of a record batch differs from the stored {crc:#010x}")
    _check_header(attributes, last_delta, records, *producer)
    codec = attributes & CODEC_BITS
    body = _opened(codec, data[start + BATCH_HEADER.size : end], max_opened_bytes)
    code.check(body, records)
    is_append_time = bool(attributes & APPEND_TIME_BIT)
    producer_id, producer_epoch, first_sequence = producer
    return RecordBatch(
        producer_id, producer_epoch, first_sequence, records, codec, first, last, is_append_time, body
    ), end


def _check_header(
    attributes: int, last_delta: int, records: int, producer_id: int, producer_epoch: int, first_sequence: int
) -> None:
    if attributes & TRANSACTIONAL_BIT:
        raise InvalidRecordsError(UNSUPPORTED_FOR_MESSAGE_FORMAT, "a record batch of a transaction")
    if attributes & CONTROL_BIT:
        raise InvalidRecordsError(INVALID_RECORD, "a record batch with control records")
    if records < 1 or last_delta != records - 1:
        raise InvalidRecordsError(INVALID_RECORD, f"{records} records with {last_delta} as last offset delta")
    if producer_id >= 0 and (producer_epoch < 0 or first_sequence < 0):
        raise InvalidRecordsError(
            INVALID_RECORD, f"producer {producer_id} with epoch {producer_epoch} and sequence {first_sequence}"
        )


def _opened(codec: int, body: memoryview, max_opened_bytes: int) -> AnyBytes:
    if codec == 0:
        return body
    try:
        if codec in {Codec.GZIP, Codec.SNAPPY}:
            return decompress(codec, bytes(body), max_opened_bytes)
        if codec in {_LZ4, _ZSTD}:
            return _opened_frame(codec, body, max_opened_bytes)
    except OpensTooLargeError as error:
        raise InvalidRecordsError(MESSAGE_TOO_LARGE, str(error)) from error
    except InvalidMessageError as error:
        raise InvalidRecordsError(CORRUPT_MESSAGE, str(error)) from error
    raise InvalidRecordsError(UNSUPPORTED_COMPRESSION_TYPE, f"codec {codec} is unknown")


def _opened_frame(codec: int, body: memoryview, max_opened_bytes: int) -> bytes:
    """Open an LZ4 or Zstandard frame. Raises InvalidMessageError.

    A buffer that is given bounds what is opened: the frame's own claim is not to be trusted.
    """
    decompress_into = (cramjam.lz4 if codec == _LZ4 else cramjam.zstd).decompress_into
    likely_bytes = max(_LEAST_OPENED_BYTES, _LIKELY_RATIO * len(body))
    for size in sorted({min(likely_bytes, max_opened_bytes), max_opened_bytes}):
        opened = bytearray(size)
        try:
            return bytes(memoryview(opened)[: decompress_into(body, opened)])
        except cramjam.DecompressionError as error:
            fault = str(error)
            if "whole buffer" not in fault:  # which is what it says when the buffer is too small
                break
    else:
        raise OpensTooLargeError(f"a record batch of {len(body)} bytes opens to more than {max_opened_bytes}")
    raise InvalidMessageError(f"a record batch of {len(body)} bytes does not open: {fault}")
