"""A log against a list: whatever happens to it, it holds what the list holds."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka2011.errors import OffsetOutOfRangeError
from kafka2011.log.log_settings import LogSettings
from kafka2011.log.segment import segment_path
from kafka2011.message.message_set import encode
from kafka2011.wire.protocol import EARLIEST, LATEST
from tests.support.clocks import ManualClock
from tests.support.disks import DiskWith
from tests.support.logs import new_log

if TYPE_CHECKING:
    from kafka2011.log.log import Log

DAY_MS = 86_400_000
ATTRIBUTES_AT = 5

PAYLOADS = st.lists(st.binary(max_size=60), min_size=1, max_size=4)


class Stored(NamedTuple):
    """A message in the list."""

    offset: int
    data: bytes

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


class LogMachine(RuleBasedStateMachine):
    """Does to a log what a broker, a disk and bad luck do, and keeps a list beside it."""

    @initialize(
        max_segment_bytes=st.sampled_from([1, 50, 200, 1000]),
        flush_interval=st.sampled_from([1, 3, 1000]),
        retention_bytes=st.sampled_from([-1, 0, 100, 300]),
    )
    def begin(self, max_segment_bytes: int, flush_interval: int, retention_bytes: int) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="log-model-"))
        self.clock = ManualClock(wall_lead_s=1.6e9)
        self.settings = LogSettings(
            max_segment_bytes=max_segment_bytes,
            flush_interval=flush_interval,
            retention_bytes=retention_bytes,
            roll_ms=DAY_MS,
            retention_ms=10 * DAY_MS,
        )
        self.messages: list[Stored] = []
        self.starts = [0]
        self.end = 0
        self.flushed_end = 0
        self.unflushed = 0
        self.first_append_ms: float | None = None
        self.cuts: dict[int, list[bytes]] = {}
        self.log = self.open_log()

    def open_log(self, *, recover: bool = False) -> Log:
        disk = DiskWith(fsync=lambda _fd: None)
        return new_log(self.directory / "t-0", self.settings, clock=self.clock, disk=disk, recover=recover)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()
            shutil.rmtree(self.directory)

    @property
    def active(self) -> Path:
        return segment_path(self.log.directory, self.starts[-1])

    def roll_in_list(self) -> None:
        self.flush_in_list()
        self.starts.append(self.end)
        self.first_append_ms = None

    def flush_in_list(self) -> None:
        self.flushed_end = self.end
        self.unflushed = 0

    @rule(payloads=PAYLOADS, magic=st.sampled_from([0, 1]))
    def append(self, payloads: list[bytes], magic: int) -> None:
        age_ms = 0.0 if self.first_append_ms is None else self.clock.now_ms - self.first_append_ms
        if self.end - self.starts[-1] > self.settings.max_segment_bytes or age_ms > self.settings.roll_ms:
            self.roll_in_list()
        messages = [encode(payload, magic=magic) for payload in payloads]
        assert self.log.append(b"".join(messages), len(messages)) == self.end
        for data in messages:
            self.messages.append(Stored(self.end, data))
            self.end += len(data)
        if self.first_append_ms is None:
            self.first_append_ms = self.clock.now_ms
        self.unflushed += len(messages)
        if self.unflushed >= self.settings.flush_interval:
            self.flush_in_list()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flush_in_list()

    @rule(days=st.sampled_from([0.5, 1.0, 2.0]))
    def let_time_pass(self, days: float) -> None:
        """After a day the active segment rolls at the next append."""
        self.clock.now_ms += days * DAY_MS

    @rule(ages_days=st.lists(st.sampled_from([1, 10, 11]), min_size=1, max_size=4))
    def retain(self, ages_days: list[int]) -> None:
        starts = self.starts
        for index, start in enumerate(starts):
            at_ns = int(self.clock.wall_s() * 1000 - ages_days[index % len(ages_days)] * DAY_MS) * 1_000_000
            os.utime(segment_path(self.log.directory, start), ns=(at_ns, at_ns))
        gone = 0
        while gone < len(starts) and ages_days[gone % len(ages_days)] > 10:
            gone += 1
        limit = self.settings.retention_bytes
        ends = [*starts[1:], self.flushed_end]
        while limit >= 0 and gone < len(starts) and self.flushed_end - ends[gone] >= limit:
            gone += 1
        deleted = [start for start in starts[:gone] if start != self.end]
        assert [one.start_offset for one in self.log.delete_old_segments()] == deleted
        if gone < len(starts):
            self.starts = starts[gone:]
        else:  # an empty segment stays at the end, or is opened there
            if starts[-1] != self.end:
                self.roll_in_list()
            self.starts = self.starts[-1:]
        self.messages = [message for message in self.messages if message.offset >= self.starts[0]]

    @rule(recover=st.booleans())
    def reopen(self, recover: bool) -> None:
        self.log.close()
        self.flush_in_list()
        self.first_append_ms = None
        self.log = self.open_log(recover=recover)

    def crash_and_recover(self, keep_bytes: int, damaged: bytes) -> None:
        """End the process without a flush, leave these bytes in the last file, and start again."""
        self.log.close()
        assert self.active.stat().st_size == self.end - self.starts[-1]
        self.active.write_bytes(damaged)
        self.log = self.open_log(recover=True)
        cut_offset = self.starts[-1] + keep_bytes
        self.messages = [message for message in self.messages if message.end <= cut_offset]
        self.end = cut_offset
        self.first_append_ms = None
        self.flush_in_list()
        if keep_bytes < len(damaged):
            self.cuts.setdefault(cut_offset, []).append(damaged[keep_bytes:])

    @precondition(lambda self: self.end > self.flushed_end)
    @rule(data=st.data(), zeros=st.integers(0, 30))
    def tear_the_tail(self, data: st.DataObject, zeros: int) -> None:
        """Leave any part of what was not flushed, perhaps with zeros behind, as a power cut does."""
        kept_end = data.draw(st.integers(self.flushed_end, self.end), label="kept end")
        good_end = max((m.end for m in self.messages if m.end <= kept_end), default=self.starts[-1])
        good_end = max(good_end, self.starts[-1])
        torn = self.active.read_bytes()[: kept_end - self.starts[-1]] + b"\0" * zeros
        if torn[good_end - self.starts[-1] :].count(0) == len(torn) - (good_end - self.starts[-1]):
            torn = torn[: good_end - self.starts[-1]] + b"\0" * zeros
        elif zeros:  # zeros may complete the message by chance; then it was whole
            torn = torn[:-zeros]
        self.crash_and_recover(good_end - self.starts[-1], torn)

    @precondition(lambda self: self.end > self.starts[-1])
    @rule(data=st.data(), bit=st.integers(0, 7))
    def flip_a_bit(self, data: st.DataObject, bit: int) -> None:
        """Damage cuts the log at the message it hit, unless it hit the attributes, which no CRC covers."""
        position = data.draw(st.integers(0, self.end - self.starts[-1] - 1), label="position")
        damaged = bytearray(self.active.read_bytes())
        damaged[position] ^= 1 << bit
        offset = self.starts[-1] + position
        [index] = [i for i, m in enumerate(self.messages) if m.offset <= offset < m.end]
        hit = self.messages[index]
        if hit.data[4] == 1 and offset - hit.offset == ATTRIBUTES_AT:
            start = hit.offset - self.starts[-1]
            self.messages[index] = Stored(hit.offset, bytes(damaged[start : start + len(hit.data)]))
            self.crash_and_recover(len(damaged), bytes(damaged))
        else:
            self.crash_and_recover(hit.offset - self.starts[-1], bytes(damaged))

    @invariant()
    def ends_agree(self) -> None:
        assert self.log.segment_offsets == tuple(self.starts)
        assert (self.log.start_offset, self.log.end_offset) == (self.starts[0], self.flushed_end)
        assert self.log.appended_end_offset == self.end
        assert self.log.size_bytes == self.flushed_end - self.starts[0]
        assert self.log.unflushed_messages == self.unflushed

    @invariant()
    def flushed_messages_are_readable_and_no_others(self) -> None:
        ends = [*self.starts[1:], self.flushed_end]
        for message in self.messages:
            if message.offset >= self.flushed_end:
                if message.offset > self.flushed_end:
                    with pytest.raises(OffsetOutOfRangeError):
                        self.log.read(message.offset, 1)
                continue
            segment_end = next(end for end in ends if end > message.offset)
            with self.log.read(message.offset, 1 << 30) as piece:
                assert piece.size == segment_end - message.offset
            with self.log.read(message.offset, len(message.data)) as piece:
                readable = message.data[: segment_end - message.offset]
                assert os.pread(piece.fd, piece.size, piece.position) == readable
        assert self.log.read(self.flushed_end, 1000).size == 0
        for outside in (self.starts[0] - 1, self.flushed_end + 1):
            with pytest.raises(OffsetOutOfRangeError):
                self.log.read(outside, 1)

    @invariant()
    def the_files_are_the_list(self) -> None:
        files = sorted(self.log.directory.glob("*.kafka"))
        assert [int(path.stem) for path in files] == self.starts
        data = b"".join(path.read_bytes() for path in files)
        assert data == b"".join(message.data for message in self.messages)

    @invariant()
    def whatever_was_cut_is_kept(self) -> None:
        kept = sorted(path.read_bytes() for path in self.log.directory.glob("*.cut"))
        assert kept == sorted(data for cuts in self.cuts.values() for data in cuts)
        assert {int(path.name[:20]) for path in self.log.directory.glob("*.cut")} == set(self.cuts)

    @invariant()
    def offsets_are_segment_starts_and_the_end(self) -> None:
        known = sorted({*self.starts, self.flushed_end}, reverse=True)
        assert self.log.offsets_before(LATEST, 1000) == known
        assert self.log.offsets_before(LATEST, 1) == known[:1]
        assert self.log.offsets_before(EARLIEST, 1) == known[-1:]


LogMachine.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestLogModel = LogMachine.TestCase
