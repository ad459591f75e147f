"""Positions on disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kafka2011.collect.positions import CollectStateError, FileKey, FilePosition, Positions
from tests.support.disks import DiskWith

if TYPE_CHECKING:
    from pathlib import Path

    from kafka2011.disk import Disk

ONE = FilePosition(FileKey(1, 2), "/var/log/a", 10, "abc", 20, 30, 40)


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    """All of it comes back, and what did not change is not written again."""
    positions = Positions(tmp_path / "state", "views")
    positions.add(ONE)
    positions.spool_offset = 7
    positions.instances = ["web1-1", "web1-2"]
    assert positions.save()
    assert not positions.save()
    positions.close()
    again = Positions(tmp_path / "state", "views")
    assert again.files == {ONE.key: ONE}
    assert again.spool_offset == 7
    assert again.instances == ["web1-1", "web1-2"]
    assert not again.save()
    again.close()


def test_one_collector_at_a_time(tmp_path: Path) -> None:
    """A second one is refused while the first one lives."""
    positions = Positions(tmp_path, "views")
    with pytest.raises(CollectStateError, match=f"another collector uses {tmp_path}"):
        Positions(tmp_path, "views")
    positions.close()
    Positions(tmp_path, "views").close()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 2, "topic": "views", "files": [], "spool_offset": 0}', '{"version": 1}']
)
def test_what_holds_no_positions_is_refused(tmp_path: Path, text: str) -> None:
    """A broken file is not taken for an empty one, and the error names it."""
    (tmp_path / "positions.json").write_text(text)
    with pytest.raises(CollectStateError, match=r"positions\.json does not hold positions"):
        Positions(tmp_path, "views")
    (tmp_path / "positions.json").unlink()
    Positions(tmp_path, "views").close()  # and the lock was let go


def test_positions_belong_to_a_topic(tmp_path: Path) -> None:
    """Lines that went to one topic do not count as sent to another."""
    positions = Positions(tmp_path, "views")
    positions.add(ONE)
    positions.save()
    positions.close()
    with pytest.raises(CollectStateError, match="for topic views, not clicks"):
        Positions(tmp_path, "clicks")


def test_a_failed_save_keeps_the_old_ones(tmp_path: Path) -> None:
    """What cannot be brought to disk does not replace what is there, and is saved by the next attempt."""
    fails = False

    def fsync(fd: int) -> None:
        if fails:
            raise OSError(28, "No space left on device")
        os.fsync(fd)

    positions = Positions(tmp_path, "views", disk=DiskWith(fsync=fsync))
    positions.spool_offset = 1
    positions.save()
    before = positions.path.read_bytes()
    fails = True
    positions.spool_offset = 2
    with pytest.raises(OSError, match="No space"):
        positions.save()
    assert positions.path.read_bytes() == before
    fails = False
    assert positions.save()
    assert positions.path.read_bytes() != before
    positions.close()


def many(directory: Path, **settings: Disk) -> Positions:
    """Positions of a thousand files, saved."""
    positions = Positions(directory, "views", **settings)
    for number in range(1000):
        positions.add(FilePosition(FileKey(1, number), f"/var/log/{number}", number))
    positions.save()
    return positions


def confirm(positions: Positions, number: int, position: int) -> None:
    each = positions.files[FileKey(1, number)]
    each.position = position
    positions.note(each)


def test_saving_takes_as_long_as_there_are_changes(tmp_path: Path) -> None:
    """What changed of many goes to the journal, which the next collector takes in, and which stays bounded."""
    positions = many(tmp_path)
    before = positions.path.read_bytes()
    journal = tmp_path / "positions.journal"
    confirm(positions, 7, 5000)
    positions.remove(FileKey(1, 8))
    positions.spool_offset = 3
    assert positions.save()
    assert not positions.save()
    assert positions.path.read_bytes() == before
    assert journal.stat().st_size < 1000
    for position in range(6000, 8001):
        confirm(positions, 9, position)
        positions.save()
        assert journal.stat().st_size < 3 * len(before) if journal.exists() else True
    positions.close()
    again = Positions(tmp_path, "views")
    assert (again.files, again.spool_offset) == (positions.files, 3)
    assert again.of("/var/log/9") == {FileKey(1, 9): positions.files[FileKey(1, 9)]}
    assert again.of("/var/log/8") == {}
    again.save(whole=True)
    assert not journal.exists()
    again.close()
    last = Positions(tmp_path, "views")
    assert last.files == positions.files
    last.close()


@pytest.mark.parametrize("torn", [b'{"spool_offset": 1, "fi', b"\0" * 100, b"\0" * 100 + b"\n"])
def test_a_journal_may_end_torn(tmp_path: Path, torn: bytes) -> None:
    """What did not come to its end does not count; what is broken before it does, and is refused."""
    positions = many(tmp_path)
    confirm(positions, 7, 5000)
    positions.save()
    positions.close()
    journal = tmp_path / "positions.journal"
    whole = journal.read_bytes()
    journal.write_bytes(whole + torn)
    again = Positions(tmp_path, "views")
    assert again.files == positions.files
    confirm(again, 8, 6000)
    assert again.save()  # not behind what is torn
    again.close()
    last = Positions(tmp_path, "views")
    assert last.files == again.files
    last.close()
    journal.write_bytes(b"torn\n" + whole)
    with pytest.raises(CollectStateError, match=r"line 1 of .*positions\.journal does not hold positions"):
        Positions(tmp_path, "views")


def test_after_a_save_that_failed_nothing_is_added_behind_it(tmp_path: Path) -> None:
    """Half of a line may be on disk: all is written anew."""
    fails = False

    def fsync(fd: int) -> None:
        if fails:
            raise OSError(28, "No space left on device")
        os.fsync(fd)

    positions = many(tmp_path, disk=DiskWith(fsync=fsync))
    confirm(positions, 7, 5000)
    fails = True
    with pytest.raises(OSError, match="No space"):
        positions.save()
    with (tmp_path / "positions.journal").open("r+b") as journal:
        journal.truncate(10)
    fails = False
    confirm(positions, 8, 6000)
    assert positions.save()
    positions.close()
    again = Positions(tmp_path, "views")
    assert again.files == positions.files
    again.close()
