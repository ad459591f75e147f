"""Stamps of many payloads at once are what they are one by one, whatever the bytes."""

from __future__ import annotations

import random
import uuid

import numpy as np
import pytest

from kafka2011.audit.counter import columns_of_stamps
from kafka2011.audit.stamp_columns import stamp_columns
from kafka2011.events.codec import MARK, read_stamps
from kafka2011.events.varint import write_varint

NOW_US = 1_307_836_800_000_000


def text(value: bytes) -> bytes:
    return write_varint(len(value)) + value


def payload_of(draw: random.Random) -> bytes:
    """Make an event whose header is as events have it, or has one thing that is unusual."""
    odd = draw.randrange(12)
    times = [NOW_US + draw.randrange(10**9) for _ in range(2)]
    if odd == 0:
        times[draw.randrange(2)] = draw.choice([0, -1, -NOW_US, 10**6, 2**62, -(2**63), 2**63 - 1])
    server = b"w" * (draw.choice([0, 63, 64, 200]) if odd == 1 else draw.randrange(20))
    name = str(uuid.UUID(int=draw.getrandbits(128))).encode()
    if odd == 2:
        name = draw.choice(
            [name.upper(), name.replace(b"-", b"_"), name[:-1], name + b"0", b"", b"z" * 36, name[:-1] + b" "]
        )
    if odd == 3:
        name = name[:20] + b"\xc3\x28" + name[22:]
    body = b"".join([*map(write_varint, times), text(server), text(name), b"rest" * draw.randrange(3)])
    payload = MARK + bytes(8) + body
    if odd == 4:
        payload = payload[: draw.randrange(len(payload))]
    if odd == 5:
        at = draw.randrange(len(payload))
        payload = payload[:at] + bytes([draw.randrange(256)]) + payload[at + 1 :]
    if odd == 6:
        payload = draw.randbytes(draw.randrange(150))
    return payload


@pytest.mark.parametrize("seed", range(30))
def test_many_at_once_are_as_one_by_one(seed: int) -> None:
    """The same ones are good, with the same times and ids, in the same order."""
    draw = random.Random(seed)
    payloads = [payload_of(draw) for _ in range(draw.choice([1, 40, 500]))]
    for found, expected in zip(stamp_columns(payloads), columns_of_stamps(read_stamps(payloads)), strict=True):
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)


def test_none_are_none() -> None:
    """There is nothing to read."""
    assert [len(each) for each in stamp_columns([])] == [0, 0, 0]
