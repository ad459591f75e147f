"""The buffer that connections receive into where there is C code (`_receive.c`), and the plain produces found in it.

There is one for the process. A connection has it from a receiving call until the produces are appended, and keeps only
what is left: the beginning of a request, or requests of other kinds. Whoever finds it taken, since an append may wait
for the disk, receives bytes of its own and handles each request in Python, as all do without C code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from kafka2011 import c_code

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
"""As much as the kernel gives in one call; larger requests are received as without C code."""


class ReceiveCode(Protocol):
    """What C does."""

    def receive(
        self, fd: int, buffer: bytearray, kept: bytearray, most: int, max_frame_bytes: int, max_payload_bytes: int, /
    ) -> tuple[int, int, int, list[Run] | None] | None:
        """Receive behind `kept`, without waiting; None where nothing has come.

        Returns how many bytes came, where the first byte stands that is in no run, where the last one ends, and the
        runs: None if all of it belongs to the frame that `kept` begins, and that is still unfinished.
        """

    def join(self, buffer: bytearray, start: int, end: int, /) -> int:
        """Move the sets of a run behind its first one, and return where they end."""

    def crc32(self, data: AnyBytes, /) -> int:
        """Return the CRC-32 by which messages are checked."""


compiled: ReceiveCode | None = c_code.load("broker.requests._receive")


class Received(NamedTuple):
    """What a receiving call gave: how many bytes, the runs that begin them, and where in the buffer the rest is.

    `is_more` says that the rest only continues what was kept.
    """

    size: int
    runs: list[Run]
    rest_start: int
    rest_end: int
    is_more: bool


class ReceiveBuffer:
    """Receives into one buffer, and finds runs of produces within the limits. It is had by one connection at a time."""

    def __init__(
        self, code: ReceiveCode, max_frame_bytes: int, max_message_bytes: int, size_bytes: int = BUFFER_BYTES
    ) -> None:
        self.size_bytes = size_bytes
        self._code = code
        self._max_frame_bytes = max_frame_bytes
        self._max_message_bytes = max_message_bytes
        self._bytes = bytearray(size_bytes)
        self._view = memoryview(self._bytes)
        self.is_taken = False

    def receive(self, fd: int, kept: bytearray, most_bytes: int) -> Received | None:
        """Receive what has come behind the beginning of a frame; None if nothing has. Raises OSError."""
        received = self._code.receive(fd, self._bytes, kept, most_bytes, self._max_frame_bytes, self._max_message_bytes)
        if received is None:
            return None
        size, start, end, runs = received
        return Received(size, runs or [], start, end, runs is None)

    def sets(self, run: Run) -> memoryview:
        """Return all sets of a run, good until the buffer is given back."""
        _, _, start, end, first, size, count, _ = run
        if count > 1:
            self._code.join(self._bytes, start, end)
        return self._view[first : first + size]

    def rest(self, start: int, end: int) -> memoryview:
        """Return what lies there, good until the buffer is given back."""
        return self._view[start:end]


def new_buffer(max_frame_bytes: int, max_message_bytes: int) -> ReceiveBuffer | None:
    """Make one; None without C code."""
    return None if compiled is None else ReceiveBuffer(compiled, max_frame_bytes, max_message_bytes)


def checksums() -> dict[str, Callable[[AnyBytes], int]]:
    """Return what computes CRCs here, by name."""
    return {} if compiled is None else {"C of the broker": compiled.crc32}
