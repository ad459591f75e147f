"""A damaged segment is replaced by a good copy of it, and by nothing else; a crash leaves one of the two whole."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from kafka2011.errors import LogError
from kafka2011.log.log_settings import LogSettings
from kafka2011.log.repair import SegmentRepair, UnfitCopyError
from kafka2011.log.replicated_log import ReplicatedLog
from kafka2011.message.message_set import encode
from tests.models.log.disk import NOTHING
from tests.models.log.explorer import ENDINGS, KILL, Explorer, ViolationError, torn_survivals
from tests.models.log.scenarios import SCENARIOS
from tests.planted.patches import read_defects
from tests.planted.planting import planted
from tests.support.clocks import ManualClock
from tests.support.logs import new_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafka2011.log.log import Log

PART = b"".join(encode(b"%0100d" % number) for number in range(30))
"""Of a segment."""
SIZE = len(PART) // 30
SETTINGS = LogSettings(max_segment_bytes=len(PART) - 1)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with new_log(tmp_path / "t-0", SETTINGS, clock=ManualClock()) as log:
        for _ in range(3):
            log.append(PART, 30)
        yield log


def flip(log: Log, number: int, *positions: int) -> Path:
    path = log.segments.segments[number].path
    data = bytearray(path.read_bytes())
    for position in positions:
        data[position] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(1_600_000_000_123_456_789,) * 2)
    return path


def mend(log: Log, start_offset: int, copy: bytes) -> None:
    with SegmentRepair(log, start_offset) as repair:
        for at in range(0, len(copy), 1000):
            repair.write(copy[at : at + 1000])
        repair.check()
        repair.install()


def files_of(log: Log) -> list[str]:
    return sorted(path.name for path in log.directory.iterdir())


def test_a_good_copy_takes_the_place_of_a_damaged_segment(log: Log) -> None:
    """With its time; a reader that has begun keeps the old file, and the log goes on."""
    names = files_of(log)
    path = flip(log, 1, 50, 20 * SIZE + 2)
    old = path.read_bytes()
    with log.read(len(PART), len(PART)) as piece:
        mend(log, len(PART), PART)
        assert os.pread(piece.fd, piece.size, piece.position) == old
    assert path.read_bytes() == PART
    assert path.stat().st_mtime_ns == 1_600_000_000_123_456_789
    assert files_of(log) == names
    with log.read(len(PART), len(PART)) as piece:
        assert os.pread(piece.fd, piece.size, piece.position) == PART
    assert log.append(PART, 30) == 3 * len(PART)


@pytest.mark.parametrize(
    ("copy", "why"),
    [
        (PART[:-1], "bytes there, and"),
        (PART + PART[:SIZE], "bytes there, and"),
        (PART[:40] + b"?" + PART[41:], "damaged there too, at offset"),
        (PART[: 5 * SIZE] + encode(b"%0100d" % 77) + PART[6 * SIZE :], "other good messages there, between offsets"),
    ],
)
def test_no_other_segment_takes_its_place(log: Log, copy: bytes, why: str) -> None:
    """Neither one that is shorter, nor one that is damaged, nor one that differs where both are good."""
    names = files_of(log)
    path = flip(log, 1, 50)
    before = path.read_bytes()
    with pytest.raises(UnfitCopyError, match=why):
        mend(log, len(PART), copy)
    assert path.read_bytes() == before
    assert files_of(log) == names


def test_what_cannot_be_read_counts_as_damaged(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything else is compared all the same."""
    pread, path = os.pread, flip(log, 1, 50)

    def read(fd: int, size: int, position: int) -> bytes:
        if os.path.samestat(os.fstat(fd), status) and position <= 2000 < position + size:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return pread(fd, size, position)

    status = path.stat()
    monkeypatch.setattr(os, "pread", read)
    mend(log, len(PART), PART)
    assert path.read_bytes() == PART


def test_only_closed_segments_are_replaced(log: Log) -> None:
    with pytest.raises(LogError, match="no closed segment"):
        mend(log, 2 * len(PART), PART)
    ReplicatedLog(log, ManualClock()).roll()
    assert log.segment_offsets == (0, len(PART), 2 * len(PART), 3 * len(PART))
    assert log.flushed_end_offset == 3 * len(PART)
    ReplicatedLog(log, ManualClock()).roll()
    assert log.segment_offsets[-1] == 3 * len(PART)
    mend(log, 2 * len(PART), PART)


def test_a_segment_that_was_deleted_or_waits_to_be_sent_is_left(log: Log) -> None:
    piece = log.read(0, 10)
    piece.park()
    with pytest.raises(LogError, match="for now"):
        mend(log, 0, PART)
    piece.release()
    with SegmentRepair(log, 0) as repair:
        repair.write(PART)
        log.delete_before(len(PART))
        with pytest.raises(LogError, match="No such file"):
            repair.install()
    assert len(files_of(log)) == 2


def test_what_a_repair_has_left_is_removed_at_the_next_start(tmp_path: Path, log: Log) -> None:
    SegmentRepair(log, 0)  # whose process ends
    assert any(name.endswith(".repair") for name in files_of(log))
    log.close()
    with new_log(tmp_path / "t-0", SETTINGS, clock=ManualClock()) as again:
        assert len(files_of(again)) == 3


def crash_in_repairs(tmp_path: Path) -> Explorer:
    explorer = Explorer(tmp_path, endings=(*ENDINGS, *torn_survivals(3)), inner_endings=(KILL, NOTHING))
    explorer.crash_everywhere(SCENARIOS["repair"])
    return explorer


def test_a_repair_without_an_fsync_is_noticed(tmp_path: Path) -> None:
    """The crashes at every step that tests/models/log makes are worth something."""
    crash_in_repairs(tmp_path)
    with planted(read_defects("damage")["a copy is not on disk when it is renamed"]), pytest.raises(ViolationError):
        crash_in_repairs(tmp_path)


def test_planted_defects_are_noticed(tmp_path: Path, log: Log) -> None:
    """The tests above fail for these."""
    other = PART[: 5 * SIZE] + encode(b"%0100d" % 77) + PART[6 * SIZE :]
    defects = read_defects("damage")
    with planted(defects["any good copy will do"]), pytest.raises(pytest.fail.Exception):
        test_no_other_segment_takes_its_place(log, other, "other good")
    with (
        planted(read_defects("damage")["a damaged copy will do"]),
        pytest.raises((pytest.fail.Exception, AssertionError)),
    ):
        test_no_other_segment_takes_its_place(log, PART[:40] + b"?" + PART[41:], "damaged there too")
