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
    `written_end` was appended, and is there if only the process ends. `data` is all of that, from offset 0 on. Each of
    the `cuts` is on the disk: from its offset on, nothing is left of what was tried before that number. While its topic
    is deleted, all of the log may be gone; the next log of that name is another one. While its topic grows, there are
    the partitions of before or after.
    """

    flushed_end: int = 0
    written_end: int = 0
    lowest_start: int = 0
    highest_start: int = 0
    data: bytes = b""
    cuts: tuple[tuple[int, int], ...] = ()
    number: int = 0
    may_be_gone: bool = False
    least_partitions: int = 1
    most_partitions: int = 1


class Written:
    """All that was appended to one log since its first offset."""

    def __init__(self) -> None:
        self.data = b""  # as the appends that succeeded left it
        self.tried: dict[int, dict[bytes, int]] = {}  # the messages ever written at an offset, each with its number

    def copy(self) -> Written:
        """Return the same for a log that may go on otherwise than this one."""
        copied = Written()
        copied.data = self.data
        copied.tried = {offset: dict(messages) for offset, messages in self.tried.items()}
        return copied


class Account:
    """What was written to the logs that a topic has had, one after the other, beside what the last says of itself."""

    def __init__(self) -> None:
        self.promise = Promise()
        self._logs = [Written()]
        self._cut_to: int | None = None  # while it is cut
        self._payloads = 0

    @property
    def data(self) -> bytes:
        """What was appended to the log that the promise is of."""
        return self._logs[self.promise.number].data

    @data.setter
    def data(self, data: bytes) -> None:
        self._logs[self.promise.number].data = data

    @property
    def tried(self) -> dict[int, dict[bytes, int]]:
        """The messages that were ever written at an offset of it, each with its number."""
        return self._logs[self.promise.number].tried

    def copy(self) -> Account:
        """Return an account of logs that may go on otherwise than these."""
        copied = Account()
        copied._logs = [each.copy() for each in self._logs]
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
            self.tried.setdefault(offset, {})[message] = self._payloads

    def appended(self, offset: int, data: bytes) -> None:
        """Note that an append succeeded."""
        assert offset == len(self.data), f"appended at {offset}, not at the end {len(self.data)}"
        self.data += data

    def promise_now(self, log: Log) -> Promise:
        """Return what holds if the log crashes now, by what it says to readers."""
        promise, flushed_end = self.promise, flushed_end_of(log)
        if self._cut_to is not None:
            assert flushed_end >= promise.flushed_end, "more is gone than was to be cut"
            return promise
        assert flushed_end >= promise.flushed_end, "the flushed end went back"
        return promise._replace(
            flushed_end=flushed_end, written_end=len(self.data), highest_start=log.start_offset, data=self.data
        )

    def begin_growth(self, partitions: int) -> None:
        """Note that there may be more partitions from now on."""
        self.promise = self.promise._replace(most_partitions=max(partitions, self.promise.most_partitions))

    def grown(self) -> None:
        """Note that there are."""
        self.promise = self.promise._replace(least_partitions=self.promise.most_partitions)

    def begin_deletion(self) -> None:
        """Note that all of the log may be gone from now on, and how many partitions the topic has."""
        self.promise = self.promise._replace(may_be_gone=True, least_partitions=1)

    def gone(self) -> None:
        """Note that the log is gone: whatever is written next is at the beginning of another one."""
        self.promise = Promise(number=len(self._logs))
        self._logs.append(Written())

    def deleted(self, log: Log) -> None:
        """Note that retention has returned: what it deleted will not come back."""
        self.promise = self.promise_now(log)._replace(lowest_start=log.start_offset)

    def begin_cut(self, offset: int, start: int | None = None) -> None:
        """Note that bytes from an offset on may go from now on; or all of them, if the log is to begin at `start`."""
        self._cut_to = least = offset if start is None else min(offset, start)
        flushed_end, written_end = min(self.promise.flushed_end, least), min(self.promise.written_end, least)
        self.promise = self.promise._replace(flushed_end=flushed_end, written_end=written_end)
        if start is not None:
            lowest = min(start, self.promise.lowest_start)
            highest = max(start, self.promise.highest_start)
            self.promise = self.promise._replace(lowest_start=lowest, highest_start=highest)

    def end_cut(self, log: Log, *, is_done: bool) -> None:
        """Note what is left; if it was done, what was cut does not come back."""
        if log.failure is not None:
            return  # only recovery finds out how far it came
        self._cut_to = None
        self.data = self.data[: log.appended_end_offset].ljust(log.appended_end_offset, b"\0")
        if is_done:
            cut = (log.appended_end_offset, self._payloads)
            self.promise = self.promise._replace(cuts=(*self.promise.cuts, cut))
            self.promise = self.promise_now(log)._replace(lowest_start=log.start_offset)

    def compare(self, log: Log) -> None:
        """Compare a log in use with what was written to it."""
        end = len(self.data)
        is_end_good = log.appended_end_offset == end if self._cut_to is None else log.appended_end_offset <= end
        assert is_end_good, f"{log} goes on at {log.appended_end_offset}"
        assert log.start_offset <= log.end_offset <= log.appended_end_offset
        self.promise = self.promise_now(log)
        data = read_all(log)
        assert data == self.data[log.start_offset : flushed_end_of(log)], f"{log} holds other bytes than were written"
        starts = [start for start in log.segment_offsets if start <= log.end_offset]
        newest_first = sorted({*starts, log.end_offset}, reverse=True)
        assert log.offsets_before(LATEST, 1000) == newest_first
        assert log.offsets_before(EARLIEST, 1) == newest_first[-1:]

    def take_over(self, log: Log | None, partitions: int) -> None:
        """Check a log that was opened again, of a topic with so many partitions, and go on from what it holds."""
        flushed_end, written_end, lowest_start, highest_start, promised, cuts, number, may_be_gone, least, most = (
            self.promise
        )
        self._cut_to = None
        least_end = max(flushed_end, written_end)
        assert least <= partitions <= most, f"{partitions} partitions, not {least} to {most}"
        if log is None and may_be_gone:
            self.gone()
            self.promise = self.promise._replace(least_partitions=partitions, most_partitions=partitions)
            return
        self.promise = self.promise._replace(least_partitions=partitions, most_partitions=partitions, may_be_gone=False)
        if log is None:
            assert (least_end, highest_start) == (0, 0), f"the log is gone, which had {least_end} bytes"
            self.data = b""
            return
        start, end = log.start_offset, flushed_end_of(log)
        assert lowest_start <= start <= highest_start, f"{log} starts outside {lowest_start} to {highest_start}"
        assert end >= least_end, f"{log} ends before {least_end}"
        assert end == log.appended_end_offset, f"{log} has an unflushed tail after its start"
        data = read_all(log)
        known_end = max(flushed_end, start)
        assert data[: known_end - start] == promised[start:known_end], f"{log} has changed below {flushed_end}"
        for offset, message in _messages(data, start):
            trial = self.tried.get(offset, {}).get(message)
            assert trial is not None, f"{log} holds {message!r} at {offset}"
            gone = max((until for cut, until in cuts if cut <= offset), default=0)
            assert trial > gone, f"{log} holds {message!r} at {offset}, which was cut"
        self.data = promised[:start].ljust(start, b"\0") + data
        self.promise = Promise(end, end, lowest_start, start, self.data, cuts, number, False, partitions, partitions)


def flushed_end_of(log: Log) -> int:
    """Return the offset up to which all is on disk, which can be read unless there are replicas."""
    return log.flushed_end_offset if log.has_copies else log.end_offset


def read_all(log: Log) -> bytes:
    """Return all that is on disk, piece by piece."""
    data = b""
    start, end = log.start_offset, flushed_end_of(log)
    while start + len(data) < end:
        with log.read(start + len(data), 1 << 20, end if log.has_copies else None) as piece:
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
