"""A replicated log against a list, and beside the one that the rules of replicas are searched with."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafka2011.errors import LogError, OffsetOutOfRangeError
from kafka2011.log.log import Place
from kafka2011.log.log_settings import LogSettings
from kafka2011.log.replicated_log import ReplicatedLog
from kafka2011.message.message_set import encode
from tests.models.log.account import read_all
from tests.models.replica.logs import SIZE, ModelLog
from tests.support.clocks import ManualClock
from tests.support.disks import DiskWith
from tests.support.logs import new_log

BYTES = 13
"""Of a message here; the model's have `SIZE`."""


def of_model(offset: int) -> int:
    return offset // SIZE * BYTES


def payloads(data: bytes) -> list[bytes]:
    return [b"%03d" % int(data[at + 1 : at + SIZE]) for at in range(0, len(data), SIZE)]


class ReplicatedLogMachine(RuleBasedStateMachine):
    """Does to a log what leaders and followers do to theirs, and the same to the model's log."""

    @initialize()
    def begin(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="log-model-"))
        self.model = ModelLog()
        self.readable = 0
        self.log = self.open_log()

    def open_log(self, *, recover: bool = False) -> ReplicatedLog:
        clock = ManualClock(wall_lead_s=1.6e9)
        log = new_log(
            self.directory / "t-0",
            LogSettings(max_segment_bytes=1, flush_interval=1000),
            clock=clock,
            disk=DiskWith(fsync=lambda _fd: None),
            on_flushed=lambda _log: None,
            recover=recover,
        )
        return ReplicatedLog(log, clock)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.log.close()
            shutil.rmtree(self.directory)

    def flush_in_model(self) -> None:
        self.model.flush()

    @rule(labels=st.lists(st.integers(0, 3), min_size=1, max_size=3), rolls=st.booleans())
    def append_at(self, labels: list[int], rolls: bool) -> None:
        end = self.model.appended_end_offset
        segment = end if rolls else self.model.segment_offsets[-1]
        self.model.append(b"".join(b"m%d" % label for label in labels), segment)
        data = b"".join(encode(b"%03d" % label) for label in labels)
        assert len(data) == BYTES * len(labels)
        self.log.append_at(Place(of_model(end), of_model(segment)), data, len(labels))

    @rule(by=st.sampled_from([-BYTES, -1, 1, BYTES]))
    def append_elsewhere(self, by: int) -> None:
        end, segment = self.log.log.appended_end_offset, self.log.log.segment_offsets[-1]
        with pytest.raises(LogError, match=f"offset {end + by} cannot be appended to t-0: it ends at offset {end}"):
            self.log.append_at(Place(end + by, segment), b"x", 1)
        if segment + by not in {segment, end}:
            with pytest.raises(LogError, match=f"segment that starts at offset {segment + by} .* t-0 at {end}"):
                self.log.append_at(Place(end, segment + by), b"x", 1)

    @rule()
    def flush(self) -> None:
        self.log.log.flush()
        self.flush_in_model()

    @rule(data=st.data())
    def let_read(self, data: st.DataObject) -> None:
        flushed = self.log.log.flushed_end_offset
        end = data.draw(st.integers(self.log.log.start_offset, self.log.log.appended_end_offset), label="readable")
        end -= (end - self.log.log.start_offset) % BYTES
        if end > flushed:
            with pytest.raises(LogError, match=rf"offset {end}: this disk has it up to {flushed}"):
                self.log.log.let_read(end)
        else:
            self.log.log.let_read(end)
            self.readable = max(self.readable, end)

    @rule()
    def lose_the_lead(self) -> None:
        self.log.log.let_nobody_read()
        self.readable = self.log.log.start_offset

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.log.log.start_offset, self.log.log.appended_end_offset), label="cut")
        if offset < self.readable:
            with pytest.raises(LogError, match=f"t-0 .* offset {offset}: clients .* up to offset {self.readable}"):
                self.log.cut(offset)
        elif (offset - self.log.log.start_offset) % BYTES:
            with pytest.raises(LogError, match=f"t-0 .* offset {offset}: no message starts there"):
                self.log.cut(offset)
        else:
            self.log.cut(offset)
            self.model.cut(offset // BYTES * SIZE)

    @rule(messages=st.integers(0, 8))
    def begin_at(self, messages: int) -> None:
        if self.readable > self.log.log.start_offset:
            with pytest.raises(LogError, match=f"t-0 .* up to offset {self.readable}"):
                self.log.begin_at(messages * BYTES)
            return
        self.log.begin_at(messages * BYTES)
        self.model.begin_at(messages * SIZE)
        self.readable = messages * BYTES

    @rule(data=st.data())
    def delete_before(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.log.log.appended_end_offset + BYTES), label="delete before")
        self.log.log.delete_before(offset)
        self.model.delete_before(offset // BYTES * SIZE)
        self.readable = max(self.readable, self.log.log.start_offset)

    @rule()
    def retain(self) -> None:
        """All is too much: what goes is what may go of a copy."""
        self.log.log.settings = LogSettings(max_segment_bytes=1, retention_bytes=0)
        starts = self.log.log.segment_offsets
        self.log.log.delete_old_segments()
        kept = [start for start in starts if start < self.readable][-1:] or list(starts[:1])
        assert self.log.log.start_offset == kept[0]
        self.model.delete_before(kept[0] // BYTES * SIZE)
        self.log.log.settings = LogSettings(max_segment_bytes=1, flush_interval=1000)

    @rule(recover=st.booleans())
    def reopen(self, recover: bool) -> None:
        self.log.log.close()
        self.flush_in_model()
        self.log = self.open_log(recover=recover)
        self.readable = self.log.log.start_offset

    @invariant()
    def it_is_the_model(self) -> None:
        log, model = self.log, self.model
        assert log.log.segment_offsets == tuple(map(of_model, model.segment_offsets))
        assert log.log.appended_end_offset == of_model(model.appended_end_offset)
        assert log.log.end_offset == self.readable
        assert of_model(model.flushed_end_offset) <= log.log.flushed_end_offset <= log.log.appended_end_offset
        files = sorted(log.log.directory.glob("*.kafka"))
        expected = [
            b"".join(encode(b"%03d" % int(d[at + 1 : at + 2])) for at in range(0, len(d), SIZE)) for _, d in model.now
        ]
        assert [int(path.stem) for path in files] == list(log.log.segment_offsets)
        assert [path.read_bytes() for path in files] == expected
        assert read_all(log.log) == b"".join(expected)[: log.log.flushed_end_offset - log.log.start_offset]

    @invariant()
    def followers_read_all_and_clients_what_they_may(self) -> None:
        log = self.log
        starts = log.log.segment_offsets
        for offset in range(log.log.start_offset, log.log.appended_end_offset, BYTES):
            segment, piece = log.read_appended(offset, 1)
            with piece:
                assert segment == max(start for start in starts if start <= offset)
                assert piece.size == BYTES, "the first message whole"
            if offset > log.log.end_offset:
                with pytest.raises(OffsetOutOfRangeError):
                    log.log.read(offset, 1)
            assert all(log.message_start(offset + inside) == offset for inside in (0, 1, BYTES - 1))
        segment, piece = log.read_appended(log.log.appended_end_offset, 1)
        assert (segment, piece.size) == (starts[-1], 0)

    @invariant()
    def digests_tell_what_the_models_do(self) -> None:
        """Two ranges of one log have the same digest where the model says so, and only there."""
        log, model = self.log, self.model
        end = log.log.appended_end_offset
        assert log.digest(log.log.start_offset, end + 1) is None
        assert log.digest(log.log.start_offset - 1, end) is None
        assert log.digest(end, end) is None
        by_model: dict[bytes | None, bytes | None] = {}
        for offset in range(log.log.start_offset, end, BYTES):
            [mine, theirs] = [
                log.digest(offset, offset + BYTES),
                model.digest(offset // BYTES * SIZE, offset // BYTES * SIZE + SIZE),
            ]
            assert mine is not None
            assert by_model.setdefault(theirs, mine) == mine
        assert len(set(by_model.values())) == len(by_model)


ReplicatedLogMachine.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestReplicatedLog = ReplicatedLogMachine.TestCase
