"""From a piece of a log to the record batch that today's clients read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka2011.errors import InvalidMessageError, InvalidMessageSizeError
from kafka2011.gateway.records import code
from kafka2011.gateway.records.batch_format import NO_PRODUCER, NO_TIMESTAMP, batch_header
from kafka2011.gateway.records.errors import CORRUPT_MESSAGE, InvalidRecordsError
from kafka2011.gateway.records.found import Kind
from kafka2011.gateway.records.layout import find_wrapper, open_wrapper
from kafka2011.gateway.records.records_python import empty_batch
from kafka2011.message import runs
from kafka2011.message.compression import DEFAULT_MAX_OPENED_BYTES, Codec, decompress
from kafka2011.message.header import MessageHeader, read_header
from kafka2011.message.message_set import MessageSet, decode

if TYPE_CHECKING:
    from kafka2011.gateway.records.found import Piece
    from kafka2011.message.header import AnyBytes

_NO_LIMIT = 2**62


class Encoded(NamedTuple):
    """A record batch, and the number behind its last message."""

    batch: bytes
    next_number: int


def encode_piece(
    data: AnyBytes,
    position: int,
    piece: Piece,
    first_number: int,
    *,
    skip: int = 0,
    max_bytes: int = _NO_LIMIT,
    is_repeat: bool = False,
    max_opened_bytes: int = DEFAULT_MAX_OPENED_BYTES,
) -> Encoded:
    """Return the batch for a piece of the set that was fetched from a position of the log.

    The piece's first message has the number `first_number`. Of messages without a producer's notes, the first `skip`
    are left out, and those that would make the batch exceed `max_bytes`, but never all. A repeat becomes a batch
    without records that takes all numbers, as Kafka's log cleaner leaves them. Raises InvalidRecordsError if a wrapper
    does not hold what it says. Damaged and overfull pieces are for the caller to refuse.
    """
    assert piece.kind in {Kind.PLAIN, Kind.WRAPPER}
    origin = piece.origin
    producer = NO_PRODUCER if origin is None else (origin.producer_id, origin.producer_epoch, origin.first_sequence)
    behind = first_number + piece.numbers
    if is_repeat:
        return Encoded(empty_batch(batch_header(first_number, piece.numbers - 1, producer, NO_TIMESTAMP)), behind)
    start, end = piece.start - position, piece.end - position
    if piece.kind is Kind.WRAPPER:
        message = bytes(data[start:end])
        header = read_header(message)
        assert isinstance(header, MessageHeader)
        payload = memoryview(message)[header.overhead_bytes :]
        found = find_wrapper(payload) if header.codec == Codec.GZIP else None
        if found is not None:
            records = open_wrapper(payload, found, max_opened_bytes)
            head = batch_header(
                first_number, 0, producer, records.first_timestamp, is_append_time=records.is_append_time
            )
            batch = code.wrapped_batch(
                head, records.inner, records.notes, piece.numbers, is_append_time=records.is_append_time
            )
            return Encoded(batch, behind)
        data = _plain(message, header, max_opened_bytes)
        start, end = 0, len(data)
    head = batch_header(first_number + skip, piece.numbers - 1 - skip, NO_PRODUCER, NO_TIMESTAMP)
    batch, records_made = code.plain_batch(head, data, start, end, skip, max_bytes)
    return Encoded(batch, first_number + skip + records_made if records_made else behind)


def _plain(message: bytes, header: MessageHeader, max_opened_bytes: int) -> bytes:
    """Return the messages of a wrapper, of nested ones too, as one run."""
    try:
        opened = decompress(header.codec, message[header.overhead_bytes :], max_opened_bytes)
        end, _, _ = runs.chosen.walk(opened, 0, len(opened), -1)
        if end == len(opened):
            return opened
        return bytes(MessageSet([each.payload for each in decode(message, "", None, 0, 0, max_opened_bytes)]))
    except (InvalidMessageError, InvalidMessageSizeError) as error:
        raise InvalidRecordsError(CORRUPT_MESSAGE, str(error)) from error
