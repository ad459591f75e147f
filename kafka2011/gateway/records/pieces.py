"""Finds what a fetched set consists of, and how many messages that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.broker.requests.message_check import MessageChecker
from kafka2011.errors import InvalidMessageError, MessageSizeTooLargeError
from kafka2011.gateway.records.errors import LostBoundaryError
from kafka2011.gateway.records.found import NUMBERS_A_BYTE, Kind, Piece
from kafka2011.gateway.records.layout import KafkaPartition, find_wrapper
from kafka2011.message import runs
from kafka2011.message.compression import DEFAULT_MAX_OPENED_BYTES, Codec
from kafka2011.message.header import LENGTH, LENGTH_BYTES, MIN_LENGTH, MessageHeader, read_header

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from kafka2011.message.header import AnyBytes

DEFAULT_PIECE_BYTES = 64 * 1024
_MAX_INT32 = 2**31 - 1


def find_pieces(
    data: AnyBytes,
    position: int,
    topic_ids: Collection[bytes],
    partition: int,
    *,
    piece_bytes: int = DEFAULT_PIECE_BYTES,
    max_length: int = _MAX_INT32,
    max_opened_bytes: int = DEFAULT_MAX_OPENED_BYTES,
    pause: Callable[[], None] = lambda: None,
) -> tuple[list[Piece], int]:
    """Return the pieces of a set that was fetched from a position of the log, and the position behind the last one.

    What follows there was cut off by the size of the fetch. Only wrappers with one of `topic_ids` (16 bytes each) and
    with this partition, which is Kafka's number, tell who sent them: others are copies from elsewhere. A run of plain
    messages is split at about `piece_bytes`. `pause` is called between steps of opening other wrappers than the
    gateway's; they open to at most `max_opened_bytes`, or are damaged. Raises LostBoundaryError, naming the position,
    where the length of a message is above `max_length` or impossible; pieces before it are then found from the data
    before it.
    """
    pieces: list[Piece] = []
    places = [KafkaPartition(topic_id, partition) for topic_id in topic_ids]
    checker = MessageChecker(_MAX_INT32, max_opened_bytes, pause)
    at, size = 0, len(data)
    while at < size:
        end, messages, _ = runs.chosen.walk(data, at, min(at + piece_bytes, size), -1)
        if messages:
            pieces.append(Piece(Kind.PLAIN, position + at, position + end, messages))
        else:
            if size - at < LENGTH_BYTES:
                break
            (length,) = LENGTH.unpack_from(data, at)
            if not MIN_LENGTH <= length <= max_length:
                raise LostBoundaryError(position + at, length)
            end = at + LENGTH_BYTES + length
            if end > size:
                break
            pieces.append(_piece(data[at:end], position + at, places, checker))
        at = end
    return pieces, position + at


def _piece(message: AnyBytes, start: int, places: list[KafkaPartition], checker: MessageChecker) -> Piece:
    """Return the piece that one whole message is which no run takes."""
    end = start + len(message)
    most = NUMBERS_A_BYTE * len(message)
    damaged = Piece(Kind.DAMAGED, start, end, most)
    header = read_header(message)
    if not isinstance(header, MessageHeader):
        return damaged
    payload = memoryview(message)[header.overhead_bytes :]
    if runs.chosen.crc32(payload) != header.crc:
        return damaged
    found = find_wrapper(payload) if header.codec == Codec.GZIP else None
    if found is not None:  # the count stands under the CRC, so nothing has to be opened
        return Piece(Kind.WRAPPER, start, end, found.origin.records, found.origin if found.place in places else None)
    try:
        messages = checker.check(message).messages
    except (InvalidMessageError, MessageSizeTooLargeError):
        return damaged
    if messages > most:
        return Piece(Kind.OVERFULL, start, end, most)
    return Piece(Kind.WRAPPER, start, end, max(messages, 1))
