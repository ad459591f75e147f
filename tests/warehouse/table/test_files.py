"""Files of this machine: what a table needs of them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from kafka2011.warehouse.table.files import LocalFiles

if TYPE_CHECKING:
    from pathlib import Path

FILES = LocalFiles()


def test_what_is_missing_holds_nothing(tmp_path: Path) -> None:
    """A directory that is not there lists as empty, may be deleted, and its files cannot be read."""
    missing = str(tmp_path / "missing")
    assert FILES.names(missing) == []
    assert FILES.walk(missing) == []
    FILES.delete(missing)
    with pytest.raises(FileNotFoundError):
        FILES.read(f"{missing}/file")
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
