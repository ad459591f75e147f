"""A log, a file and a znode in memory, for the index of a partition: they can be put back, lost, damaged and killed."""

from __future__ import annotations

import copy
import struct
import zlib
from typing import TYPE_CHECKING

from kafka2011.errors import OffsetOutOfRangeError
from kafka2011.gateway.numbering.entries import Entries
from kafka2011.gateway.numbering.stores import AnchorState, Stored
from kafka2011.gateway.records.batch_format import NO_TIMESTAMP
from kafka2011.gateway.records.errors import LostBoundaryError
from kafka2011.gateway.records.found import NUMBERS_A_BYTE, Kind, Origin, Piece

if TYPE_CHECKING:
    from kafka2011.gateway.numbering.boundaries import Tail

_HEAD = struct.Struct(">II")
_BODY = struct.Struct(">cqi")
_ORIGIN = struct.Struct(">qhii8s")
_RUN_BYTES = 100
MESSAGE_BYTES = _HEAD.size + _BODY.size


class KilledError(BaseException):
    """The process of the gateway ends here."""


def _framed(body: bytes) -> bytes:
    return _HEAD.pack(len(body), zlib.crc32(body)) + body


def plain(name: int) -> bytes:
    """Return one plain message."""
    return _framed(_BODY.pack(b"p", name, 1))


def wrapper(name: int, messages: int, origin: Origin | None = None, *, size: int = 0) -> bytes:
    """Return a wrapper of some messages; of another program, or of a gateway."""
    content = _ORIGIN.pack(*origin) if origin else b""
    return _framed(_BODY.pack(b"w", name, messages) + content + bytes(size))


def overfull(name: int) -> bytes:
    """Return a wrapper of 5,000,000 messages."""
    return wrapper(name, 5_000_000)


def damaged(message: bytes) -> bytes:
    """Return a message with one bit changed."""
    return message[:-1] + bytes([message[-1] ^ 1])


def find_pieces(data: bytes, position: int) -> tuple[list[Piece], int]:
    """Find pieces as the gateway does in real sets."""
    pieces: list[Piece] = []
    at = 0
    while at + _HEAD.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, at)
        if not _BODY.size <= length < 10_000:
            raise LostBoundaryError(position + at, length)
        start, end = position + at, position + at + _HEAD.size + length
        body = data[at + _HEAD.size : end - position]
        if len(body) < length:
            break
        kind, _, messages = _BODY.unpack_from(body)
        most = NUMBERS_A_BYTE * (end - start)
        last = pieces[-1] if pieces else None
        if zlib.crc32(body) != checksum:
            pieces.append(Piece(Kind.DAMAGED, start, end, most))
        elif kind == b"w" and messages > most:
            pieces.append(Piece(Kind.OVERFULL, start, end, most))
        elif kind == b"w":
            content = body[_BODY.size :]
            origin = Origin(*_ORIGIN.unpack(content)) if len(content) == _ORIGIN.size else None
            pieces.append(Piece(Kind.WRAPPER, start, end, messages, origin))
        elif last is not None and last.kind is Kind.PLAIN and end - last.start <= _RUN_BYTES:
            pieces[-1] = last._replace(end=end, numbers=last.numbers + 1)
        else:
            pieces.append(Piece(Kind.PLAIN, start, end, 1))
        at = end - position
    return pieces, position + at


def newest_in(message: bytes | memoryview) -> int:
    """Return the timestamp of a wrapper: one that a gateway has made has one, from its name."""
    _, name, _ = _BODY.unpack_from(message, _HEAD.size)
    return name * 7919 % 10_007 if len(message) == MESSAGE_BYTES + _ORIGIN.size else NO_TIMESTAMP


def names_in(data: bytes) -> list[tuple[int, int]]:
    """Return what each message of whole, sound data is: the name of its message on disk, and its place in that."""
    names = []
    at = 0
    while at < len(data):
        length, _ = _HEAD.unpack_from(data, at)
        _, name, messages = _BODY.unpack_from(data, at + _HEAD.size)
        names += [(name, index) for index in range(messages)]
        at += _HEAD.size + length
    return names


class ToyLog:
    """The readable part of a log, as a list of messages by position."""

    def __init__(self, start: int = 0) -> None:
        self.start = start
        self.data = b""
        self.starts: list[int] = []
        self.repairs: dict[int, bytes] = {}
        """What stood where messages are damaged now, by position."""

    def earliest(self) -> int:
        return self.start

    def latest(self) -> int:
        return self.start + len(self.data)

    def read(self, position: int, max_bytes: int) -> bytes:
        if not self.earliest() <= position <= self.latest():
            raise OffsetOutOfRangeError(f"{position} is not in {self.earliest()}..{self.latest()}")
        return self.data[position - self.start :][:max_bytes]

    def append(self, *messages: bytes) -> int:
        """Append messages; return the position of the first one."""
        position = self.latest()
        for message in messages:
            self.starts.append(self.latest())
            self.data += message
        return position

    def append_damaged(self, message: bytes) -> int:
        """Append a message that is damaged on this disk, and can be repaired."""
        position = self.append(damaged(message))
        self.repairs[position] = message
        return position

    def rot(self, position: int) -> None:
        """Damage a message that was good."""
        end = min([start for start in self.starts if start > position], default=self.latest())
        message = self.read(position, end - position)
        self.repairs.setdefault(position, message)
        self._replace(position, damaged(message))

    def repair(self, position: int) -> None:
        """Give a message its good bytes back."""
        self._replace(position, self.repairs.pop(position))

    def _replace(self, position: int, message: bytes) -> None:
        at = position - self.start
        self.data = self.data[:at] + message + self.data[at + len(message) :]

    def retain_from(self, position: int) -> None:
        """Remove the front."""
        self.data = self.data[position - self.start :]
        self.start = position
        self.starts = [start for start in self.starts if start >= position]
        self.repairs = {at: message for at, message in self.repairs.items() if at >= position}

    def put_back(self, older: ToyLog) -> None:
        """Have the state of an earlier copy."""
        self.__dict__.update(copy.deepcopy(older.__dict__))


class Steps:
    """Counts the steps of storing, and ends the process, or fails, at one of them."""

    def __init__(self) -> None:
        self.count = 0
        self.kill_at = 0
        self.failing = False

    def step(self) -> None:
        self.count += 1
        if self.count == self.kill_at:
            raise KilledError
        if self.failing:
            raise OSError("no")


class ToyFile:
    """The file of an index, with a moment before and after each change."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self.stored: Stored | None = None
        self.tail: tuple[int, Tail] | None = None

    def load(self) -> Stored | None:
        if self.stored is None:
            return None
        stored = _copied(self.stored)
        if self.tail is not None and self.tail[0] == stored.generation and self.tail[1].position > stored.tail.position:
            stored = stored._replace(tail=self.tail[1])
        return stored

    def store(self, stored: Stored) -> None:
        self._steps.step()
        self.stored = _copied(stored)
        self._steps.step()

    def note(self, generation: int, tail: Tail) -> None:
        self._steps.step()
        self.tail = generation, tail
        self._steps.step()


def _copied(stored: Stored) -> Stored:
    places = [stored.entries[index] for index in range(len(stored.entries))]
    return stored._replace(entries=Entries(places), senders=copy.deepcopy(stored.senders))


class ToyAnchors:
    """The znode, as the text in it."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self.text: str | None = None

    def load(self) -> AnchorState | None:
        return None if self.text is None else AnchorState.of(self.text)

    def store(self, state: AnchorState) -> None:
        self._steps.step()
        self.text = state.text()
        self._steps.step()
