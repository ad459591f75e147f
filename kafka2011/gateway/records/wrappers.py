"""From a client's batch to the messages of 0.7 that are stored for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.gateway.records import code
from kafka2011.gateway.records.errors import MESSAGE_TOO_LARGE, InvalidRecordsError
from kafka2011.gateway.records.found import Origin
from kafka2011.gateway.records.layout import KafkaPartition, Records, largest_content, make_wrapper, notes_head

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.gateway.records.batches import RecordBatch

DEFAULT_MAX_WRAPPER_BYTES = 256 * 1024
DEFAULT_MAX_MESSAGE_BYTES = 1_000_000

_SEQUENCES = 2**31
_FAST_LEVEL = 1
_NO_LIMIT = 2**62


def wrappers_of(
    batch: RecordBatch,
    topic_id: bytes,
    partition: int,
    new_mark: Callable[[], bytes],
    max_wrapper_bytes: int = DEFAULT_MAX_WRAPPER_BYTES,
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
) -> list[tuple[bytes, Origin]]:
    """Return the messages that hold a batch, in order, each with who sent its records.

    A message of several records has at most `max_wrapper_bytes`, uncompressed too. `new_mark` gives 8 random bytes.
    Raises InvalidRecordsError if a record needs a message of more than `max_message_bytes`.
    """
    most_bytes = largest_content(min(max_wrapper_bytes, max_message_bytes))
    first_timestamp = batch.max_timestamp if batch.is_append_time else batch.first_timestamp
    level = _FAST_LEVEL if batch.codec else 0
    place = KafkaPartition(topic_id, partition)
    wrappers: list[tuple[bytes, Origin]] = []
    position = done = 0
    while done < batch.records:
        sequence = (batch.first_sequence + done) % _SEQUENCES if batch.first_sequence >= 0 else -1
        origin = Origin(batch.producer_id, batch.producer_epoch, sequence, 0, new_mark())
        left = batch.records - done
        head = notes_head(place, origin, first_timestamp, 0, is_append_time=batch.is_append_time)
        stored = None if level else code.wrapper(batch.body, position, left, most_bytes, head)
        if stored is not None:
            message, position, count = stored
            origin = origin._replace(records=count)
        else:
            inner, notes, position, count = code.take(batch.body, position, left, most_bytes)
            origin = origin._replace(records=count)
            records = Records(inner, notes, first_timestamp, batch.is_append_time)
            message = make_wrapper(records, place, origin, level)
        _check_size(len(message), max_message_bytes)
        wrappers.append((message, origin))
        done += count
    return wrappers


def plain_set_of(batch: RecordBatch, max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES) -> bytes:
    """Return the values of a batch as plain messages, a null as an empty one.

    Raises InvalidRecordsError if one has more than `max_message_bytes`.
    """
    if len(batch.body) > max_message_bytes:  # else no record can be too large
        position = 0
        for _ in range(batch.records):
            inner, _, position, _ = code.take(batch.body, position, 1, 0)
            _check_size(len(inner), max_message_bytes)
    inner, *_ = code.take(batch.body, 0, batch.records, _NO_LIMIT)
    return inner


def _check_size(message_bytes: int, max_message_bytes: int) -> None:
    if message_bytes > max_message_bytes:
        raise InvalidRecordsError(
            MESSAGE_TOO_LARGE, f"a record needs a message of {message_bytes} bytes, and {max_message_bytes} are allowed"
        )
