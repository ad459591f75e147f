"""What a directory with positions withstands: power cuts, disks that fail, other collectors."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.chaos.power_cut import TAILS, lose_unsynced
from integration.chaos.synced import noting
from kafka2011.collect.positions import CollectStateError, FileKey, FilePosition, Positions
from tests.support.disks import DiskWith

if TYPE_CHECKING:
    from integration.chaos.power_cut import Tail


class Machine:
    """A machine with a directory for positions, which may lose its power."""

    def __init__(self, directory: Path) -> None:
        self.state = directory / "state"
        self._notes, self._kept = directory / "notes", directory / "kept"
        self._fsync = noting(os.fsync, self.state, self._notes, self._kept)

    def positions(self) -> Positions:
        return Positions(self.state, "views", disk=DiskWith(fsync=self._fsync))

    def cut_power(self, tail: Tail) -> None:
        lose_unsynced(self.state, self._notes, self._kept, tail)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def position(number: int, at: int = 0) -> FilePosition:
    return FilePosition(FileKey(1, number), f"/var/log/{number}", at, "abc", at, 9000, 40)


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("files", [1, 100])
def test_what_was_saved_survives_a_power_cut(machine: Machine, files: int, tail: Tail) -> None:
    """Whichever save it was, and however little had changed since the one before."""
    saved: dict[FileKey, FilePosition] = {}
    for at in range(5):
        positions = machine.positions()
        assert positions.files == saved
        assert positions.spool_offset == max(at - 1, 0)
        for number in range(files if at == 0 else 1):
            positions.add(position(number, at))
        positions.spool_offset = at
        assert positions.save()
        saved = dict(positions.files)
        positions.add(position(files, 1))  # and not saved
        positions.close()
        machine.cut_power(tail)


@pytest.mark.parametrize("tail", TAILS)
def test_the_id_is_that_of_the_directory(machine: Machine, tmp_path: Path, tail: Tail) -> None:
    """It is there for good before anything can be sent that names it, and no other directory has it."""
    first = machine.positions()
    assert len(bytes.fromhex(first.id)) == 16
    first.close()
    machine.cut_power(tail)
    again = machine.positions()
    assert again.id == first.id
    again.close()
    other = Positions(tmp_path / "other", "views")
    assert other.id != first.id
    other.close()


def test_a_new_directory_has_nothing(tmp_path: Path) -> None:
    """It is made with those above it; its lock is nobody else's to take."""
    positions = Positions(tmp_path / "var" / "lib" / "state", "views")
    assert (positions.files, positions.spool_offset) == ({}, 0)
    assert (positions.directory / "lock").stat().st_mode & 0o777 == 0o600
    positions.close()


def many(directory: Path, files: int) -> Positions:
    positions = Positions(directory, "views")
    for number in range(files):
        positions.add(position(number))
    positions.save()
    return positions


def changes_in(journal: Path) -> int:
    """Return how many saves a journal has."""
    return len(journal.read_bytes().splitlines()) if journal.exists() else 0


def test_the_journal_is_never_longer_than_what_it_changes(tmp_path: Path) -> None:
    """A save that has only the spool's offset counts as one; a journal that has become as long is begun anew."""
    positions = many(tmp_path, 32)
    journal = tmp_path / "positions.journal"
    lengths = []
    for offset in range(1, 67):
        positions.spool_offset = offset
        if offset % 33 != 7:
            positions.note(positions.files[FileKey(1, offset % 32)])
        positions.save()
        lengths.append(changes_in(journal))
    assert lengths == [*range(1, 33), 0, *range(1, 33), 0]
    positions.close()


def test_a_journal_is_for_a_sixteenth_of_all(tmp_path: Path) -> None:
    """Where more has changed, all is written anew; what was removed counts too, and stays away."""
    positions = many(tmp_path, 33)
    journal = tmp_path / "positions.journal"
    positions.remove(FileKey(1, 0))
    positions.note(positions.files[FileKey(1, 1)])
    positions.save()
    assert changes_in(journal) == 1
    positions.close()
    again = Positions(tmp_path, "views")
    assert again.files.keys() == {FileKey(1, number) for number in range(1, 33)}
    again.save(whole=True)
    for number in (1, 2, 3):
        again.note(again.files[FileKey(1, number)])
    again.save()
    assert changes_in(journal) == 0
    again.close()


def test_positions_are_found_by_their_paths(tmp_path: Path) -> None:
    """Several files may have had one path, and another may take the place of one in it or hold what it held."""
    positions = Positions(tmp_path, "views")
    first, second = positions.add(position(1)), positions.add(FilePosition(FileKey(1, 2), "/var/log/1"))
    other = positions.add(position(3))
    assert second == FilePosition(FileKey(1, 2), "/var/log/1", 0, "", 0, 0, 0), "nothing was read of it"
    assert positions.of("/var/log/1") == {first.key: first, second.key: second}
    positions.remove(first.key)
    positions.remove(first.key)
    assert positions.of("/var/log/1") == {second.key: second}
    assert set(positions.paths) == {"/var/log/1", "/var/log/3"}
    renamed = positions.add(FilePosition(other.key, "/var/log/4"))
    assert set(positions.paths) == {"/var/log/1", "/var/log/4"}
    positions.save()
    positions.move(renamed, FileKey(1, 30))
    assert positions.files == {second.key: second, FileKey(1, 30): renamed}
    assert (renamed.key, renamed.origin) == (FileKey(1, 30), "1:3")
    positions.move(renamed, FileKey(1, 31))
    assert renamed.origin == "1:3"
    positions.save()
    positions.close()
    again = Positions(tmp_path, "views")
    assert again.files == positions.files
    assert again.of("/var/log/4") == {FileKey(1, 31): renamed}
    assert not again.save(whole=True)
    again.remove(second.key)
    assert again.save()
    assert not again.save()
    again.close()


def test_what_was_moved_and_is_known_already_takes_nothing_away(tmp_path: Path) -> None:
    """A file's position that another one has replaced meanwhile is not in the way of that."""
    positions = Positions(tmp_path, "views")
    old = positions.add(position(1))
    new = positions.add(position(1, 7))
    positions.move(old, FileKey(1, 2))
    assert positions.files == {FileKey(1, 1): new, FileKey(1, 2): old}
    positions.close()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """With the reason."""
    (tmp_path / "file").touch()
    with pytest.raises(CollectStateError, match=f"cannot use {tmp_path}/file/state: Not a directory"):
        Positions(tmp_path / "file" / "state", "views")


def test_positions_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    """They are not taken for none."""
    (tmp_path / "positions.json").mkdir()
    with pytest.raises(CollectStateError, match=r"cannot read .*positions\.json: Is a directory"):
        Positions(tmp_path, "views")


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_whoever_is_refused_keeps_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the file system knows no locks, or cannot save the id: then the directory cannot be used."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", refuse)
        before = open_files()
        with pytest.raises(CollectStateError, match=f"cannot use {tmp_path}: No locks available"):
            Positions(tmp_path, "views")
        assert open_files() == before
    with pytest.raises(CollectStateError, match=f"cannot use {tmp_path}: No locks available"):
        Positions(tmp_path, "views", disk=DiskWith(fsync=refuse))
    assert open_files() == before
    positions = Positions(tmp_path, "views")
    between = open_files()
    with pytest.raises(CollectStateError, match="another collector"):
        Positions(tmp_path, "views")
    assert open_files() == between
    positions.save()
    positions.close()
    assert open_files() == before
    (tmp_path / "positions.json").write_text("{")
    with pytest.raises(CollectStateError, match="does not hold positions"):
        Positions(tmp_path, "views")
    assert open_files() == before


def test_closing_twice_closes_nothing_else(tmp_path: Path) -> None:
    """The number of the lock's descriptor may be another file's by then."""
    positions = Positions(tmp_path, "views")
    positions.close()
    other = [os.open(tmp_path, os.O_RDONLY) for _ in range(5)]
    positions.close()
    for each in other:
        os.close(each)
