"""The bytes that the reference draws are those of Kafka 0.7, and mean what stands beside them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kafka2011 import Broker
from kafka2011.consumer.topic_count import TopicCount
from kafka2011.message.message_set import MessageSet
from kafka2011.wire.protocol import (
    FetchRequest,
    OffsetsRequest,
    ProduceRequest,
    decode_offsets_body,
    decode_request,
    decode_response,
)
from scripts import drawings
from zk import paths

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
ONE = bytes.fromhex("00000009 01 00 7a6c86f1") + b"one"
"""Typed by hand, as Kafka 0.7 writes it."""
ONE_OF_MAGIC_0 = bytes.fromhex("00000008 00 7a6c86f1") + b"one"
TWO = bytes.fromhex("00000009 01 00 11ca8a66") + b"two"


def drawn_on(page: str) -> list[bytes]:
    """Return the bytes of each drawing of a page."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    return drawings.drawn(re.findall(r"^```text\n(  at .*?)^```", text, re.DOTALL | re.MULTILINE))


def test_requests_and_responses() -> None:
    """The codec reads each drawing of the wire format as the request or response that its title names."""
    produce, fetch, fetched, refused, offsets, answer = drawn_on("wire.md")
    assert decode_request(produce[4:]) == ProduceRequest("views", 0, ONE)
    assert decode_request(fetch[4:]) == FetchRequest("views", 0, 0, 1_048_576)
    assert decode_request(offsets[4:]) == OffsetsRequest("views", 0, -1, 2)
    assert decode_response(fetched[4:], "views") == ONE
    assert decode_offsets_body(decode_response(answer[4:], "views")) == [13, 0]
    assert refused == bytes.fromhex("00000002 0001")
    for frame in (produce, fetch, fetched, offsets, answer, refused):
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4


def test_messages() -> None:
    """The drawings of files are messages, byte for byte those typed here."""
    assert drawn_on("disk.md") == [ONE, ONE_OF_MAGIC_0, ONE + TWO]
    assert [*MessageSet.from_bytes(ONE + TWO)] == [b"one", b"two"]


def test_znodes() -> None:
    """Brokers and consumers read the values of the example as what they are."""
    values = dict(drawings.znodes())
    page = (REFERENCE / "znodes.md").read_text(encoding="utf-8")
    assert all(value in page for value in values.values())
    path = paths.broker(0)
    assert Broker.from_node(path, 0, values[path].encode()).address == "10.0.0.1:9092"
    [subscription] = [value for path, value in values.items() if "/ids/reports_" in path]
    assert TopicCount.parse(subscription).streams_by_topic == {"views": 1} == json.loads(subscription)


def test_every_znode_is_listed() -> None:
    """Each path that the package writes has a row."""
    page = (REFERENCE / "znodes.md").read_text(encoding="utf-8")
    written = re.findall(r"^    (/\S+)", paths.__doc__ or "", re.MULTILINE)
    assert len(written) > 15
    assert [path for path in written if f"| `{path}` |" not in page] == []


def test_a_field_too_few_is_an_error() -> None:
    """A drawing shows all bytes."""
    with pytest.raises(ValueError, match="3 bytes are left after crc"):
        drawings.fields_of(ONE, drawings.MESSAGE[:-1])
