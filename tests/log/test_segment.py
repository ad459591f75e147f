"""Segment files, the slices that readers get of them, and the list that finds them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kafka2011.log.segment import (
    EMPTY_SLICE,
    LogSegment,
    LogSlice,
    SegmentList,
    find_segment_files,
    os_error_text,
    segment_path,
)
from tests.support.disks import DiskWith

if TYPE_CHECKING:
    from pathlib import Path

    from kafka2011.message.header import AnyBytes


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def content(piece: LogSlice) -> bytes:
    return os.pread(piece.fd, piece.size, piece.position)


@pytest.fixture
def inactive(tmp_path: Path) -> LogSegment:
    path = segment_path(tmp_path, 100)
    path.write_bytes(b"0123456789")
    return LogSegment(path, 100, 10)


def test_a_segment_is_named_by_its_first_offset_in_twenty_digits(tmp_path: Path) -> None:
    assert segment_path(tmp_path, 0).name == "00000000000000000000.kafka"
    assert segment_path(tmp_path, 2**63 - 1).name == "09223372036854775807.kafka"


def test_segment_files_come_in_order_of_their_offsets(tmp_path: Path) -> None:
    for offset in (1000, 0, 99):
        segment_path(tmp_path, offset).touch()
    assert [offset for offset, _ in find_segment_files(tmp_path)] == [0, 99, 1000]


@pytest.mark.parametrize(
    "name", ["0.kafka", "notes.txt", "00000000000000000007.kafka.bak", "+0000000000000000007.kafka"]
)
def test_other_files_are_skipped_with_a_warning(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / name).touch()
    assert find_segment_files(tmp_path) == []
    assert not caplog.records, "once is enough: recovery looks too, before the log opens"
    assert find_segment_files(tmp_path, warn_of_others=True) == []
    assert str(tmp_path / name) in caplog.text


def test_a_directory_named_like_a_segment_is_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    segment_path(tmp_path, 0).mkdir()
    assert find_segment_files(tmp_path, warn_of_others=True) == []
    assert "00000000000000000000.kafka" in caplog.text


def test_what_recovery_has_cut_is_skipped_in_silence(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "00000000000000000042.cut").touch()
    assert find_segment_files(tmp_path, warn_of_others=True) == []
    assert not caplog.records


def test_an_inactive_file_is_open_only_while_somebody_reads(inactive: LogSegment) -> None:
    first = inactive.slice(0, 4)
    second = inactive.slice(2, 4)
    assert first.fd == second.fd, "readers share one descriptor"
    assert not os.get_inheritable(first.fd)
    fd = first.fd
    first.release()
    assert is_open(fd)
    assert content(second) == b"2345"
    second.release()
    assert not is_open(fd)
    with inactive.slice(9, 1) as again:
        assert content(again) == b"9"


def test_a_slice_may_be_released_twice(inactive: LogSegment) -> None:
    first = inactive.slice(0, 4)
    with inactive.slice(0, 4) as second:
        first.release()
        first.release()
        assert is_open(second.fd)
    assert first.fd == -1, "a released slice must not reach a file that gets the same number"


def test_a_deleted_file_is_readable_until_its_last_slice_goes(inactive: LogSegment) -> None:
    with inactive.slice(0, 10) as piece:
        inactive.path.unlink()
        assert content(piece) == b"0123456789"
        fd = piece.fd
    assert not is_open(fd)
    with pytest.raises(FileNotFoundError):
        inactive.slice(0, 10)


def test_the_active_file_stays_open_until_it_is_released_and_unread(tmp_path: Path) -> None:
    segment = LogSegment.create(tmp_path, 0)
    segment.append(b"abc")
    fd = segment.hold()
    segment.release()
    assert is_open(fd), "the writer still holds it"
    piece = segment.slice(0, 3)
    segment.release()
    assert content(piece) == b"abc"
    piece.release()
    assert not is_open(fd)


def test_a_slice_may_be_parked_and_resumed_twice(inactive: LogSegment) -> None:
    """And released while it is parked, which lets its file go for good."""
    piece, other = inactive.slice(2, 4), inactive.slice(0, 4)
    piece.park()
    piece.park()
    assert content(other) == b"0123", "another reader keeps the file open"
    other.release()
    piece.resume()
    piece.resume()
    assert content(piece) == b"2345"
    piece.park()
    assert not inactive.prepare_deletion()
    piece.release()
    piece.release()
    assert inactive.prepare_deletion()


def test_the_empty_slice_holds_nothing() -> None:
    EMPTY_SLICE.park()
    EMPTY_SLICE.resume()
    with EMPTY_SLICE as piece:
        assert (piece.fd, piece.size) == (-1, 0)
    EMPTY_SLICE.release()


def test_an_existing_file_is_never_taken_for_a_new_segment(tmp_path: Path) -> None:
    segment_path(tmp_path, 5).write_bytes(b"x")
    with pytest.raises(FileExistsError):
        LogSegment.create(tmp_path, 5)


def test_a_new_segment_is_a_file_that_nobody_may_run(tmp_path: Path) -> None:
    segment = LogSegment.create(tmp_path, 5)
    assert not segment.path.stat().st_mode & 0o111
    segment.release()


def test_a_new_segment_has_nothing_to_bring_to_disk(tmp_path: Path) -> None:
    """Only an append that was cut off again leaves something, until a sync."""
    disk = DiskWith()
    segment = LogSegment.create(tmp_path, 5, disk)
    assert (segment.end_offset, segment.has_remains) == (5, False)
    segment.append(b"abc")
    assert not segment.has_remains
    disk.replace(write=lambda fd, data: 0)
    with pytest.raises(OSError, match="wrote 0"):
        segment.append(b"def")
    assert segment.has_remains
    segment.sync()
    assert (segment.end_offset, segment.has_remains) == (8, False)

    def broken(_fd: int) -> None:
        raise OSError(5, "Input/output error")

    disk.replace(fsync=broken)
    with pytest.raises(OSError, match="Input/output error"):
        segment.sync()
    assert segment.has_remains
    segment.release()


def test_a_short_write_is_continued(tmp_path: Path) -> None:
    segment = LogSegment.create(tmp_path, 0, DiskWith(write=lambda fd, data: os.write(fd, data[:3])))
    segment.append(b"0123456789")
    assert segment.path.read_bytes() == b"0123456789"
    assert segment.size_bytes == 10
    segment.release()


def test_a_write_that_gets_nowhere_is_an_error(tmp_path: Path) -> None:
    segment = LogSegment.create(tmp_path, 0, DiskWith(write=lambda fd, data: 0))
    with pytest.raises(OSError, match="wrote 0 of 10 bytes"):
        segment.append(b"0123456789")
    segment.release()


def test_nothing_is_left_of_a_write_that_is_stopped(tmp_path: Path) -> None:
    """A greenlet may be killed while its write goes on in a thread: nobody counts those bytes, so none may stay."""

    class Killed(BaseException):
        pass

    def write_and_die(fd: int, data: AnyBytes) -> int:
        os.write(fd, data)
        raise Killed

    disk = DiskWith()
    segment = LogSegment.create(tmp_path, 0, disk)
    segment.append(b"before")
    disk.replace(write=write_and_die)
    with pytest.raises(Killed):
        segment.append(b"0123456789")
    disk.replace(write=os.write)
    segment.append(b"after")
    assert segment.path.read_bytes() == b"beforeafter"
    assert segment.size_bytes == 11
    segment.release()


@pytest.mark.parametrize(
    "stopped_by", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["error", "stop"]
)
def test_what_cannot_be_cut_off_again_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped_by: BaseException
) -> None:
    """Nobody may append after bytes that do not count. The first error tells more than the second."""

    def write_and_stop(fd: int, data: AnyBytes) -> int:
        os.write(fd, data)
        raise stopped_by

    def broken(fd: int, size: int) -> None:
        raise OSError(5, "Input/output error")

    segment = LogSegment.create(tmp_path, 0, DiskWith(write=write_and_stop))
    monkeypatch.setattr(os, "ftruncate", broken)
    with pytest.raises(OSError, match="No space left" if isinstance(stopped_by, OSError) else "Input/output error"):
        segment.append(b"0123456789")
    segment.release()


def test_every_offset_is_found_in_its_segment(tmp_path: Path) -> None:
    segments = SegmentList.of(LogSegment(segment_path(tmp_path, start), start, 10) for start in (100, 110, 120))
    found = [segments.find(offset).start_offset for offset in range(100, 130)]
    assert found == [100] * 10 + [110] * 10 + [120] * 10
    assert segments.active.start_offset == 120


def test_too_many_open_files_says_what_to_do(tmp_path: Path) -> None:
    text = os_error_text("cannot open", tmp_path, OSError(24, "Too many open files"))
    assert str(tmp_path) in text
    assert "ulimit" in text
