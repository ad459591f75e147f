"""Odd requests, in the order in which one broker gets them, and what Kafka 0.7.2 makes of each."""

from __future__ import annotations

from struct import pack
from typing import NamedTuple
from zlib import crc32

from tests.support.bytes_of_07 import OFFSETS_OF_THE_END, answer, fetch, found_offsets, frame, offsets, produce

MAX_MESSAGE_BYTES = 1_000_000
MAX_FRAME_BYTES = 100 * 1024 * 1024


class EdgeCase(NamedTuple):
    """What is sent on one connection, and the first answer; None: the connection is closed."""

    label: str
    sent: bytes
    reply: bytes | None
    is_flushed_after: bool = False


def message(payload: bytes, attributes: int = 0) -> bytes:
    return pack(">ibBI", 6 + len(payload), 1, attributes, crc32(payload)) + payload


LATEST = offsets("probe", OFFSETS_OF_THE_END, 1)

OLD = bytes.fromhex("00000008 00 3f5dd4e5") + b"old"  # magic 0: length, magic, CRC-32, payload
EMPTY = bytes.fromhex("00000006 01 00 00000000")
OK = bytes.fromhex("00000008 01 00 79dcdd47") + b"ok"
STORED = OLD + EMPTY + OK

EDGE_CASES = [
    # Each produce has a request after it that is answered, so that a closed connection shows.
    EdgeCase("produce magic0 then offsets", produce("probe", OLD) + LATEST, found_offsets(0), is_flushed_after=True),
    EdgeCase("fetch magic0 back", fetch("probe", 0), answer(OLD)),
    EdgeCase("produce bad crc then offsets", produce("probe", OK[:-1] + b"?") + LATEST, None),
    EdgeCase("produce partition 5 of 1 then offsets", produce("probe", OK, 5) + LATEST, None),
    EdgeCase("produce magic 2 then offsets", produce("probe", OK[:4] + b"\2" + OK[5:]) + LATEST, None),
    EdgeCase("produce empty message set then offsets", produce("probe", b"") + LATEST, found_offsets(12)),
    EdgeCase("produce empty payload then offsets", produce("probe", EMPTY) + LATEST, found_offsets(12)),
    EdgeCase(
        "produce trailing partial message then offsets",
        produce("probe", OK + OK[:9]) + LATEST,
        found_offsets(12),
        is_flushed_after=True,
    ),
    EdgeCase("offsets after", LATEST, found_offsets(34)),
    EdgeCase("fetch", fetch("probe", 0), answer(STORED)),
    EdgeCase(
        "produce > max.message.size (1000001 B) then offsets",
        produce("probe", message(bytes(MAX_MESSAGE_BYTES + 1))) + LATEST,
        found_offsets(34),
    ),
    EdgeCase(
        "produce = 1000000 B then offsets",
        produce("probe", message(bytes(MAX_MESSAGE_BYTES))) + LATEST,
        found_offsets(34),
    ),
    EdgeCase(
        "produce attr=3 (unknown codec) then offsets",
        produce("probe", message(b"ok", attributes=3)) + LATEST,
        None,
    ),
    EdgeCase(
        "produce attr=1 (gzip) garbage payload then offsets",
        produce("probe", message(b"garbage", attributes=1)) + LATEST,
        None,
    ),
    EdgeCase("unknown request id 9", frame(9), None),
    EdgeCase("size 0 frame", pack(">i", 0), None),
    EdgeCase("size > 100MB frame", pack(">i", MAX_FRAME_BYTES + 1), None),
    EdgeCase('bad topic name ".." then offsets', produce("..", OK) + LATEST, None),
    EdgeCase("empty topic name produce then offsets", produce("", OK) + LATEST, None),
    EdgeCase("fetch mid-message offset 3", fetch("probe", 3), answer(STORED[3:])),
    EdgeCase("fetch negative offset", fetch("probe", -1), answer(error=1)),
    EdgeCase("fetch max 0", fetch("probe", 0, 0), answer()),
    EdgeCase("fetch max -1", fetch("probe", 0, -1), pack(">ib", 1, 0)),  # a malformed frame
    EdgeCase("pipelined 2 offsets (first reply)", LATEST * 2, found_offsets(34)),
]
