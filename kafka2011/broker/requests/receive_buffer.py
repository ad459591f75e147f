"""The buffers that connections receive into where there is C code (`_receive.c`), and the plain produces found in them.

There are a few for the process. A connection has one from a receiving call until the produces in it are appended, and
the questions between them answered; it keeps only what is left: the beginning of a request, or requests of other kinds.
Whoever finds all of them taken, since an append may wait for the disk, receives bytes of its own and handles each
request in Python, as all do without C code.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kafka2011 import c_code
from kafka2011.wire.protocol import MULTIPRODUCE, PRODUCE

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from kafka2011.message.header import AnyBytes

    Run: TypeAlias = tuple[str, int, int, int, int, int, int, int]
    """Topic, partition, start and end in the buffer, start of the first set, bytes of all sets, sets, messages.

    Whole frames, each a produce to that partition of good, uncompressed messages of allowed size, and nothing else.
    """

RUN_TOPIC: Final = 0
RUN_START: Final = 2
RUN_END: Final = 3
RUN_SETS: Final = 6
"""Where in a run its topic, its start, its end and its number of sets are."""
BUFFER_BYTES = 256 * 1024
"""As much as the kernel gives in one call; larger requests are received into memory of their own."""
MOST_BUFFERS = 4

SIZE_BYTES = 4
"""Before each request."""

_HEAD = struct.Struct(">ih")  # size and type of a request


class ReceiveCode(Protocol):
    """What C does."""

    def receive(
        self, fd: int, buffer: bytearray, kept: bytearray, most: int, max_frame_bytes: int, max_payload_bytes: int, /
    ) -> tuple[int, int, int, list[Run] | None] | None:
        """Receive behind `kept`, without waiting; None where nothing has come.

        Returns how many bytes came, where the first byte stands that is in no run, where the last one ends, and the
        runs: None if all of it belongs to the frame that `kept` begins, and that is still unfinished.
        """

    def append(self, fd: int, kept: bytearray, most: int, whole: int, /) -> int | None:
        """Receive `most` bytes or fewer behind the beginning of a frame of `whole` bytes, without waiting.

        Returns how many came, 0 at the end of the connection, None where nothing has come.
        """

    def runs(
        self, buffer: bytearray, start: int, end: int, max_frame_bytes: int, max_payload_bytes: int, /
    ) -> tuple[int, list[Run]]:
        """Return where the runs end that begin at `start`, and these runs."""

    def join(self, buffer: bytearray, start: int, end: int, /) -> int:
        """Move the sets of a run behind its first one, and return where they end."""

    def crc32(self, data: AnyBytes, /) -> int:
        """Return the CRC-32 by which messages are checked."""


compiled: ReceiveCode | None = c_code.load("broker.requests._receive")


class Received(NamedTuple):
    """What is in the buffer: how many bytes were received, the runs that begin them, and where the rest is.

    `is_more` says that the rest only continues what was kept.
    """

    size: int
    runs: list[Run]
    rest_start: int
    rest_end: int
    is_more: bool


class ReceiveBuffer:
    """Receives into one buffer, and finds runs of produces within the limits."""

    def __init__(
        self, code: ReceiveCode, max_frame_bytes: int, max_message_bytes: int, size_bytes: int = BUFFER_BYTES
    ) -> None:
        self._code = code
        self._max_frame_bytes = max_frame_bytes
        self._max_message_bytes = max_message_bytes
        self._bytes = bytearray(size_bytes)
        self._view = memoryview(self._bytes)

    def receive(self, fd: int, kept: bytearray, most_bytes: int) -> Received | None:
        """Receive what has come behind the beginning of a frame; None if nothing has. Raises OSError."""
        received = self._code.receive(fd, self._bytes, kept, most_bytes, self._max_frame_bytes, self._max_message_bytes)
        if received is None:
            return None
        size, start, end, runs = received
        return Received(size, runs or [], start, end, runs is None)

    def look_again(self, start: int, end: int) -> Received:
        """Find the runs that begin at `start` in what was received."""
        rest_start, runs = self._code.runs(self._bytes, start, end, self._max_frame_bytes, self._max_message_bytes)
        return Received(0, runs, rest_start, end, is_more=False)

    def question(self, start: int, end: int) -> bytes | None:
        """Return the request that begins at `start`, if it is whole, no produce, and not the last; None else."""
        if end - start < _HEAD.size:
            return None
        size, kind = _HEAD.unpack_from(self._bytes, start)
        request_start = start + SIZE_BYTES
        if kind in {PRODUCE, MULTIPRODUCE} or not 0 < size <= self._max_frame_bytes or request_start + size >= end:
            return None
        return bytes(self._view[request_start : request_start + size])

    def sets(self, run: Run) -> memoryview:
        """Return all sets of a run, good until the buffer is given back."""
        _, _, start, end, first, size, count, _ = run
        if count > 1:
            self._code.join(self._bytes, start, end)
        return self._view[first : first + size]

    def rest(self, start: int, end: int) -> memoryview:
        """Return what lies there, good until the buffer is given back."""
        return self._view[start:end]


class ReceiveBuffers:
    """A few buffers, each had by one connection at a time."""

    def __init__(
        self, new_buffer: Callable[[int], ReceiveBuffer], most: int = MOST_BUFFERS, size_bytes: int = BUFFER_BYTES
    ) -> None:
        self.size_bytes = size_bytes
        self.free = [new_buffer(size_bytes)]
        self._new_buffer = new_buffer
        self._left = most - 1

    def take(self) -> ReceiveBuffer | None:
        """Take a buffer; None where all are taken."""
        if self.free:
            return self.free.pop()
        if not self._left:
            return None
        self._left -= 1
        return self._new_buffer(self.size_bytes)

    def give_back(self, buffer: ReceiveBuffer) -> None:
        """Let others have it."""
        self.free.append(buffer)


def new_buffers(max_frame_bytes: int, max_message_bytes: int) -> ReceiveBuffers | None:
    """Make them; None without C code."""
    code = compiled
    if code is None:
        return None
    return ReceiveBuffers(lambda size_bytes: ReceiveBuffer(code, max_frame_bytes, max_message_bytes, size_bytes))


def checksums() -> dict[str, Callable[[AnyBytes], int]]:
    """Return what computes CRCs here, by name."""
    return {} if compiled is None else {"C of the broker": compiled.crc32}
