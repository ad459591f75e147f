"""Files of this machine: what a table needs of them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafka2011.warehouse.table.files import LocalFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FILES = LocalFiles()


def unchecked(names: Sequence[str], read: Callable[[str], bytes]) -> None:
    """Let everything pass."""


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    """Make a directory with a file in a directory, and one to rename it into."""
    source = tmp_path / "staging" / "one"
    (source / "date=2011-06-12").mkdir(parents=True)
    (source / "date=2011-06-12" / "rows").write_bytes(b"rows")
    (tmp_path / "table").mkdir()
    return source


def test_what_is_missing_holds_nothing(tmp_path: Path) -> None:
    """A directory that is not there lists as empty, may be deleted, and its files cannot be read."""
    missing = str(tmp_path / "missing")
    assert FILES.names(missing) == []
    assert FILES.walk(missing) == []
    FILES.delete(missing)
    with pytest.raises(FileNotFoundError):
        FILES.read(f"{missing}/file")
    with pytest.raises(FileNotFoundError):
        FILES.modified_s(missing)
    with pytest.raises(FileNotFoundError):
        FILES.write(f"{missing}/file", b"")


def test_files_are_written_listed_read_and_deleted(tmp_path: Path) -> None:
    """Names are sorted, a walk goes into directories, and deleting takes a file or all that is below."""
    FILES.make_directory(f"{tmp_path}/a/b")
    FILES.make_directory(f"{tmp_path}/a/b")
    FILES.write(f"{tmp_path}/a/b/two", b"22")
    FILES.write(f"{tmp_path}/a/one", b"0")
    FILES.write(f"{tmp_path}/a/one", b"1")
    assert FILES.names(f"{tmp_path}/a") == ["b", "one"]
    assert [(each.path, each.size_bytes) for each in FILES.walk(str(tmp_path))] == [
        (f"{tmp_path}/a/b/two", 2),
        (f"{tmp_path}/a/one", 1),
    ]
    assert FILES.read(f"{tmp_path}/a/one") == b"1"
    FILES.delete(f"{tmp_path}/a/one")
    FILES.delete(f"{tmp_path}/a")
    assert FILES.names(str(tmp_path)) == []


def test_a_directory_loses_its_name_before_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever would use it while it is being deleted finds nothing, rather than a part."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "file").touch()

    def stopped(path: Path) -> None:
        assert path.parent == tmp_path
        assert (path / "file").exists()
        raise InterruptedError

    monkeypatch.setattr(shutil, "rmtree", stopped)
    with pytest.raises(InterruptedError):
        FILES.delete(str(tmp_path / "directory"))
    [left] = tmp_path.iterdir()
    assert left.name.startswith(".")


def test_a_walk_says_when_it_cannot_look(tmp_path: Path) -> None:
    """Only what is missing counts as empty."""
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        FILES.walk(str(tmp_path / "file"))


def test_a_directory_is_published_whole(tmp_path: Path, staged: Path) -> None:
    """It is gone from where it was, and all of it is there."""
    FILES.publish(str(staged), str(tmp_path / "table"), "load_id=000001", unchecked)
    assert not staged.exists()
    assert (tmp_path / "table/load_id=000001/date=2011-06-12/rows").read_bytes() == b"rows"


def test_a_name_that_is_taken_is_refused(tmp_path: Path, staged: Path) -> None:
    """Nothing moves, neither over the directory that is there nor into it."""
    taken = tmp_path / "table" / "load_id=000001"
    taken.mkdir()
    (taken / "_offsets.json").write_bytes(b"first")
    with pytest.raises(FileExistsError, match="load_id=000001"):
        FILES.publish(str(staged), str(tmp_path / "table"), "load_id=000001", unchecked)
    assert (staged / "date=2011-06-12/rows").exists()
    assert [each.name for each in taken.iterdir()] == ["_offsets.json"]


def test_a_check_sees_the_directory_and_may_prevent(tmp_path: Path, staged: Path) -> None:
    """It is given the names that are there, and reads files in it."""
    table = tmp_path / "table"
    (table / "load_id=000001").mkdir()
    (table / "load_id=000001" / "_offsets.json").write_bytes(b"first")

    def prevent(names: Sequence[str], read: Callable[[str], bytes]) -> None:
        assert names == ["load_id=000001"]
        raise ValueError(read("load_id=000001/_offsets.json"))

    with pytest.raises(ValueError, match="first"):
        FILES.publish(str(staged), str(table), "load_id=000002", prevent)
    assert staged.exists()


def test_what_was_checked_is_renamed_into(tmp_path: Path, staged: Path) -> None:
    """When another directory takes the path between check and rename, the checked one gets it."""
    table = tmp_path / "table"

    def exchange(names: Sequence[str], read: Callable[[str], bytes]) -> None:
        table.rename(tmp_path / "old")
        table.mkdir()

    FILES.publish(str(staged), str(table), "load_id=000001", exchange)
    assert (tmp_path / "old" / "load_id=000001").exists()
    assert list(table.iterdir()) == []


def test_all_is_on_disk_before_it_can_be_seen(tmp_path: Path, staged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and directories are synced before the rename, both parents after it."""
    target = tmp_path / "table" / "load_id=000001"
    synced: list[tuple[str, bool]] = []

    def fsync(fd: int) -> None:
        synced.append((str(Path(f"/proc/self/fd/{fd}").readlink()), target.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    FILES.publish(str(staged), str(tmp_path / "table"), "load_id=000001", unchecked)
    assert synced == [
        (f"{staged}/date=2011-06-12/rows", False),
        (f"{staged}/date=2011-06-12", False),
        (str(staged), False),
        (str(tmp_path / "table"), True),
        (str(staged.parent), True),
    ]
