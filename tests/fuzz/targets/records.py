"""The gateway's records: batches that clients send, and sets that it finds in a log, in C and in Python."""

from __future__ import annotations

import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from kafka2011.gateway.records import code
from kafka2011.gateway.records.batch_format import crc32c
from kafka2011.gateway.records.batches import open_batches
from kafka2011.gateway.records.encoding import encode_piece
from kafka2011.gateway.records.errors import InvalidRecordsError, LostBoundaryError
from kafka2011.gateway.records.found import Kind
from kafka2011.gateway.records.pieces import find_pieces
from kafka2011.gateway.records.times import newest_in
from kafka2011.gateway.records.wrappers import plain_set_of, wrappers_of
from kafka2011.message.message_set import decode
from tests.fuzz.driver import Target
from tests.fuzz.messages import with_right_checksums, wrapped
from tests.support.record_batches import compressed

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from tests.fuzz.driver import Run

    T = TypeVar("T")

TOPIC_ID = bytes(range(16))
_START = 1000
_OPENED_BYTES = 1 << 16
_WRAPPER_BYTES = 400
_MESSAGE_BYTES = 1500
_COUNTS = struct.Struct(">i30xi")
"""Of a batch, from byte 23 on: the last offset delta, and at the end of the header the records."""


def _both(act: Callable[[], T]) -> T:
    """Return what comes of something, which must be the same with the C code and without it."""
    compiled = code.compiled
    assert compiled is not None, "the C code is not built"
    results: list[T | str] = []
    failure: InvalidRecordsError | None = None
    try:
        for chosen in (compiled, None):
            code.compiled = chosen
            try:
                result = act()
                results.append(result)
            except InvalidRecordsError as error:
                results.append(f"{error.code} {error}")
                failure = error
    finally:
        code.compiled = compiled
    assert results[0] == results[1]
    if failure is not None:
        raise failure
    return result


def _through(data: bytes) -> list[tuple[int, bytes]]:
    """Send batches through a log, and return what clients would read: a number of records, and the batch."""
    read = []
    for batch in open_batches(data, _OPENED_BYTES):
        messages = wrappers_of(batch, TOPIC_ID, 0, lambda: b"any mark", _WRAPPER_BYTES, _OPENED_BYTES)
        log = b"".join(message for message, _ in messages)
        pieces, end = find_pieces(log, _START, [TOPIC_ID], 0)
        assert end == _START + len(log)
        assert [piece.origin for piece in pieces] == [origin for _, origin in messages]
        assert sum(piece.numbers for piece in pieces) == batch.records
        read += [(piece.numbers, encode_piece(log, _START, piece, 0).batch) for piece in pieces]
        values = [message.payload for message in decode(log, "t", 0, 0, 0)]
        assert [message.payload for message in decode(plain_set_of(batch), "t", 0, 0, 0)] == values
        assert len(values) == batch.records
    return read


@contextmanager
def open_taken() -> Iterator[Run]:
    """Check that batches are refused, or come back from a log with the same records.

    The first byte says whether length and CRC are put right, and in which codec the records are then compressed.
    """

    def run(data: bytes) -> Hashable:
        how, batch = data[0] if data else 0, bytearray(data[1:])
        if how & 1 and len(batch) > 61:
            if how & 2:
                batch[61:] = compressed(batch[22] & 7, bytes(batch[61:]))
            struct.pack_into(">i", batch, 8, len(batch) - 12)
            struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
        read = _both(lambda: _through(bytes(batch)))
        for numbers, encoded in read:
            assert _COUNTS.unpack_from(encoded, 23) == (numbers - 1, numbers)
        again = _both(lambda: [open_batches(encoded, _OPENED_BYTES)[0].records for _, encoded in read])
        assert again == [numbers for numbers, _ in read]
        return how & 3, batch[22] & 15, min(len(read), 3)

    yield run


@contextmanager
def open_pieces() -> Iterator[Run]:
    """Check that the pieces of any set adjoin, and are encoded as so many records as they take numbers.

    The first byte says whether checksums are put right, and whether the set is wrapped in one codec or in another.
    """

    def run(data: bytes) -> Hashable:
        how, log = data[0] if data else 0, data[1:]
        if how & 1:
            log = with_right_checksums(log)
        if how & 6:
            codec = 1 + (how >> 1 & 1)
            log = wrapped(compressed(codec, log), codec) + log
        lost: int | None = None
        try:
            pieces, end = find_pieces(
                log, _START, [TOPIC_ID], 0, piece_bytes=100, max_length=_MESSAGE_BYTES, max_opened_bytes=_OPENED_BYTES
            )
        except LostBoundaryError as error:
            lost = error.position
            log = log[: lost - _START]
            pieces, end = find_pieces(log, _START, [TOPIC_ID], 0, piece_bytes=100, max_opened_bytes=_OPENED_BYTES)
        assert lost in {None, end}
        edges = [_START, *(piece.end for piece in pieces)]
        assert [piece.start for piece in pieces] == edges[:-1]
        assert edges[-1] == end <= _START + len(log)
        kinds = set()
        for piece in pieces:
            kinds.add(piece.kind)
            assert piece.numbers >= 1
            if piece.kind in {Kind.DAMAGED, Kind.OVERFULL}:
                assert piece.numbers == 128 * (piece.end - piece.start)
                continue
            _both(lambda piece=piece: newest_in(log[piece.start - _START : piece.end - _START]))  # type: ignore[misc]
            try:
                encoded = _both(
                    lambda piece=piece: encode_piece(log, _START, piece, 5, max_opened_bytes=_OPENED_BYTES)  # type: ignore[misc]
                )
            except InvalidRecordsError:
                kinds.add(Kind.DAMAGED)
                assert log.find(b"KG", piece.start - _START, piece.end - _START) >= 0, "only a wrapper of ours may lie"
                continue
            last_delta, records = _COUNTS.unpack_from(encoded.batch, 23)
            assert (last_delta, encoded.next_number) == (piece.numbers - 1, 5 + piece.numbers)
            assert records == piece.numbers or (records, piece.numbers) == (0, 1)
        return how & 7, min(len(pieces), 3), frozenset(kinds), lost is None

    yield run


TARGETS = (
    Target("batches", 30_000, open_taken, (InvalidRecordsError,), max_bytes=700),
    Target("pieces", 30_000, open_pieces, (), (b"KG",), max_bytes=900),
)
