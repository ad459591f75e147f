"""What a fetched set consists of: runs, wrappers of the gateway and of others, and damage."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import pytest

from kafka2011.gateway.records.batches import open_batches
from kafka2011.gateway.records.encoding import encode_piece
from kafka2011.gateway.records.errors import CORRUPT_MESSAGE, InvalidRecordsError, LostBoundaryError
from kafka2011.gateway.records.found import Kind, Piece
from kafka2011.gateway.records.pieces import find_pieces
from kafka2011.gateway.records.wrappers import wrappers_of
from kafka2011.message.compression import Codec, compress
from kafka2011.message.message_set import MessageSet, encode
from tests.support.record_batches import Record, batch_of, read_batch

if TYPE_CHECKING:
    from typing import Any

TOPIC_ID = bytes(range(16))
START = 3_000_000_000
PLAIN = encode(b"plain")


def pieces_of(data: bytes, **limits: Any) -> list[Piece]:
    """Return what is found, which must reach the end."""
    pieces, end = find_pieces(data, START, [TOPIC_ID], 3, **limits)
    assert end == START + len(data)
    return pieces


def only_piece(data: bytes, **limits: Any) -> Piece:
    [piece] = pieces_of(data, **limits)
    assert (piece.start, piece.end) == (START, START + len(data))
    return piece


def own_wrapper(records: int) -> bytes:
    [batch] = open_batches(batch_of([Record(b"value", b"key")] * records), 1 << 20)
    [(message, _)] = wrappers_of(batch, TOPIC_ID, 3, lambda: b"themark!")
    return message


def values_of(data: bytes, **limits: Any) -> list[bytes | None]:
    """Return the values that clients read of a single piece."""
    return [
        record.value for record in read_batch(encode_piece(data, START, only_piece(data), 0, **limits).batch).records
    ]


def with_payload(payload: bytes, attributes: int = 1) -> bytes:
    return struct.pack(">ibbI", len(payload) + 6, 1, attributes, zlib.crc32(payload)) + payload


def test_pieces_adjoin_and_count_their_messages() -> None:
    """Runs, wrappers of the gateway, and those of others."""
    gzip, snappy = (bytes(MessageSet([b"one", b"two"], codec)) for codec in (Codec.GZIP, Codec.SNAPPY))
    parts = [PLAIN * 3, own_wrapper(4), PLAIN + encode(b"old", magic=0), gzip, snappy, own_wrapper(1), PLAIN]
    pieces = pieces_of(b"".join(parts))
    assert [piece.numbers for piece in pieces] == [3, 4, 2, 2, 2, 1, 1]
    assert [piece.end - piece.start for piece in pieces] == [len(part) for part in parts]
    assert [piece.start for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]
    assert [piece.kind for piece in pieces] == [
        Kind.PLAIN, Kind.WRAPPER, Kind.PLAIN, Kind.WRAPPER, Kind.WRAPPER, Kind.WRAPPER, Kind.PLAIN,
    ]  # fmt: skip
    assert [piece.origin is not None for piece in pieces] == [False, True, False, False, False, True, False]


def test_a_long_run_is_split() -> None:
    pieces = pieces_of(PLAIN * 100, piece_bytes=150)
    assert sum(piece.numbers for piece in pieces) == 100
    assert [piece.end - piece.start for piece in pieces[:-1]] == [150] * (len(pieces) - 1)
    assert find_pieces(b"", START, [TOPIC_ID], 3) == ([], START)


@pytest.mark.parametrize("last", [PLAIN, own_wrapper(2), bytes(MessageSet([b"x"], Codec.SNAPPY))])
def test_what_the_fetch_has_cut_off_is_left(last: bytes) -> None:
    """Wherever it was cut: the position behind the last whole message is where to go on."""
    for size in range(len(last)):
        pieces, end = find_pieces((PLAIN + last)[: len(PLAIN) + size], START, [TOPIC_ID], 3)
        assert end == START + len(PLAIN)
        assert len(pieces) == 1


@pytest.mark.parametrize("length", [-1, 0, 4, 1_000_001, 2**31 - 1])
def test_an_impossible_length_loses_the_boundary(length: int) -> None:
    """Nothing that follows can be counted, and the error names where."""
    data = PLAIN + struct.pack(">i", length) + PLAIN
    with pytest.raises(LostBoundaryError, match=str(START + len(PLAIN))) as caught:
        find_pieces(data, START, [TOPIC_ID], 3, max_length=1_000_000)
    assert caught.value.position == START + len(PLAIN)


@pytest.mark.parametrize(
    "message",
    [
        PLAIN[:-1] + b"?",
        own_wrapper(3)[:-1] + b"?",
        struct.pack(">ib", 5, 1) + b"abcd",  # too short for its magic
        PLAIN[:4] + b"\x02" + PLAIN[5:],
        with_payload(b"no codec", 3),
        with_payload(b"no gzip stream"),
        with_payload(compress(Codec.GZIP, PLAIN)[:-9]),
        with_payload(compress(Codec.GZIP, PLAIN[:-1] + b"?")),
        with_payload(compress(Codec.GZIP, PLAIN[:-1])),
    ],
)
def test_a_damaged_message_takes_the_most_numbers(message: bytes) -> None:
    """Whatever it held, nothing behind it may get another number when a replica repairs it."""
    pieces = pieces_of(PLAIN + message + PLAIN)
    assert [piece.kind for piece in pieces] == [Kind.PLAIN, Kind.DAMAGED, Kind.PLAIN]
    assert pieces[1].numbers == 128 * len(message)


def test_a_wrapper_of_many_messages_is_overfull() -> None:
    """Nested wrappers of a few hundred bytes hold as many as one likes."""
    inner = with_payload(compress(Codec.GZIP, encode(b"", magic=0) * 10_000))
    piece = only_piece(with_payload(compress(Codec.GZIP, inner * 100)))
    assert piece.kind is Kind.OVERFULL
    assert piece.numbers == 128 * (piece.end - piece.start)


def test_a_wrapper_opens_to_so_many_bytes_at_most() -> None:
    message = bytes(MessageSet([bytes(100_000)], Codec.GZIP))
    assert only_piece(message).kind is Kind.WRAPPER
    piece = only_piece(message, max_opened_bytes=99_999)
    assert (piece.kind, piece.numbers) == (Kind.DAMAGED, 128 * len(message))


def test_nested_wrappers_count_and_open() -> None:
    inside = PLAIN + bytes(MessageSet([b"a", b"b"], Codec.SNAPPY)) + encode(b"old", magic=0)
    message = with_payload(compress(Codec.GZIP, inside))
    assert only_piece(message).numbers == 4
    assert values_of(message) == [b"plain", b"a", b"b", b"old"]
    own_inside = with_payload(compress(Codec.GZIP, own_wrapper(3)))
    assert only_piece(own_inside).origin is None
    assert values_of(own_inside) == [b"value"] * 3
    assert values_of(own_inside, skip=1, max_bytes=1) == [b"value"]


def test_a_wrapper_without_messages_takes_a_number() -> None:
    """No two pieces may have the same numbers."""
    message = with_payload(compress(Codec.GZIP, b""))
    piece = only_piece(message)
    assert (piece.kind, piece.numbers) == (Kind.WRAPPER, 1)
    encoded = encode_piece(message, START, piece, 70)
    batch = read_batch(encoded.batch)
    assert (batch.base_offset, batch.last_delta, batch.records, encoded.next_number) == (70, 0, [], 71)


def test_a_run_is_encoded_from_a_message_on_up_to_a_size() -> None:
    """At least one message, or a reader with a small buffer would stop for ever."""
    data = b"".join(encode(b"value %d" % index) for index in range(20))
    piece = only_piece(data)
    encoded = encode_piece(data, START, piece, 1000, skip=5, max_bytes=61 + 3 * 15)
    batch = read_batch(encoded.batch)
    assert [record.value for record in batch.records] == [b"value 5", b"value 6", b"value 7"]
    assert {record[1:] for record in batch.records} == {(None, (), -1)}
    assert (batch.base_offset, batch.last_delta, encoded.next_number) == (1005, 2, 1008)
    assert (batch.producer, batch.max_timestamp) == ((-1, -1, -1), -1)
    assert len(read_batch(encode_piece(data, START, piece, 0, skip=19, max_bytes=1).batch).records) == 1
    assert encode_piece(data, START, piece, 0).next_number == 20


def test_a_wrapper_that_lies_is_refused() -> None:
    """Who can write to a log of 0.7 can write anything: more records than values, notes of others, no stream."""
    good = own_wrapper(3)
    payload = good[10:]
    at = payload.index(TOPIC_ID) - 1
    count_at = at + 1 + 16 + 4 + 8 + 2 + 4
    for wrong in (
        payload[:count_at] + struct.pack(">i", 2) + payload[count_at + 4 :],
        payload[:count_at] + struct.pack(">i", 4) + payload[count_at + 4 :],
        payload[:-4] + b"\xff\xff\xff\x7f",
        payload[:-4] + b"\1\0\0\0",
        payload[:-4] + bytes([payload[-4] + 5]) + payload[-3:],
        payload.replace(b"\x06key", b"\x08key"),
        payload[:-30] + payload[-8:],
    ):
        message = with_payload(wrong)
        piece = only_piece(message)
        assert piece.kind is Kind.WRAPPER
        with pytest.raises(InvalidRecordsError) as caught:
            encode_piece(message, START, piece, 0)
        assert caught.value.code == CORRUPT_MESSAGE


def test_a_wrapper_with_an_older_id_of_its_topic_tells_who_sent_it() -> None:
    """The topic was deleted and created again: what was under way may be stored afterwards."""
    message, older = own_wrapper(3), bytes(reversed(range(16)))
    [known], _ = find_pieces(message, START, [older, TOPIC_ID], 3)
    [foreign], _ = find_pieces(message, START, [older], 3)
    assert known.origin is not None
    assert foreign.origin is None
    assert known.numbers == foreign.numbers == 3


def test_another_version_of_the_field_is_a_wrapper_of_others() -> None:
    """Its values are served, and no more: a gateway of a later release has written it."""
    payload = own_wrapper(3)[10:]
    at = payload.index(TOPIC_ID) - 1
    for wrong in (payload[:at] + b"\2" + payload[at + 1 :], payload.replace(b"KG", b"kg", 1)):
        message = with_payload(wrong)
        assert only_piece(message).origin is None
        assert values_of(message) == [b"value"] * 3
