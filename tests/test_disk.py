"""The disk and what survives a power cut."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kafka2011.disk import fsync_directory, fsync_tree, is_directory, is_regular_file, publish_directory
from tests.support.disks import DiskWith, Told


def test_one_file_that_fails_keeps_no_other_from_being_brought_to_disk() -> None:
    """Each is told what came of it."""
    error = OSError(errno.EIO, "Input/output error")

    def fsync(fd: int) -> None:
        if fd == 1:
            raise error

    told = [Told(fd) for fd in range(3)]
    DiskWith(fsync=fsync).fsync_all(told)
    assert [each.told for each in told] == [[None], [error], [None]]


def path_of(fd: int) -> str:
    return str(Path(f"/proc/self/fd/{fd}").readlink())


def test_a_directory_is_synced_as_the_caller_does_it(tmp_path: Path) -> None:
    """A failure is the caller's own, and the descriptor is closed."""
    synced: list[tuple[int, str]] = []

    def fsync(fd: int) -> None:
        synced.append((fd, path_of(fd)))
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        DiskWith(fsync=fsync).fsync_directory(tmp_path)
    [(fd, path)] = synced
    assert path == str(tmp_path)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_a_file_is_replaced_once_all_of_it_is_on_disk(tmp_path: Path) -> None:
    """Then its name is brought to disk, and until then the one before stays."""
    path, new = tmp_path / "state", tmp_path / "state.new"
    path.write_bytes(b"before")
    synced: list[tuple[str, bytes]] = []
    disk = DiskWith(fsync=lambda fd: synced.append((path_of(fd), path.read_bytes())))
    with disk.replacing(path, new) as file:
        file.write(b"after")
    assert synced == [(str(new), b"before"), (str(tmp_path), b"after")]

    def fail(_fd: int) -> None:
        assert new.read_bytes() == b"half"
        raise OSError(errno.EIO, "Input/output error")

    disk.replace(fsync=fail)
    with pytest.raises(OSError, match="Input/output error"), disk.replacing(path, new) as file:
        file.write(b"half")
    assert path.read_bytes() == b"after"


def test_only_directories_are_synced_as_such(tmp_path: Path) -> None:
    """A file in the place of one is an error, and so is a tree that is not there."""
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        fsync_directory(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        fsync_tree(tmp_path / "missing")


def test_a_tree_is_synced_from_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory after all that it names."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").touch()
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(path_of(fd)))
    fsync_tree(tmp_path)
    assert synced == [f"{tmp_path}/a/b/file", f"{tmp_path}/a/b", f"{tmp_path}/a", str(tmp_path)]


def test_a_file_takes_a_name_too(tmp_path: Path) -> None:
    """What stands there need not be a directory; nothing moves."""
    (tmp_path / "new").mkdir()
    (tmp_path / "taken").touch()
    with pytest.raises(FileExistsError, match=f"'{tmp_path}/taken'"):
        publish_directory(tmp_path / "new", tmp_path, "taken")
    assert (tmp_path / "new").is_dir()


def test_what_a_disk_does_not_tell_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Since Python 3.14 Path.is_file says False to an I/O error too, and a log would begin anew beside its segments."""
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    names = ("", "file", "missing", "file/below", "loop")
    assert [is_directory(tmp_path / name) for name in names] == [True, False, False, False, False]
    assert [is_regular_file(tmp_path / name) for name in names] == [False, True, False, False, False]

    def broken(_path: Path, **_options: object) -> os.stat_result:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "stat", broken)
    for ask in (is_directory, is_regular_file):
        with pytest.raises(OSError, match="Input/output error"):
            ask(tmp_path / "file")
