"""What was written to one log, and what must be found there whatever happened since."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.message.header import LENGTH, LENGTH_BYTES
from kafka2011.wire.protocol import EARLIEST, LATEST

if TYPE_CHECKING:
    from kafka2011.log.log import Log


class Promise(NamedTuple):
    """What holds for a log if it crashes now.

    Everything below `flushed_end` is there, from a start on that lies between the two: retention has said that it
    deleted what lies before `lowest_start`, and it may have deleted what lies before `highest_start`. Everything below
    `written_end` was appended, and is there if only the process ends.
    """

    flushed_end: int = 0
    written_end: int = 0
    lowest_start: int = 0
    highest_start: int = 0


class Account:
    """All that was appended to one log, since its first offset, beside what the log says about itself."""

    def __init__(self) -> None:
        self.data = b""  # as the appends that succeeded left it
        self.tried: dict[int, set[bytes]] = {}  # the messages that were ever written at an offset
        self.promise = Promise()
        self._payloads = 0

    def copy(self) -> Account:
        """Return an account of a log that may go on otherwise than this one."""
        copied = Account()
        copied.data = self.data
        copied.tried = {offset: set(messages) for offset, messages in self.tried.items()}
        copied.promise = self.promise
        copied._payloads = self._payloads
        return copied

    def next_payload(self, size: int) -> bytes:
        """Return a payload that the log does not have yet, or not lately."""
        self._payloads += 1
        return bytes([33 + self._payloads % 90]) * size

    def try_append(self, data: bytes) -> None:
        """Note what is about to be appended: whether the call succeeds or not, a crash may leave it."""
        for offset, message in _messages(data, len(self.data)):
            self.tried.setdefault(offset, set()).add(message)

    def appended(self, offset: int, data: bytes) -> None:
        """Note that an append succeeded."""
        assert offset == len(self.data), f"appended at {offset}, not at the end {len(self.data)}"
        self.data += data

    def promise_now(self, log: Log) -> Promise:
        """Return what holds if the log crashes now, by what it says to readers."""
        assert log.end_offset >= self.promise.flushed_end, "the flushed end went back"
        return Promise(log.end_offset, len(self.data), self.promise.lowest_start, log.start_offset)

    def deleted(self, log: Log) -> None:
        """Note that retention has returned: what it deleted will not come back."""
        self.promise = self.promise_now(log)._replace(lowest_start=log.start_offset)

    def compare(self, log: Log) -> None:
        """Compare a log in use with what was written to it."""
        assert log.appended_end_offset == len(self.data), f"{log} goes on at {log.appended_end_offset}"
        assert log.start_offset <= log.end_offset <= log.appended_end_offset
        self.promise = self.promise_now(log)
        data = read_all(log)
        assert data == self.data[log.start_offset : log.end_offset], f"{log} holds other bytes than were written"
        newest_first = sorted({*log.segment_offsets, log.end_offset}, reverse=True)
        assert log.offsets_before(LATEST, 1000) == newest_first
        assert log.offsets_before(EARLIEST, 1) == newest_first[-1:]

    def take_over(self, log: Log | None) -> None:
        """Check a log that was opened again, and go on from what it holds."""
        flushed_end, written_end, lowest_start, highest_start = self.promise
        least_end = max(flushed_end, written_end)
        if log is None:
            assert (least_end, highest_start) == (0, 0), f"the log is gone, which had {least_end} bytes"
            self.data = b""
            return
        start, end = log.start_offset, log.end_offset
        assert lowest_start <= start <= highest_start, f"{log} starts outside {lowest_start} to {highest_start}"
        assert end >= least_end, f"{log} ends before {least_end}"
        assert end == log.appended_end_offset, f"{log} has an unflushed tail after its start"
        data = read_all(log)
        assert data[: flushed_end - start] == self.data[start:flushed_end], f"{log} has changed below {flushed_end}"
        for offset, message in _messages(data, start):
            assert message in self.tried.get(offset, ()), f"{log} holds {message!r} at {offset}"
        self.data = self.data[:start] + data
        self.promise = Promise(end, end, lowest_start, start)


def read_all(log: Log) -> bytes:
    """Return all that can be read, piece by piece."""
    data = b""
    start = log.start_offset
    while start + len(data) < log.end_offset:
        with log.read(start + len(data), 1 << 20) as piece:
            received = bytearray(piece.size)
            os.preadv(piece.fd, [received], piece.position)  # as sendfile would, and not counted as the broker's call
            data += received
    return data


def _messages(data: bytes, offset: int) -> list[tuple[int, bytes]]:
    found = []
    position = 0
    while position < len(data):
        size = LENGTH_BYTES + LENGTH.unpack_from(data, position)[0] if position + LENGTH_BYTES <= len(data) else 0
        assert LENGTH_BYTES < size <= len(data) - position, f"no whole message at {offset + position}"
        found.append((offset + position, data[position : position + size]))
        position += size
    return found
