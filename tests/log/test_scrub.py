"""Closed segments are checked: what is damaged in them, which is next, how fast, and past the page cache."""

from __future__ import annotations

import errno
import os
import random
from typing import TYPE_CHECKING

import pytest

from kafka2011.errors import LogError
from kafka2011.log.log_settings import LogSettings
from kafka2011.log.scrub import (
    ClosedSegment,
    Scrub,
    ScrubPace,
    ScrubStoppedError,
    check_segment,
    closed_segments,
    damaged_stretches,
)
from kafka2011.log.scrub_record import DamagedRange, DifferingRange, ScrubFile, ScrubRecord, SegmentKey
from kafka2011.log.uncached import PAGE, READ_BYTES, UncachedFile, cached_pages
from kafka2011.message.message_set import encode
from tests.planted.patches import read_defects
from tests.planted.planting import planted
from tests.support.clocks import ManualClock
from tests.support.logs import new_log, new_log_manager

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 110
"""Bytes of a message with 100 bytes of payload."""
A, B, C = (SegmentKey("t", 0, start) for start in (0, 1000, 2000))


def messages(count: int) -> bytes:
    return b"".join(encode(b"%0100d" % number) for number in range(count))


def damaged(data: bytes, *positions: int) -> bytes:
    changed = bytearray(data)
    for position in positions:
        changed[position] ^= 4
    return bytes(changed)


def stretches(path: Path, data: bytes) -> list[tuple[int, int]]:
    """Write a file, and return what is found in it, by both ways of reading."""
    path.write_bytes(data)
    with UncachedFile(path) as file:
        found = damaged_stretches(file.fd, len(data), file.read)
    with path.open("rb") as cached:
        assert damaged_stretches(cached.fileno(), len(data)) == found
    return [(stretch.start, stretch.end) for stretch in found]


def segment_at(path: Path, key: SegmentKey = A) -> ClosedSegment:
    return ClosedSegment(key, path, path.stat().st_size)


def no_pace(_bytes: int) -> None:
    """Read as fast as can be."""


def test_each_damaged_stretch_is_found_up_to_the_next_good_message(tmp_path: Path) -> None:
    """Whether it is the payload, the length or the magic that is wrong, and wherever that is."""
    data = messages(20)
    assert stretches(tmp_path / "s", data) == []
    assert stretches(tmp_path / "s", b"") == []
    assert stretches(tmp_path / "s", damaged(data, 50)) == [(0, SIZE)]
    two = damaged(data, 3 * SIZE + 50, 4 * SIZE + 20, 9 * SIZE + 3, 12 * SIZE + 4)
    assert stretches(tmp_path / "s", two) == [
        (3 * SIZE, 5 * SIZE),
        (9 * SIZE, 10 * SIZE),
        (12 * SIZE, 13 * SIZE),
    ]
    assert stretches(tmp_path / "s", damaged(data, 19 * SIZE + 50)) == [(19 * SIZE, 20 * SIZE)]
    assert stretches(tmp_path / "s", damaged(data, 19 * SIZE + 1)) == [(19 * SIZE, 20 * SIZE)]
    assert stretches(tmp_path / "s", data[:-7]) == [(19 * SIZE, 20 * SIZE - 7)]


def test_messages_that_are_larger_than_what_is_read_at_a_time_are_checked(tmp_path: Path) -> None:
    chance = random.Random(2011)
    sizes = [chance.choice([10, 1000, READ_BYTES - 10, READ_BYTES, 3 * READ_BYTES + 1]) for _ in range(12)]
    parts = [encode(chance.randbytes(size)) for size in sizes]
    data = b"".join(parts)
    assert stretches(tmp_path / "s", data) == []
    large = sizes.index(3 * READ_BYTES + 1)
    start = sum(map(len, parts[:large]))
    assert stretches(tmp_path / "s", damaged(data, start + 2 * READ_BYTES)) == [(start, start + len(parts[large]))]


def cached_bytes(path: Path) -> int:
    """Return how much of a file is in the page cache, in whole pages."""
    with path.open("rb") as file:
        return sum(cached_pages(file.fileno(), 0, path.stat().st_size)) * PAGE


@pytest.mark.parametrize("is_direct", [True, False])
def test_what_was_not_in_memory_is_not_there_afterwards(
    tmp_path: Path, is_direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was there stays, with O_DIRECT and without."""
    path = tmp_path / "s"
    with path.open("wb") as file:
        file.write(messages(10_000))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if cached_bytes(path):
        pytest.skip("this file system keeps all in memory")
    if not is_direct:
        real_open = os.open
        monkeypatch.setattr(
            os, "open", lambda path, flags: _fail(22) if flags & os.O_DIRECT else real_open(path, flags)
        )
    assert check_segment(segment_at(path), no_pace) == []
    assert cached_bytes(path) == 0
    path.read_bytes()
    assert check_segment(segment_at(path), no_pace) == []
    assert cached_bytes(path) >= path.stat().st_size


def test_damage_is_named_by_offsets_and_by_path(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_bytes(damaged(messages(10), 2 * SIZE + 50))
    ranges = check_segment(segment_at(path, B), no_pace)
    assert ranges is not None
    (found,) = ranges
    assert found[:4] == (B, 1000 + 2 * SIZE, 1000 + 3 * SIZE, str(path))
    assert str(found).startswith(f"t-0 at offset 1220 in {path}: CRC differs")


def test_a_file_that_cannot_be_read_is_damaged_and_one_that_was_deleted_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s"
    path.write_bytes(messages(3))
    segment = segment_at(path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "preadv", lambda *_: _fail(5))
        assert check_segment(segment, no_pace) == [
            DamagedRange(A, 0, 3 * SIZE, str(path), f"cannot read {path}: Input/output error")
        ]
    with monkeypatch.context() as patched:
        patched.setattr(os, "preadv", lambda *_: _fail(errno.EMFILE))
        with pytest.raises(LogError, match="cannot check"):  # it says nothing of the disk
            check_segment(segment, no_pace)
    path.unlink()
    assert check_segment(segment, no_pace) is None


def _fail(number: int, *_: object) -> int:
    raise OSError(number, os.strerror(number))


def test_a_read_that_is_wrong_once_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s"
    good, bad = messages(3), damaged(messages(3), 50)
    path.write_bytes(bad)
    opened = UncachedFile.__enter__

    def enter(self: UncachedFile) -> UncachedFile:
        try:
            return opened(self)
        finally:
            path.write_bytes(good)

    monkeypatch.setattr(UncachedFile, "__enter__", enter)
    reads: list[int] = []
    assert check_segment(segment_at(path), reads.append) == []
    assert len(reads) >= 1


def test_it_is_no_faster_than_its_pace(tmp_path: Path) -> None:
    """After a pause it makes up for a quarter of a second at most, and it ends at once when it is to stop."""
    clock, waits = ManualClock(now_s=100), []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        clock.now_s += seconds
        return len(waits) > 40

    pace = ScrubPace(1000, clock.monotonic_s, wait)
    for _ in range(40):
        pace.spend(100)
    assert clock.monotonic_s() == pytest.approx(100 + 4 - 0.25)
    with pytest.raises(ScrubStoppedError):
        pace.spend(1)


def _segments(tmp_path: Path, *keys: SegmentKey) -> list[ClosedSegment]:
    return [ClosedSegment(key, tmp_path / "s", 500) for key in keys]


def test_a_pass_checks_each_segment_once_and_the_next_one_has_time(tmp_path: Path) -> None:
    """What was closed meanwhile is checked with the next pass."""
    there = _segments(tmp_path, A, B)
    record = ScrubRecord()
    scrub = Scrub(record, lambda: there, 100.0)
    first = scrub.next(1000.0)
    assert first is not None
    assert first.key == A
    damage = DamagedRange(A, 0, 110, "s", "wrong")
    assert scrub.checked(first, [damage]) == [damage]
    assert record.damage() == [damage]
    second = scrub.next(1001.0)
    assert second is not None
    there = _segments(tmp_path, B, C)
    assert scrub.checked(second, []) == []
    assert scrub.next(1002.0) is None
    assert (record.finished_s, record.after, record.damage()) == (1002.0, None, [damage])
    record.keep_only({B, C})
    assert record.damage() == []
    assert record.scrubbed_bytes == 1000
    assert scrub.next(1101.0) is None
    third = scrub.next(1102.0)
    assert third is not None
    assert third.key == B


def goes_on_after_a_restart(tmp_path: Path) -> None:
    there = _segments(tmp_path, A, B, C)
    record, file = ScrubRecord(), ScrubFile(tmp_path)
    scrub = Scrub(record, lambda: there, 100.0)
    first = scrub.next(1000.0)
    assert first is not None
    scrub.checked(first, [DamagedRange(A, 0, 110, "s", "wrong")])
    file.store(record)
    again = file.load()
    assert again is not None
    assert again.damage() == record.damage()
    second = Scrub(again, lambda: there, 100.0).next(1000.0)
    assert second is not None
    assert second.key == B


def test_a_pass_goes_on_after_a_restart(tmp_path: Path) -> None:
    assert ScrubFile(tmp_path).load() is None
    goes_on_after_a_restart(tmp_path)


def test_what_differs_is_kept_until_it_is_the_same_or_deleted(tmp_path: Path) -> None:
    record, found = ScrubRecord(), DifferingRange(A, 0, 110, "a:9c2e")
    assert record.note_compared(A, found)
    assert not record.note_compared(A, found)
    ScrubFile(tmp_path).store(record)
    again = ScrubFile(tmp_path).load()
    assert again is not None
    assert [str(each) for each in again.differing()] == [
        "t-0 has other good messages than at a:9c2e between offsets 0 and 110"
    ]
    assert not again.note_compared(A, None)
    assert again.differing() == []
    record.keep_only({B})
    assert record.differing() == []


def test_damage_is_told_once_until_it_was_mended() -> None:
    record, damage = ScrubRecord(), DamagedRange(A, 0, 110, "s", "wrong")
    assert record.note(A, [damage]) == [damage]
    assert record.note(A, [damage]) == []
    assert record.note(A, []) == []
    assert record.note(A, [damage]) == [damage]


@pytest.mark.parametrize(
    "text", ["", "[]", '{"after": 3, "finished_s": null, "damage": [], "differing": []}', '{"after": null}']
)
def test_a_file_that_makes_no_sense_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "scrub").write_text(text)
    with pytest.raises(LogError, match="does not say what a scrub has found"):
        ScrubFile(tmp_path).load()


def test_the_closed_segments_of_a_log_are_all_but_the_last(tmp_path: Path) -> None:
    """And its file of what was found is none of log.dir's logs."""
    log = new_log(tmp_path / "t-0", LogSettings(max_segment_bytes=1), clock=ManualClock())
    with log:
        for _ in range(3):
            log.append(messages(1), 1)
        assert [segment.key for segment in closed_segments([log])] == [SegmentKey("t", 0, 0), SegmentKey("t", 0, SIZE)]


def test_the_file_is_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ScrubFile(tmp_path).store(ScrubRecord())
    with new_log_manager(tmp_path):
        pass
    assert "skipped" not in caplog.text


def test_planted_defects_are_noticed(tmp_path: Path) -> None:
    """The tests above fail for these."""
    defects = read_defects("damage")
    with planted(defects["a pass begins again after a restart"]), pytest.raises(AssertionError):
        goes_on_after_a_restart(tmp_path)
    with planted(defects["a scrub stops at the first damage"]), pytest.raises(AssertionError):
        test_each_damaged_stretch_is_found_up_to_the_next_good_message(tmp_path)
