"""The bytes of a wrapper, typed: those that are in logs must be read for ever."""

from __future__ import annotations

import struct
import zlib

from kafka2011.gateway.records.batches import open_batches
from kafka2011.gateway.records.encoding import encode_piece
from kafka2011.gateway.records.found import Kind, Origin, Piece
from kafka2011.gateway.records.pieces import find_pieces
from kafka2011.gateway.records.wrappers import wrappers_of
from tests.support.record_batches import Record, batch_of, read_batch

TOPIC_ID = b"sixteen bytes id"
RECORDS = [Record(b"one", b"k", ((b"h", b"x"), (b"n", None)), 1000), Record(None, None, (), 998)]
INNER = bytes.fromhex("00000009 01 00 7a6c86f1") + b"one" + bytes.fromhex("00000006 01 00 00000000")
NOTES = (
    bytes.fromhex("01")
    + TOPIC_ID
    + bytes.fromhex("00000003 000000000000004d 0001 00000005 00000002")
    + b"the mark"
    + bytes.fromhex("00000000000003e8 00 00000010")
    + bytes.fromhex("00 00 02 6b 04 02 68 02 78 02 6e 01")  # delta 0, a value, key k, two headers
    + bytes.fromhex("03 01 01 00")  # delta -2, null, no key, no headers
)
PAYLOAD = (
    bytes.fromhex("1f8b 08 04 00000000 00 ff")
    + struct.pack("<H2sH", len(NOTES) + 4, b"KG", len(NOTES))
    + NOTES
    + struct.pack("<BHH", 1, len(INNER), len(INNER) ^ 0xFFFF)
    + INNER
    + struct.pack("<II", zlib.crc32(INNER), len(INNER))
)
MESSAGE = struct.pack(">iBBI", len(PAYLOAD) + 6, 1, 1, zlib.crc32(PAYLOAD)) + PAYLOAD
ORIGIN = Origin(77, 1, 5, 2, b"the mark")


def test_a_batch_is_stored_in_these_bytes() -> None:
    [batch] = open_batches(batch_of(RECORDS, 0, (77, 1, 5)), 0)
    assert wrappers_of(batch, TOPIC_ID, 3, lambda: b"the mark") == [(MESSAGE, ORIGIN)]


def test_these_bytes_are_read() -> None:
    [piece], _ = find_pieces(MESSAGE, 0, [TOPIC_ID], 3)
    assert piece == Piece(Kind.WRAPPER, 0, len(MESSAGE), 2, ORIGIN)
    batch = read_batch(encode_piece(MESSAGE, 0, piece, 0).batch)
    assert (batch.records, batch.producer) == (RECORDS, (77, 1, 5))
