"""One partition's log: appending, flushing, rolling, reading, retention, and what runs side by side."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.errors import LogClosedError, LogError, OffsetOutOfRangeError
from kafka2011.log import log as log_module
from kafka2011.log.log import ROLL_RETRY_S, Log, LogFailedError
from kafka2011.log.log_settings import LogSettings
from kafka2011.log.retention import ClockJumpGuard, count_excess, count_expired
from kafka2011.log.segment import LogSegment, LogSlice, segment_path
from kafka2011.message.message_set import MessageSet, decode, encode
from kafka2011.wire.protocol import EARLIEST, LATEST
from tests.support.bytes_of_07 import SEGMENTS
from tests.support.clocks import ManualClock
from tests.support.disks import DiskWith
from tests.support.files import count_open_files, no_more_files
from tests.support.logs import new_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka2011.message.header import AnyBytes

DEADLINE_S = 20

ROLLS_EARLY = LogSettings(max_segment_bytes=99, flush_interval=1)
NEVER_BY_ITSELF = LogSettings(flush_interval=1_000_000)


class Gate:
    """An fsync that waits for `let_go` and counts, as a slow disk under a thread pool does."""

    def __init__(self) -> None:
        self.closed = False
        self.entered = threading.Semaphore(0)
        self.let_go = threading.Semaphore(0)
        self.calls = 0
        self.running = 0
        self.most_at_once = 0
        self._lock = threading.Lock()

    def __call__(self, fd: int) -> None:
        with self._lock:
            self.calls += 1
            self.running += 1
            self.most_at_once = max(self.most_at_once, self.running)
        if self.closed:
            self.entered.release()
            assert self.let_go.acquire(timeout=DEADLINE_S)
        with self._lock:
            self.running -= 1

    def wait_entered(self) -> None:
        assert self.entered.acquire(timeout=DEADLINE_S)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(now_s=1000, wall_lead_s=1.6e9)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def make_log(tmp_path: Path, clock: ManualClock) -> Iterator[Callable[..., Log]]:
    made: list[Log] = []

    def make(settings: LogSettings = NEVER_BY_ITSELF, **options: Any) -> Log:
        log = new_log(tmp_path / "t-0", settings, clock=clock, **options)
        made.append(log)
        return log

    yield make
    for log in made:
        log.close()


@contextmanager
def running(work: Callable[[], object]) -> Iterator[threading.Thread]:
    """Run `work` in a thread; it must end, without an error, before the block's deadline."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield thread
    thread.join(DEADLINE_S)
    assert not thread.is_alive()
    assert not errors, errors


def content(piece: LogSlice) -> bytes:
    with piece:
        return os.pread(piece.fd, piece.size, piece.position) if piece.size else b""


def read_all(log: Log) -> bytes:
    data = b""
    while log.start_offset + len(data) < log.end_offset:
        data += content(log.read(log.start_offset + len(data), 1 << 20))
    return data


def set_age(log: Log, clock: ManualClock, start_offset: int, age_ms: float) -> None:
    """Make a segment last written so long ago."""
    at_ns = int(clock.wall_s() * 1000 - age_ms) * 1_000_000
    os.utime(segment_path(log.directory, start_offset), ns=(at_ns, at_ns))


def fill(log: Log, sets: int = 4, size: int = 100) -> bytes:
    """Append sets of `size` bytes; with ROLLS_EARLY each makes a segment of its own."""
    data = b"".join(encode(bytes([65 + number]) * (size - 10)) for number in range(sets))
    for at in range(0, len(data), size):
        log.append(data[at : at + size], 1)
    return data


# Appending and reading


def test_the_file_holds_the_bytes_as_they_came(make_log: Callable[..., Log]) -> None:
    """Two messages, byte for byte as 0.7.2 writes them."""
    log = make_log()
    assert log.append(bytes(MessageSet([b"hello", b"kafka 0.7"])), 2) == 0
    log.flush()
    path = log.directory / "00000000000000000000.kafka"
    assert path.read_bytes() == bytes.fromhex(
        "0000000b 01 00 3610a686 68656c6c6f0000000f 01 00 3d9a95c4 6b61666b6120302e37"
    )
    assert log.end_offset == 34


@pytest.mark.parametrize(("name", "end"), [("cap-0", 34), ("capgz-0", 64), ("capsn-0", 66)])
@pytest.mark.parametrize("recover", [False, True])
def test_a_segment_of_a_running_0_7_2_opens_as_a_log(
    make_log: Callable[..., Log], tmp_path: Path, name: str, end: int, recover: bool
) -> None:
    data = SEGMENTS[name]
    (tmp_path / "t-0").mkdir()
    segment_path(tmp_path / "t-0", 0).write_bytes(data)
    log = make_log(recover=recover)
    assert (log.start_offset, log.end_offset) == (0, end)
    assert read_all(log) == data
    assert [message.payload for message in decode(read_all(log), "t", None, 0, 0)] == [b"hello", b"kafka 0.7"]
    assert log.append(encode(b"more"), 1) == end


def test_offsets_are_byte_positions(make_log: Callable[..., Log]) -> None:
    log = make_log()
    sets = [encode(b"x" * size) for size in (0, 1, 300)]
    assert [log.append(data, 1) for data in sets] == [0, 10, 21]
    assert log.appended_end_offset == 331
    assert log.unflushed_messages == 3


def test_an_empty_set_appends_nothing_but_begins_a_segment_behind_a_full_one(make_log: Callable[..., Log]) -> None:
    """As in 0.7.2; one that is not full is left as it is."""
    log = make_log(ROLLS_EARLY)
    assert log.append(b"", 0) == 0
    assert list(log.segment_offsets) == [0]
    fill(log, 1)
    for _ in range(2):
        assert log.append(b"", 0) == 100
        assert list(log.segment_offsets) == [0, 100]


def test_only_flushed_bytes_are_readable(make_log: Callable[..., Log]) -> None:
    log = make_log()
    first, second = encode(b"one"), encode(b"two")
    log.append(first, 1)
    log.flush()
    log.append(second, 1)
    assert (log.end_offset, log.appended_end_offset, log.size_bytes, log.unflushed_messages) == (13, 26, 13, 1)
    assert content(log.read(0, 1000)) == first
    assert (log.read(13, 1000).size, log.read(13, 1000).fd) == (0, -1), "the end takes no file"
    assert log.read(3, 1000).size == 10
    with pytest.raises(OffsetOutOfRangeError):
        log.read(14, 1000)
    with pytest.raises(OffsetOutOfRangeError):
        log.read(26, 1000)
    log.flush()
    assert content(log.read(13, 1000)) == second
    assert log.unflushed_messages == 0


def test_reading_outside_names_topic_partition_offset_and_range(make_log: Callable[..., Log]) -> None:
    log = make_log(ROLLS_EARLY)
    fill(log)
    for offset in (-1, 401, 2**62, -(2**63)):
        with pytest.raises(OffsetOutOfRangeError, match=rf"offset {offset} of t-0 .* 0 to 400"):
            log.read(offset, 10)


def test_reading_from_any_byte_stays_within_its_segment(make_log: Callable[..., Log]) -> None:
    log = make_log(ROLLS_EARLY)
    data = fill(log)
    assert log.segment_offsets == (0, 100, 200, 300)
    for offset in range(400):
        end = offset // 100 * 100 + 100
        assert content(log.read(offset, 1 << 30)) == data[offset:end]
        for size in (1, 7):
            assert content(log.read(offset, size)) == data[offset : min(offset + size, end)]
        with log.read(offset, 1 << 30) as piece:
            assert piece.size == end - offset, "no more than there is, or a sender would wait for the rest"
        assert (log.read(offset, 0).size, log.read(offset, 0).fd) == (0, -1)
    assert log.read(400, 1 << 30).size == 0


def test_readers_of_inactive_segments_leave_no_file_open(make_log: Callable[..., Log]) -> None:
    log = make_log(ROLLS_EARLY)
    before = count_open_files()
    fill(log, 20)
    read_all(log)
    assert count_open_files() == before


def test_an_empty_log_has_no_bytes(make_log: Callable[..., Log]) -> None:
    log = make_log()
    assert (log.start_offset, log.end_offset, log.size_bytes) == (0, 0, 0)


# Rolling


def test_the_room_of_the_active_segment_is_what_its_limit_leaves(make_log: Callable[..., Log]) -> None:
    log = make_log(ROLLS_EARLY)
    assert log.active_room_bytes == 99
    fill(log, 1)
    assert log.active_room_bytes == -1


def test_a_segment_rolls_when_strictly_larger_than_its_limit(make_log: Callable[..., Log]) -> None:
    log = make_log(LogSettings(max_segment_bytes=200))
    for _ in range(3):
        fill(log, 1)
    assert list(log.segment_offsets) == [0], "200 bytes are not more than the limit when the third set comes"
    fill(log, 1)
    assert list(log.segment_offsets) == [0, 300]


def test_a_set_is_never_split(make_log: Callable[..., Log]) -> None:
    log = make_log(LogSettings(max_segment_bytes=10))
    log.append(bytes(MessageSet([b"x" * 90] * 10)), 10)
    log.append(encode(b""), 1)
    assert log.segment_offsets == (0, 1000)


def test_a_roll_flushes_the_old_segment(make_log: Callable[..., Log]) -> None:
    synced: list[tuple[int, int]] = []
    log = make_log(LogSettings(max_segment_bytes=99), disk=DiskWith(fsync=lambda fd: synced.append(os.fstat(fd)[1:3])))
    fill(log, 1)
    assert log.end_offset == 0
    synced.clear()
    fill(log, 1)
    assert log.end_offset == 100
    old, directory = segment_path(log.directory, 0).stat(), log.directory.stat()
    assert synced == [(old.st_ino, old.st_dev), (directory.st_ino, directory.st_dev)]


def test_a_segment_rolls_by_the_time_since_its_first_append(make_log: Callable[..., Log], clock: ManualClock) -> None:
    """An hour of idleness before the first append does not count, nor does what the wall clock says."""
    log = make_log(LogSettings(roll_ms=1000))
    clock.now_ms += 3_600_000
    fill(log, 1)
    clock.now_ms += 1000
    fill(log, 1)
    assert list(log.segment_offsets) == [0]
    clock.wall_lead_ms += 1e10
    clock.now_ms += 1
    fill(log, 1)
    assert list(log.segment_offsets) == [0, 200]
    clock.now_ms += 999
    fill(log, 1)
    assert list(log.segment_offsets) == [0, 200]


def test_a_roll_that_is_stopped_while_it_waits_can_be_tried_again(make_log: Callable[..., Log]) -> None:
    """A greenlet may be killed in the middle of an fsync."""

    class Killed(BaseException):
        pass

    stop = False

    def fsync(fd: int) -> None:
        if stop and Path(f"/proc/self/fd/{fd}").readlink().is_dir():
            raise Killed

    log = make_log(ROLLS_EARLY, disk=DiskWith(fsync=fsync))
    fill(log, 1)
    open_files = count_open_files()
    stop = True
    with pytest.raises(Killed):
        fill(log, 1)
    assert count_open_files() == open_files
    stop = False
    assert log.append(encode(b"y"), 1) == 100
    assert log.segment_offsets == (0, 100)


def test_a_roll_waits_while_no_file_can_be_opened(
    make_log: Callable[..., Log], clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Appends go on in the old segment; a second later the roll is tried again."""
    log = make_log(ROLLS_EARLY)
    data = fill(log, 1)
    with no_more_files():
        for _ in range(5):
            data += fill(log, 1)
    assert list(log.segment_offsets) == [0]
    assert log.waits_for_files == 1
    assert "raise the limit on open files" in caplog.text
    assert read_all(log) == data
    clock.now_ms += 1000 * ROLL_RETRY_S
    data += fill(log, 1)
    assert log.segment_offsets == (0, 600)
    assert read_all(log) == data


def test_a_roll_that_fails_ends_the_log(make_log: Callable[..., Log]) -> None:
    """Only a lack of descriptors is waited for."""
    is_broken = False

    def fsync(fd: int) -> None:
        if is_broken and Path(f"/proc/self/fd/{fd}").readlink().is_dir():
            raise OSError(5, "Input/output error")

    log = make_log(ROLLS_EARLY, disk=DiskWith(fsync=fsync))
    fill(log, 1)
    is_broken = True
    with pytest.raises(LogFailedError, match="Input/output error"):
        fill(log, 1)
    assert log.waits_for_files == 0


def test_a_roll_that_lacks_a_descriptor_makes_no_name(make_log: Callable[..., Log]) -> None:
    """A name that is removed again may come back after a power cut, when the old segment reaches beyond its start."""
    log = make_log(ROLLS_EARLY)
    fill(log, 1)
    os.utime(log.directory, (0, 0))
    with no_more_files(but=1):
        fill(log, 1)
    assert log.waits_for_files == 1
    assert log.directory.stat().st_mtime == 0


@pytest.mark.parametrize("goes_on", ["roll", "close"])
def test_an_append_that_was_stopped_is_off_the_disk_before_the_log_goes_on(
    make_log: Callable[..., Log], clock: ManualClock, goes_on: str
) -> None:
    """Neither a roll nor a clean stop may leave part of it behind the end: nobody would recover that."""

    class Killed(BaseException):
        pass

    stop = False

    def write(fd: int, data: AnyBytes) -> int:
        written = os.write(fd, data)
        if stop:
            raise Killed
        return written

    synced: list[str] = []
    log = make_log(
        LogSettings(roll_ms=1000, flush_interval=1),
        disk=DiskWith(write=write, fsync=lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)),
    )
    fill(log, 1)
    stop = True
    with pytest.raises(Killed):
        fill(log, 1)
    stop = False
    synced.clear()
    if goes_on == "roll":
        clock.now_ms += 1001
        fill(log, 1)
        assert log.segment_offsets == (0, 100)
    else:
        log.close()
    assert synced[0] == segment_path(log.directory, 0).name


def test_a_log_whose_file_does_not_close_has_failed(make_log: Callable[..., Log]) -> None:
    """Some file systems say only then that they lost something."""

    def close(fd: int) -> None:
        os.close(fd)
        raise OSError(5, "Input/output error")

    log = make_log(disk=DiskWith(close=close))
    log.segments.active.prepare_deletion()
    with pytest.raises(LogFailedError, match=r"could not flush and close .*: Input/output error"):
        log.close()
    assert log.failure is not None


# Flushing


def test_flush_interval_counts_messages_not_sets(make_log: Callable[..., Log]) -> None:
    """A compressed set counts with the messages inside."""
    log = make_log(LogSettings(flush_interval=10))
    log.append(encode(b"wrapper"), 9)
    assert log.end_offset == 0
    log.append(encode(b"one"), 1)
    assert log.end_offset == log.appended_end_offset
    assert log.flushes == 1


def test_a_flush_is_requested_once_until_it_begins(make_log: Callable[..., Log]) -> None:
    requested: list[Log] = []
    log = make_log(LogSettings(flush_interval=2), request_flush=requested.append)
    fill(log, 5)
    assert requested == [log]
    assert log.end_offset == 0
    log.flush()
    fill(log, 1)
    assert len(requested) == 1
    fill(log, 3)
    assert len(requested) == 2


def test_appends_and_reads_go_on_while_a_flush_waits(make_log: Callable[..., Log], gate: Gate) -> None:
    """Only what was appended before the fsync began is readable after it."""
    log = make_log(disk=DiskWith(fsync=gate))
    first, second = encode(b"before"), encode(b"during")
    log.append(first, 1)
    gate.closed = True
    with running(log.flush):
        gate.wait_entered()
        assert log.append(second, 1) == len(first)
        assert log.read(0, 1000).size == 0
        assert log.end_offset == 0
        gate.let_go.release()
    assert log.end_offset == len(first)
    assert log.unflushed_messages == 1
    assert content(log.read(0, 1000)) == first
    gate.closed = False
    log.flush()
    assert content(log.read(0, 1000)) == first + second


def test_a_second_flush_waits_and_then_has_nothing_to_do(make_log: Callable[..., Log], gate: Gate) -> None:
    """At most one fsync at a time; flushes that the running one covers cost nothing, even if more was appended."""
    asked = threading.Semaphore(0)

    class TellingLock:
        """Tells when somebody wants it: a flush has then noted what it is to cover."""

        def __init__(self) -> None:
            lock = threading.Lock()
            self.acquire, self.release = lock.acquire, lock.release

        def __enter__(self) -> None:
            asked.release()
            self.acquire()

        def __exit__(self, *error: object) -> None:
            self.release()

    log = make_log(disk=DiskWith(fsync=gate, make_lock=TellingLock))
    log.append(encode(b"one"), 1)
    assert asked.acquire(timeout=DEADLINE_S)
    calls = gate.calls
    gate.closed = True
    with running(log.flush):
        gate.wait_entered()
        assert asked.acquire(timeout=DEADLINE_S)
        with running(log.flush), running(log.flush):
            for _ in range(2):
                assert asked.acquire(timeout=DEADLINE_S)
            gate.closed = False
            log.append(encode(b"two"), 1)
            gate.let_go.release()
    assert gate.calls == calls + 1
    assert (log.flushes, log.unflushed_messages) == (1, 1)


def test_many_writers_and_flushers_never_sync_twice_at_once(make_log: Callable[..., Log], gate: Gate) -> None:
    """Every append is kept once, in one piece, whoever flushes and rolls meanwhile."""
    log = make_log(LogSettings(max_segment_bytes=5000, flush_interval=7), disk=DiskWith(fsync=gate))
    written: dict[int, bytes] = {}

    def write(name: int) -> None:
        for number in range(100):
            data = encode(b"%d/%d" % (name, number))
            written[log.append(data, 1)] = data
            if number % 10 == 0:
                log.flush()
            read_all(log)

    with running(lambda: write(1)), running(lambda: write(2)), running(lambda: write(3)):
        pass
    log.flush()
    assert gate.most_at_once == 1
    assert len(written) == 300
    assert b"".join(written[offset] for offset in sorted(written)) == read_all(log)


def test_a_roll_holds_up_appends_only(make_log: Callable[..., Log], gate: Gate) -> None:
    log = make_log(LogSettings(max_segment_bytes=99), disk=DiskWith(fsync=gate))
    data = fill(log, 1)
    log.flush()
    fill(log, 1)
    gate.closed = True
    with running(lambda: fill(log, 1)):
        gate.wait_entered()
        assert content(log.read(0, 1000)) == data
        assert log.offsets_before(LATEST, 9) == [100, 0]
        gate.closed = False
        gate.let_go.release()
    assert log.end_offset == log.appended_end_offset - 100


def test_a_flush_requested_during_an_fsync_is_not_forgotten(make_log: Callable[..., Log], gate: Gate) -> None:
    requested: list[Log] = []
    log = make_log(LogSettings(flush_interval=2), disk=DiskWith(fsync=gate), request_flush=requested.append)
    fill(log, 2)
    gate.closed = True
    with running(log.flush):
        gate.wait_entered()
        fill(log, 1)
        assert len(requested) == 1, "one message is no reason for another flush"
        fill(log, 1)
        assert len(requested) == 2
        gate.let_go.release()
    gate.closed = False
    log.flush()
    assert log.end_offset == 400


def test_a_flush_is_due_when_something_waits_and_the_interval_has_passed(
    make_log: Callable[..., Log], clock: ManualClock
) -> None:
    log = make_log(LogSettings(flush_interval_ms=3000))
    clock.now_ms += 10_000
    assert not log.is_flush_due(clock.monotonic_s())
    fill(log, 1)
    assert log.is_flush_due(clock.monotonic_s())
    log.flush()
    fill(log, 1)
    assert not log.is_flush_due(clock.monotonic_s() + 2.999)
    assert log.is_flush_due(clock.monotonic_s() + 3.0)


def test_bytes_without_messages_are_flushed_by_the_timer_too(make_log: Callable[..., Log], clock: ManualClock) -> None:
    """A wrapper of an empty set."""
    log = make_log()
    log.append(encode(b"nothing inside"), 0)
    assert log.is_flush_due(clock.monotonic_s() + 1000000.0)


# Failing and closing


def test_an_error_while_writing_ends_the_log(make_log: Callable[..., Log]) -> None:
    good = encode(b"good")

    def write_70_bytes(fd: int, data: AnyBytes) -> int:
        if len(data) > 70 or data == good:
            return os.write(fd, data[:70])
        raise OSError(28, "No space left on device")

    log = make_log(disk=DiskWith(write=write_70_bytes))
    log.append(good, 1)
    log.flush()
    with pytest.raises(LogFailedError, match="t-0: No space left"):
        log.append(encode(b"x" * 90), 1)
    for refused in (lambda: log.append(good, 1), log.delete_old_segments):
        with pytest.raises(LogFailedError, match="No space left"):
            refused()
    assert isinstance(log.failure, LogFailedError)
    assert content(log.read(0, 1000)) == good
    log.close()
    assert segment_path(log.directory, 0).read_bytes() == good, "what was written of the set is cut off again"
    assert make_log(recover=True).end_offset == len(good)


def test_an_fsync_that_failed_is_never_repeated(make_log: Callable[..., Log]) -> None:
    """The kernel may drop the pages and report success the second time."""
    calls: list[int] = []

    def fsync(fd: int) -> None:
        calls.append(fd)
        if len(calls) == 3:
            raise OSError(5, "Input/output error")

    log = make_log(LogSettings(max_segment_bytes=99), disk=DiskWith(fsync=fsync))
    assert len(calls) == 2, "one for the directory's name, one for the file's"
    fill(log, 1)
    for _ in range(2):
        with pytest.raises(LogFailedError, match="Input/output error"):
            log.flush()
    with pytest.raises(LogFailedError):
        fill(log, 1)
    log.close()
    assert len(calls) == 3
    assert log.end_offset == 0


def test_a_roll_does_not_sync_after_a_flush_that_failed_meanwhile(make_log: Callable[..., Log]) -> None:
    entered, let_go = threading.Event(), threading.Event()
    calls: list[int] = []

    def fsync(fd: int) -> None:
        calls.append(fd)
        if len(calls) == 3:
            entered.set()
            assert let_go.wait(DEADLINE_S)
            raise OSError(5, "Input/output error")

    log = make_log(LogSettings(max_segment_bytes=99), disk=DiskWith(fsync=fsync))
    fill(log, 1)

    def expect_failure(work: Callable[[], object]) -> None:
        with pytest.raises(LogFailedError):
            work()

    with running(lambda: expect_failure(log.flush)):
        assert entered.wait(DEADLINE_S)
        with running(lambda: expect_failure(lambda: fill(log, 1))):
            let_go.set()
    assert len(calls) == 3
    assert log.end_offset == 0


def test_close_flushes_and_may_be_called_twice(make_log: Callable[..., Log]) -> None:
    log = make_log()
    data = fill(log, 2)
    piece = None
    log.flush()
    piece = log.read(0, 1000)
    fill(log, 1)
    log.close()
    log.close()
    log.flush()
    assert content(piece) == data, "a slice outlives the log"
    assert make_log().end_offset == 300
    with pytest.raises(LogClosedError):
        log.append(data, 1)
    assert log.failure is None, "to be closed is no failure"
    with pytest.raises(LogClosedError):
        log.read(0, 10)
    assert log.delete_old_segments() == []


def test_a_block_closes_its_log(make_log: Callable[..., Log]) -> None:
    with make_log() as log:
        fill(log, 1)
    assert log.end_offset == 100
    with pytest.raises(LogClosedError):
        fill(log, 1)


# Opening


def test_strange_files_are_warned_of(make_log: Callable[..., Log], caplog: pytest.LogCaptureFixture) -> None:
    log = make_log()
    log.close()
    (log.directory / "notes.txt").touch()
    make_log()
    assert "notes.txt" in caplog.text


def test_a_missing_segment_is_an_error_that_names_the_file(make_log: Callable[..., Log]) -> None:
    log = make_log(ROLLS_EARLY)
    fill(log)
    log.close()
    segment_path(log.directory, 200).unlink()
    with pytest.raises(LogError, match=r"00000000000000000300\.kafka does not continue .*0100.kafka"):
        make_log()


def test_a_log_goes_on_where_it_ended(make_log: Callable[..., Log]) -> None:
    log = make_log(ROLLS_EARLY)
    data = fill(log)
    log.close()
    log = make_log(ROLLS_EARLY)
    assert (log.start_offset, log.end_offset, log.segment_offsets) == (0, 400, (0, 100, 200, 300))
    data += fill(log, 1)
    assert read_all(log) == data


def test_a_log_that_cannot_be_opened_names_its_path(tmp_path: Path, make_log: Callable[..., Log]) -> None:
    (tmp_path / "t-0").write_text("a file")
    with pytest.raises(LogError, match="t-0"):
        make_log()


def test_recovery_cuts_the_tail_and_keeps_it(make_log: Callable[..., Log]) -> None:
    log = make_log()
    data = fill(log)
    log.close()
    path = segment_path(log.directory, 0)
    path.write_bytes(data[:-1])
    log = make_log()
    assert (log.end_offset, log.recovery) == (399, None), "nobody asked for it"
    log.close()
    log = make_log(recover=True)
    assert log.end_offset == 300
    assert log.recovery is not None
    assert log.recovery.cut_bytes == 99
    assert (log.directory / "00000000000000000300.cut").read_bytes() == data[300:-1]
    assert log.append(encode(b"next"), 1) == 300


# Offsets


def test_offsets_before_as_0_7_2_answers_it(make_log: Callable[..., Log], clock: ManualClock) -> None:
    """The cases that were captured: one segment of 34 bytes, written a while ago."""
    log = make_log()
    log.append(bytes(MessageSet([b"hello", b"kafka 0.7"])), 2)
    log.flush()
    set_age(log, clock, 0, 1000)
    assert log.offsets_before(EARLIEST, 1) == [0]
    assert log.offsets_before(LATEST, 1) == [34]
    assert log.offsets_before(LATEST, 10) == [34, 0]
    assert log.offsets_before(1, 10) == []
    assert log.offsets_before(int(clock.wall_s() * 1000) - 500, 10) == [0]


def test_offsets_before_a_time(make_log: Callable[..., Log], clock: ManualClock) -> None:
    log = make_log(ROLLS_EARLY)
    fill(log, 3)
    for start, age_ms in ((0, 3000), (100, 2000), (200, 1000)):
        set_age(log, clock, start, age_ms)
    now = int(clock.wall_s() * 1000)
    for age_ms, expected in (
        (3001, []),
        (3000, [0]),
        (2001, [0]),
        (2000, [100, 0]),
        (1000, [200, 100, 0]),
        (1, [200, 100, 0]),
        (0, [300, 200, 100, 0]),
        (-1000, [300, 200, 100, 0]),
    ):
        assert log.offsets_before(now - age_ms, 10) == expected, age_ms
    assert log.offsets_before(now, 2) == [300, 200]
    assert log.offsets_before(now, 0) == []
    assert log.offsets_before(now, -5) == []
    assert log.offsets_before(EARLIEST, 10) == [0]
    assert log.offsets_before(EARLIEST, 0) == []
    assert log.offsets_before(-3, 10) == []


def test_times_are_compared_in_whole_milliseconds(make_log: Callable[..., Log], clock: ManualClock) -> None:
    """A client asks in whole ones, so the time at which a file was last written counts without its fraction."""
    log = make_log(LogSettings(max_segment_bytes=99))
    fill(log, 2)
    os.utime(segment_path(log.directory, 0), ns=(1_000_000_700_000, 1_000_000_700_000))
    assert log.offsets_before(1_000_000, 1) == [0]
    assert log.offsets_before(999_999, 1) == []
    log.flush()
    clock.now_ms = 1_000_000.7
    clock.wall_lead_ms = 0
    assert log.offsets_before(1_000_000, 1) == [200]


def test_a_search_through_many_segments_gives_others_their_turn(
    make_log: Callable[..., Log], clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "STEP_SEGMENTS", 3)
    log = make_log(ROLLS_EARLY)
    fill(log, 10)
    pauses: list[None] = []
    assert log.offsets_before(5, 1, lambda: pauses.append(None)) == []
    assert len(pauses) == 3


def test_a_search_ends_at_a_segment_that_was_deleted_meanwhile(
    make_log: Callable[..., Log], clock: ManualClock
) -> None:
    """All before it went first."""
    log = make_log(ROLLS_EARLY)
    fill(log, 3)
    set_age(log, clock, 200, 1000)
    segment_path(log.directory, 100).unlink()
    assert log.offsets_before(int(clock.wall_s() * 1000) - 5000, 10) == []


def test_a_time_that_cannot_be_read_is_an_error(make_log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the segment; to retention it is one more failure of the disk."""

    def broken(_segment: LogSegment) -> int:
        raise OSError(5, "Input/output error")

    log = make_log(ROLLS_EARLY)
    fill(log, 1)
    monkeypatch.setattr(LogSegment, "modified_ms", broken)
    with pytest.raises(LogError, match=r"00000000000000000000\.kafka: Input/output error"):
        log.offsets_before(5, 1)
    with pytest.raises(LogFailedError, match="Input/output error"):
        log.delete_old_segments()
    assert log.failure is not None


def test_a_segment_without_flushed_bytes_adds_no_end(make_log: Callable[..., Log], clock: ManualClock) -> None:
    log = make_log(LogSettings(max_segment_bytes=99))
    assert log.offsets_before(LATEST, 10) == [0]
    fill(log, 1)
    assert log.offsets_before(LATEST, 10) == [0]
    fill(log, 1)
    assert log.segment_offsets == (0, 100)
    assert log.offsets_before(LATEST, 10) == [100, 0], "100 is where the unflushed segment starts, and the end"
    log.flush()
    assert log.offsets_before(LATEST, 10) == [200, 100, 0]


# Retention


def test_segments_strictly_older_than_allowed_are_deleted_oldest_first(
    make_log: Callable[..., Log], clock: ManualClock
) -> None:
    log = make_log(LogSettings(max_segment_bytes=99, flush_interval=1, retention_ms=1000))
    fill(log)
    for start, age_ms in ((0, 1001), (100, 1001), (200, 1000), (300, 5000)):
        set_age(log, clock, start, age_ms)
    deleted = log.delete_old_segments()
    assert [(one.topic, one.partition, one.start_offset, one.size_bytes) for one in deleted] == [
        ("t", 0, 0, 100),
        ("t", 0, 100, 100),
    ]
    assert "1000 ms" in deleted[0].reason
    assert log.segment_offsets == (200, 300), "the younger one protects what is behind it"
    assert (log.start_offset, log.end_offset, log.size_bytes) == (200, 400, 200)
    assert sorted(path.name for path in log.directory.iterdir()) == [f"{200:020d}.kafka", f"{300:020d}.kafka"]
    assert log.deleted_segments == 2
    with pytest.raises(OffsetOutOfRangeError):
        log.read(199, 10)


@pytest.mark.parametrize(
    ("limit", "kept"), [(-1, 4), (1000, 4), (301, 4), (300, 3), (299, 3), (201, 3), (200, 2), (1, 1), (0, 1)]
)
def test_what_remains_is_never_less_than_the_size_limit(
    make_log: Callable[..., Log], clock: ManualClock, limit: int, kept: int
) -> None:
    log = make_log(LogSettings(max_segment_bytes=99, flush_interval=1, retention_ms=1e12, retention_bytes=limit))
    fill(log)
    deleted = log.delete_old_segments()
    assert len(log.segment_offsets) == kept
    assert log.end_offset == 400
    assert (log.start_offset == 400) == (limit == 0)
    assert all(str(limit) in one.reason for one in deleted)


def test_the_size_limit_counts_what_age_has_left(make_log: Callable[..., Log], clock: ManualClock) -> None:
    log = make_log(LogSettings(max_segment_bytes=99, flush_interval=1, retention_ms=1000, retention_bytes=200))
    fill(log)
    set_age(log, clock, 0, 1001)
    for start in (100, 200, 300):
        set_age(log, clock, start, 0)
    reasons = [one.reason for one in log.delete_old_segments()]
    assert log.segment_offsets == (200, 300)
    assert ["1000 ms" in reason for reason in reasons] == [True, False]
    assert "200 bytes" in reasons[1]


def test_when_all_segments_go_an_empty_one_opens_at_the_end(make_log: Callable[..., Log], clock: ManualClock) -> None:
    """Offsets never restart, across a restart neither."""
    log = make_log(LogSettings(max_segment_bytes=99, flush_interval=1, retention_ms=1000))
    fill(log)
    clock.now_ms += 1e12
    assert len(log.delete_old_segments()) == 4
    assert (log.start_offset, log.end_offset, log.segment_offsets) == (400, 400, (400,))
    assert log.read(400, 100).size == 0
    assert log.offsets_before(LATEST, 10) == [400]
    clock.now_ms += 1e12
    assert log.delete_old_segments() == [], "the empty segment stays"
    log.close()
    log = make_log()
    assert log.append(encode(b"next"), 1) == 400


def test_deleting_the_active_segment_flushes_it_first(make_log: Callable[..., Log], clock: ManualClock) -> None:
    """Else a power cut could leave it shorter than where the next one starts, and the log would not open."""
    synced: list[int] = []
    log = make_log(LogSettings(retention_ms=1000), disk=DiskWith(fsync=lambda fd: synced.append(os.fstat(fd).st_ino)))
    fill(log, 2)
    inode = segment_path(log.directory, 0).stat().st_ino
    set_age(log, clock, 0, 1001)
    synced.clear()
    assert [one.size_bytes for one in log.delete_old_segments()] == [200]
    assert synced[0] == inode
    assert (log.start_offset, log.end_offset, log.appended_end_offset, log.unflushed_messages) == (200, 200, 200, 0)
    assert log.append(encode(b"next"), 1) == 200


def test_all_segments_before_an_empty_one_go(make_log: Callable[..., Log], clock: ManualClock) -> None:
    """The empty one stays at the end, and only that."""
    settings = LogSettings(max_segment_bytes=99, flush_interval=1, retention_ms=1000)
    log = make_log(settings)
    fill(log)
    clock.now_ms += 1e12
    log.delete_old_segments()
    log.close()
    for start in (200, 300):
        segment_path(log.directory, start).write_bytes(encode(b"x" * 90))
    log = make_log(settings)
    clock.now_ms += 1e12
    assert [one.start_offset for one in log.delete_old_segments()] == [200, 300]
    assert log.segment_offsets == (400,)


def test_what_is_not_flushed_does_not_count_for_the_size_limit(make_log: Callable[..., Log]) -> None:
    """Else a crash could leave less than the limit."""
    log = make_log(LogSettings(max_segment_bytes=150, flush_interval=1000, retention_bytes=200))
    fill(log, 4)
    assert (log.segment_offsets, log.end_offset) == ((0, 200), 200)
    assert log.delete_old_segments() == []
    log.flush()
    assert [one.start_offset for one in log.delete_old_segments()] == [0]


def test_an_open_slice_outlives_its_segment(make_log: Callable[..., Log], clock: ManualClock) -> None:
    """A slow reader gets the rest of a deleted segment; then its file is closed."""
    log = make_log(LogSettings(max_segment_bytes=99, flush_interval=1, retention_ms=1000))
    data = fill(log)
    before = count_open_files()
    old, active = log.read(0, 1000), log.read(300, 1000)
    clock.now_ms += 1e12
    assert len(log.delete_old_segments()) == 4
    assert os.pread(old.fd, old.size, old.position) == data[:100]
    assert os.pread(active.fd, active.size, active.position) == data[300:]
    assert count_open_files() == before + 2
    old.release()
    active.release()
    assert count_open_files() == before


def test_a_parked_slice_keeps_its_segment_from_being_deleted(make_log: Callable[..., Log], clock: ManualClock) -> None:
    """It holds no file open, and gets its bytes all the same."""
    log = make_log(LogSettings(max_segment_bytes=99, flush_interval=1, retention_ms=1000))
    data = fill(log)
    before = count_open_files()
    piece, forgotten = log.read(100, 1000), log.read(200, 1000)
    piece.park()
    forgotten.park()
    assert count_open_files() == before
    clock.now_ms += 1e12
    assert [one.start_offset for one in log.delete_old_segments()] == [0]
    piece.resume()
    assert content(piece) == data[100:200]
    assert [one.start_offset for one in log.delete_old_segments()] == [100]
    forgotten.release()
    assert [one.start_offset for one in log.delete_old_segments()] == [200, 300]
    assert count_open_files() == before


def test_a_slice_of_a_deleted_segment_stays_open_when_parked(make_log: Callable[..., Log], clock: ManualClock) -> None:
    log = make_log(LogSettings(max_segment_bytes=99, flush_interval=1, retention_ms=1000))
    data = fill(log)
    piece = log.read(0, 1000)
    clock.now_ms += 1e12
    assert len(log.delete_old_segments()) == 4
    piece.park()
    piece.resume()
    assert content(piece) == data[:100]


def test_a_parked_slice_takes_its_file_again(make_log: Callable[..., Log]) -> None:
    log = make_log(ROLLS_EARLY)
    data = fill(log)
    before = count_open_files()
    piece = log.read(100, 1000)
    piece.park()
    assert piece.fd == -1, "the number may soon be another file's"
    log.read(100, 1000).release()
    assert count_open_files() == before
    piece.resume()
    piece.resume()
    assert content(piece) == data[100:200]
    assert count_open_files() == before


def test_the_last_bytes_of_a_deleted_segment_are_freed_by_whom_the_broker_chose(
    make_log: Callable[..., Log], clock: ManualClock
) -> None:
    """Closing the last handle of a large deleted file takes a while."""
    closed: list[int] = []
    log = make_log(
        LogSettings(max_segment_bytes=99, flush_interval=1, retention_ms=1000), disk=DiskWith(close=closed.append)
    )
    fill(log)
    log.read(0, 1000).release()
    held = log.read(0, 1000)
    assert closed == []
    clock.now_ms += 1e12
    log.delete_old_segments()
    assert len(closed) == 1, "the segment that was appended to"
    fd = held.fd
    held.release()
    assert closed[1:] == [fd]
    for fd in closed:
        os.close(fd)


def test_retention_waits_while_no_file_can_be_opened(
    make_log: Callable[..., Log], clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is half deleted: the next pass does it all."""
    log = make_log(LogSettings(max_segment_bytes=99, flush_interval=1, retention_ms=1000))
    fill(log)
    clock.now_ms += 1e12
    with no_more_files():
        assert log.delete_old_segments() == []
    assert log.segment_offsets == (0, 100, 200, 300)
    assert log.waits_for_files == 1
    assert "raise the limit on open files" in caplog.text
    assert len(log.delete_old_segments()) == 4
    assert log.append(encode(b"next"), 1) == 400


def test_readers_and_writers_go_on_during_retention(make_log: Callable[..., Log], clock: ManualClock) -> None:
    """A reader gets the right bytes or is out of range, never anything else."""
    log = make_log(LogSettings(max_segment_bytes=99, flush_interval=1, retention_ms=1e12, retention_bytes=300))
    finished = threading.Event()

    def read() -> None:
        while not finished.is_set():
            offset = log.start_offset
            try:
                data = content(log.read(offset, 100))
            except OffsetOutOfRangeError:
                continue
            assert data == b"" or data == encode(b"%90d" % offset)

    def write() -> None:
        try:
            for number in range(300):
                log.append(encode(b"%90d" % (number * 100)), 1)
                log.delete_old_segments()
        finally:
            finished.set()

    with running(read), running(read), running(write):
        pass
    assert log.end_offset == 30_000
    assert log.size_bytes == 300


def test_files_vanish_in_order_even_across_a_power_cut(make_log: Callable[..., Log], clock: ManualClock) -> None:
    """Each deletion is on disk before the next one begins."""
    events: list[str] = []

    def fsync(fd: int) -> None:
        events.append(Path(f"/proc/self/fd/{fd}").readlink().name)

    def unlink(path: Path) -> None:
        events.append(f"- {int(path.stem)}")
        path.unlink()

    log = make_log(
        LogSettings(max_segment_bytes=99, flush_interval=1, retention_bytes=200),
        disk=DiskWith(fsync=fsync, unlink=unlink),
    )
    fill(log)
    events.clear()
    log.delete_old_segments()
    assert events == ["- 0", "t-0", "- 100", "t-0"]


def test_a_deletion_that_fails_ends_the_log(make_log: Callable[..., Log], clock: ManualClock) -> None:
    def unlink(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    log = make_log(
        LogSettings(max_segment_bytes=99, flush_interval=1, retention_bytes=200), disk=DiskWith(unlink=unlink)
    )
    fill(log)
    with pytest.raises(LogFailedError, match="Permission denied"):
        log.delete_old_segments()
    with pytest.raises(LogFailedError):
        log.append(encode(b"x"), 1)


def test_expired_and_excess_segments_are_counted_from_the_oldest() -> None:
    assert count_expired([], 100, 10) == 0
    assert count_expired([0, 89, 90, 0], 100, 10) == 2
    assert count_expired([200], 100, 10) == 0, "written in the future"
    assert count_excess([], 0, 0) == 0
    assert count_excess([10, 10, 10], 30, -1) == 0
    assert count_excess([10, 10, 10], 30, 15) == 1
    assert count_excess([10, 10, 10], 30, 0) == 3


def test_a_jump_is_what_the_wall_clock_moved_beyond_the_steady_one(clock: ManualClock) -> None:
    guard = ClockJumpGuard(clock)
    clock.now_ms += 1e9
    assert guard.jump_ms() == 0
    clock.wall_lead_ms += 5000
    clock.now_ms += 1e9
    assert guard.jump_ms() == pytest.approx(5000)
    assert guard.jump_ms() == 0
    clock.wall_lead_ms -= 7000
    assert guard.jump_ms() == pytest.approx(-7000)
