"""What producers and members write down while a cluster suffers: their lines, and the messages themselves. Pure.

A line is written with one call, so that a process killed with -9 leaves at most one torn line, at the end of its file.
"""

from __future__ import annotations

import re
import zlib
from typing import TYPE_CHECKING, NamedTuple

from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

NO_KEY = "-"
TODAY = "today"
"""The style of producers that send through gateways."""
JAVA = f"{TODAY}.java"
"""The Java producer that never ends."""
_JAVA_VALUE = re.compile(rb"%s-[0-9]+-([0-9]+)" % re.escape(JAVA.encode()))
_LONG_EVERY = 89
_LONG_BYTES = 6000
_SHORT_BYTES = 200


class MessageId(NamedTuple):
    """A message's name: no two are the same in a run, since each start of a producer has a name of its own."""

    producer: str
    number: int

    @property
    def is_of_today(self) -> bool:
        """Whether a client of today sent it, through a gateway."""
        return self.producer.startswith(f"{TODAY}.")

    def __str__(self) -> str:
        return f"{self.producer}:{self.number}"


class Place(NamedTuple):
    """Where a message lies."""

    where: TopicPartition
    offset: int
    index_in_set: int

    def __str__(self) -> str:
        return f"{self.where}@{self.offset}+{self.index_in_set}"


def payload_of(message: MessageId, key: str) -> bytes:
    """Return the one payload that a message with this name and key has; some are long."""
    check = zlib.crc32(f"{message} {key}".encode())
    size = _LONG_BYTES if check % _LONG_EVERY == 0 else check % _SHORT_BYTES
    return f"{message.producer} {message.number} {key} ".encode() + (b"%08x" % check * (size // 8 + 1))[:size]


def identify(payload: bytes) -> tuple[MessageId, str] | None:
    """Return which message a payload is, and its key; None when it is not, byte for byte, what was sent."""
    if of_java := _JAVA_VALUE.fullmatch(payload):  # see Endless.java
        return MessageId(JAVA, int(of_java[1])), NO_KEY
    fields = payload.split(b" ", 3)
    if len(fields) != 4 or not fields[1].isdigit():
        return None
    message, key = MessageId(fields[0].decode(errors="replace"), int(fields[1])), fields[2].decode(errors="replace")
    return (message, key) if payload == payload_of(message, key) else None


class Logged(NamedTuple):
    """A message as it lies in a log; `message` is None when its bytes are not those that were sent.

    `gone` says what removed it, if it is known that it can no longer be read.
    """

    place: Place
    message: MessageId | None
    key: str
    gone: str = ""


# Producers -----------------------------------------------------------------------------------------------------------


class Sent(NamedTuple):
    """A message that a producer was given, and what it said of it.

    `outcome` is `confirmed`, `written` (without confirmation), `failed`, or empty when the producer never said.
    `named` is the partition that the message was sent to by name, as `broker-partition`, or empty.
    """

    message: MessageId
    topic: str
    key: str
    named: str
    sent_s: float
    outcome: str
    ended_s: float
    resends: int


def sent_line(stamp_s: float, number: int, topic: str, key: str, named: str) -> bytes:
    """Return the line that is written before a message is sent."""
    return f"S {stamp_s:.6f} {number} {topic} {key} {named or NO_KEY}\n".encode()


def outcome_line(stamp_s: float, number: int, outcome: str, resends: int) -> bytes:
    """Return the line that is written once a producer knows what became of a message."""
    return f"O {stamp_s:.6f} {number} {outcome} {resends}\n".encode()


def told_line(stamp_s: float, number: int, partition: int, offset: int) -> bytes:
    """Return the line for what a gateway has acknowledged: Kafka's numbers for its place."""
    return f"A {stamp_s:.6f} {number} {partition} {offset}\n".encode()


def read_told(producer: str, lines: Iterable[str]) -> dict[MessageId, tuple[str, int, int]]:
    """Return topic, partition and offset of what gateways have acknowledged to one start of a producer."""
    topics: dict[int, str] = {}
    told: dict[MessageId, tuple[str, int, int]] = {}
    for kind, _, *rest in map(str.split, lines):
        if kind == "S":
            topics[int(rest[0])] = rest[1]
        elif kind == "A":
            number, partition, offset = map(int, rest)
            told[MessageId(producer, number)] = topics[number], partition, offset
    return told


def read_sent(producer: str, lines: Iterable[str]) -> list[Sent]:
    """Return what one start of a producer did, in order."""
    found: dict[int, Sent] = {}
    for kind, stamp, *rest in map(str.split, lines):
        if kind == "S":
            number = int(rest[0])
            named = "" if rest[3] == NO_KEY else rest[3]
            found[number] = Sent(MessageId(producer, number), rest[1], rest[2], named, float(stamp), "", 0.0, 0)
        elif kind == "O":
            number = int(rest[0])
            ended_s, resends = float(stamp), int(rest[2])
            found[number] = found[number]._replace(outcome=rest[1], ended_s=ended_s, resends=resends)
    return list(found.values())


# Members -------------------------------------------------------------------------------------------------------------


class Receipt(NamedTuple):
    """A message as a member was handed it: when (on the lease's clock), and where it came from."""

    stamp_s: float
    member: str
    place: Place
    next_offset: int
    message: MessageId | None


class Tenure(NamedTuple):
    """What a member was told of its partitions: `assigned`, `revoked` or `lost`."""

    stamp_s: float
    member: str
    what: str
    partitions: tuple[TopicPartition, ...]


class MemberFile(NamedTuple):
    """All that one member wrote down; `others` are further lines, by their first word."""

    receipts: list[Receipt]
    tenures: list[Tenure]
    others: list[tuple[str, float, str]]


def receipt_line(stamp_s: float, place: Place, next_offset: int, payload: bytes) -> bytes:
    """Return the line for a message that was handed out."""
    known = identify(payload)
    name = str(known[0]) if known else NO_KEY
    topic, broker_id, partition = place.where
    return (
        f"R {stamp_s:.6f} {topic} {broker_id} {partition} {place.offset} {place.index_in_set} {next_offset} {name}\n"
    ).encode()


def tenure_line(stamp_s: float, what: str, partitions: Sequence[TopicPartition]) -> bytes:
    """Return the line for partitions that came or went."""
    names = (f"{topic} {broker_id} {partition}" for topic, broker_id, partition in partitions)
    return f"T {stamp_s:.6f} {what} {' '.join(names)}\n".encode()


def read_member(member: str, lines: Iterable[str]) -> MemberFile:
    """Return what one member wrote down, in order."""
    found = MemberFile([], [], [])
    for line in lines:
        kind, stamp, rest = [*line.split(maxsplit=2), ""][:3]
        if kind == "R":
            topic, broker_id, partition, offset, index, next_offset, name = rest.split()
            place = Place(TopicPartition(topic, int(broker_id), int(partition)), int(offset), int(index))
            found.receipts.append(Receipt(float(stamp), member, place, int(next_offset), _message_from(name)))
        elif kind == "T":
            what, *names = rest.split()
            triples = zip(names[::3], names[1::3], names[2::3], strict=True)
            partitions = tuple(TopicPartition(topic, int(broker), int(number)) for topic, broker, number in triples)
            found.tenures.append(Tenure(float(stamp), member, what, partitions))
        else:
            found.others.append((kind, float(stamp), rest))
    return found


def _message_from(name: str) -> MessageId | None:
    if name == NO_KEY:
        return None
    producer, _, number = name.rpartition(":")
    return MessageId(producer, int(number))


def whole_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, without one that was torn by kill -9; none when there is no file."""
    if path.exists():
        with path.open() as file:
            for line in file:
                if line.endswith("\n"):
                    yield line
