"""Bytes on a real socket: those of a running Kafka 0.7.2, and some from the specification."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

from kafka2011.wire.protocol import FrameReader, MultiProduceRequest, OffsetsRequest, ProduceRequest, decode_request
from tests.support.bytes_of_07 import ANSWERED, CLOSED, PRODUCED, SEGMENTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.local_cluster import LocalBroker

    AwaitEnd = Callable[..., None]

SETTLED_S = 1_000_000_000
"""A time before the requests were made: when the segments shall have been written."""


def exchange(broker: LocalBroker, request: bytes) -> bytes:
    """Send bytes, end the sending side, and return all that comes back until the broker closes."""
    with socket.create_connection((broker.host, broker.port), timeout=20) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while data := connection.recv(65536):
            answer += data
        return answer


def test_bytes_of_the_specification(broker: LocalBroker, await_end: AwaitEnd) -> None:
    """Produce in both message formats, then every kind of read."""
    hello = bytes.fromhex("0000000b0100 3610a686 68656c6c6f".replace(" ", ""))
    old = bytes.fromhex("0000000800 3f5dd4e5 6f6c64".replace(" ", ""))
    produce = bytes.fromhex("0000 0001 74 00000000".replace(" ", ""))
    body = produce + (len(hello) + len(old)).to_bytes(4, "big") + hello + old
    assert exchange(broker, len(body).to_bytes(4, "big") + body) == b""
    await_end(broker, "t", 27)
    topic = "0001 74 00000000"
    for request, response in (
        (f"0001 {topic} 0000000000000000 000003e8", f"0000001d 0000 {hello.hex()} {old.hex()}"),
        (f"0001 {topic} 0000000000000003 00000004", "00000006 0000 0b010036"),
        (f"0001 {topic} 000000000000001b 000003e8", "00000002 0000"),
        (f"0001 {topic} 000000000000001c 000003e8", "00000002 0001"),
        (f"0001 {topic} ffffffffffffffff 000003e8", "00000002 0001"),
        (f"0001 {topic} 0000000000000000 00000000", "00000002 0000"),
        (f"0001 {topic} 0000000000000000 ffffffff", "00000002 0004"),
        ("0001 0001 74 00000007 0000000000000000 000003e8", "00000002 0003"),
        ("0001 0002 2e2e 00000000 0000000000000000 000003e8", "00000002 ffff"),
        ("0001 0001 75 00000000 0000000000000000 000003e8", "00000002 0000"),
        ("0002 0000", "00000002 0000"),
        (
            f"0002 0002 {topic} 0000000000000000 0000000f 0001 74 00000007 0000000000000000 00000001",
            f"0000001d 0000 00000011 0000 {hello.hex()} 00000002 0003",
        ),
        (f"0004 {topic} ffffffffffffffff 0000000a", "00000016 0000 00000002 000000000000001b 0000000000000000"),
        (f"0004 {topic} fffffffffffffffe 0000000a", "0000000e 0000 00000001 0000000000000000"),
        (f"0004 {topic} 0000000000000001 0000000a", "00000006 0000 00000000"),
        ("0004 0001 75 00000000 ffffffffffffffff 00000001", "0000000e 0000 00000001 0000000000000000"),
    ):
        wanted = bytes.fromhex(request.replace(" ", ""))
        answer = exchange(broker, len(wanted).to_bytes(4, "big") + wanted)
        assert answer == bytes.fromhex(response.replace(" ", "")), request


def test_bytes_of_a_running_0_7_2(broker: LocalBroker, await_end: AwaitEnd) -> None:
    """The same requests make the same segment files and get the same answers, byte for byte."""
    ends: dict[str, int] = {}
    for name, request in PRODUCED.items():
        assert exchange(broker, request) == b"", name
        for topic, size in produced(request).items():
            ends[topic] = ends.get(topic, 0) + size
    assert len(ends) >= 8
    for topic, end in ends.items():
        await_end(broker, topic, end)
        os.utime(broker.log_dir / f"{topic}-0" / f"{0:020}.kafka", (SETTLED_S, SETTLED_S))
    for directory, golden in SEGMENTS.items():
        assert (broker.log_dir / directory / f"{0:020}.kafka").read_bytes() == golden
    for name, (request, answered) in ANSWERED.items():
        asked = decode_request(frames(request)[0])
        if isinstance(asked, OffsetsRequest) and asked.time_ms >= time.time() * 1000:
            continue  # taken in this machine's future, when the end counts as older
        assert exchange(broker, request) == answered, name
    for name, request in CLOSED.items():
        assert exchange(broker, request) == b"", name


def frames(data: bytes) -> list[bytes]:
    reader = FrameReader()
    reader.receive_data(data)
    found = []
    while (frame := reader.next_frame()) is not None:
        found.append(bytes(frame))
    assert reader.buffered_bytes == 0
    return found


def produced(data: bytes) -> dict[str, int]:
    """Return how many bytes the requests append to each topic."""
    sizes: dict[str, int] = {}
    for frame in frames(data):
        request = decode_request(frame)
        sets = request.produces if isinstance(request, MultiProduceRequest) else (request,)
        for one in sets:
            assert isinstance(one, ProduceRequest)
            sizes[one.topic] = sizes.get(one.topic, 0) + len(one.messages)
    return sizes
