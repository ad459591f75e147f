"""Bytes of requests, messages and znodes, drawn for the reference: every field with its place, its bytes and its value.

The bytes come from the codec. The fields are read here once more, with `struct`, as a client in another language would.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.consumer.topic_count import TopicCount, stream_ids
from kafka2011.message.message_set import MessageSet
from kafka2011.wire.protocol import (
    LATEST,
    FetchRequest,
    OffsetsRequest,
    ProduceRequest,
    encode_offsets_body,
    encode_request,
    encode_response_header,
)
from zk import paths
from zk.cluster import Broker, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

TOPIC = "views"
SET = bytes(MessageSet([b"one"]))
"""One message of magic 1."""

_FORMATS = {"int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q", "uint32": ">I"}
_LINE_BYTES = 8
MESSAGE = (("length", "int32"), ("magic", "int8"), ("attributes", "int8"), ("crc", "uint32"), ("payload", "3"))
MESSAGE_0 = (("length", "int32"), ("magic", "int8"), ("crc", "uint32"), ("payload", "3"))
_HEAD = (("size", "int32"), ("type", "int16"), ("topic length", "int16"), ("topic", "5"), ("partition", "int32"))


class Field(NamedTuple):
    """A field in some bytes: where it begins, its own bytes, its name and type, and its value."""

    position: int
    data: bytes
    name: str
    value: str


def fields_of(data: bytes, layout: Sequence[tuple[str, str]]) -> list[Field]:
    """Return the fields of bytes, by names and types (or numbers of bytes). Raises ValueError at a remainder."""
    fields: list[Field] = []
    position = 0
    for name, kind in layout:
        if kind in _FORMATS:
            end = position + struct.calcsize(_FORMATS[kind])
            (number,) = struct.unpack(_FORMATS[kind], data[position:end])
            value = f"{number:#010x}" if kind == "uint32" else str(number)
            fields.append(Field(position, data[position:end], f"{name} {kind}", value))
        else:
            end = position + int(kind)
            fields.append(Field(position, data[position:end], name, repr(data[position:end].decode())))
        position = end
    if position != len(data):
        raise ValueError(f"{len(data) - position} bytes are left after {name}")
    return fields


def drawing(data: bytes, layout: Sequence[tuple[str, str]]) -> str:
    """Return the fields of bytes as a block of text, a line for each field."""
    lines = [f"{'at':>4}  {'bytes':<{3 * _LINE_BYTES}} {'field':<20} value"]
    for field in fields_of(data, layout):
        shown = field.data.hex(" ")
        lines.append(f"{field.position:>4}  {shown:<{3 * _LINE_BYTES}} {field.name:<20} {field.value}".rstrip())
    return "\n".join(["```text", *lines, "```"])


def wire_examples() -> str:
    """Return the requests and responses of the page on the wire format."""
    offsets = encode_offsets_body([len(SET), 0])
    parts = (
        (
            "A produce request",
            encode_request(ProduceRequest(TOPIC, 0, SET)),
            (*_HEAD, ("set size", "int32"), *MESSAGE),
        ),
        (
            "A fetch request",
            encode_request(FetchRequest(TOPIC, 0, 0, 1_048_576)),
            (*_HEAD, ("offset", "int64"), ("max bytes", "int32")),
        ),
        (
            "The response to it",
            encode_response_header(0, len(SET)) + SET,
            (("size", "int32"), ("error", "int16"), *MESSAGE),
        ),
        (
            "The response to a fetch beyond the end of the log",
            encode_response_header(1, 0),
            (("size", "int32"), ("error", "int16")),
        ),
        (
            "An offsets request for the end of the log",
            encode_request(OffsetsRequest(TOPIC, 0, LATEST, 2)),
            (*_HEAD, ("time", "int64"), ("max count", "int32")),
        ),
        (
            "The response to it",
            encode_response_header(0, len(offsets)) + offsets,
            (
                ("size", "int32"),
                ("error", "int16"),
                ("count", "int32"),
                ("newest offset", "int64"),
                ("offset", "int64"),
            ),
        ),
    )
    return "\n\n".join(f"{title}:\n\n{drawing(data, layout)}" for title, data, layout in parts)


def disk_examples() -> str:
    """Return the messages of the page on files."""
    old = bytes(MessageSet([b"one"], magic=0))
    both = bytes(MessageSet([b"one", b"two"]))
    parts = (
        ("A message with magic 1", SET, MESSAGE),
        ("The same message with magic 0", old, MESSAGE_0),
        ("A segment of two messages. The offset of the second one is 0 + 4 + 9 = 13", both, (*MESSAGE, *MESSAGE)),
    )
    return "\n\n".join(f"{title}:\n\n{drawing(data, layout)}" for title, data, layout in parts)


def znodes() -> list[tuple[str, str]]:
    """Return the nodes of the example on the page of znodes: path and value."""
    where = [TopicPartition(TOPIC, 0, number) for number in range(2)]
    member = "reports_web1-1307836800000-0c0ffee0"
    [stream] = stream_ids(member, 1)
    return [
        (paths.broker(0), Broker.created(0, "10.0.0.1", 9092, 1_307_836_800_000).text),
        (paths.topic_broker(TOPIC, 0), "2"),
        (paths.consumer("reports", member), TopicCount.static({TOPIC: 1}).text),
        *((paths.owner("reports", partition), stream) for partition in where),
        *((paths.offset("reports", partition), "13") for partition in where),
    ]


def znode_example() -> str:
    """Return the example of the page on znodes as a tree."""
    lines: list[str] = []
    above: list[str] = []
    for path, value in znodes():
        parts = path.strip("/").split("/")
        shared = next((n for n, (one, other) in enumerate(zip(parts, above, strict=False)) if one != other), 0)
        for depth in range(shared, len(parts)):
            text = f"{'  ' * depth}/{parts[depth]}"
            lines.append(f"{text:<58} {value}" if depth == len(parts) - 1 else text)
        above = parts
    return "\n".join(["```text", *lines, "```"])


def drawn(examples: Iterable[str]) -> list[bytes]:
    """Return the bytes of drawings, read from a page's blocks as a reader would type them."""
    return [
        b"".join(bytes.fromhex(line[6 : 6 + 3 * _LINE_BYTES]) for line in block.splitlines()[1:]) for block in examples
    ]
