"""A power cut leaves what was brought to disk, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from integration.chaos.power_cut import TAILS, lose_unsynced
from integration.chaos.synced import noting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from integration.chaos.power_cut import Tail


class Disk:
    """A directory with a log in it, as a broker would keep one, and what of it is on disk."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "logs"
        self.log = self.root / "t-0"
        self.log.mkdir(parents=True)
        self.notes, self.kept = directory / "notes", directory / "kept"
        self._fsync: Callable[[int], None] = noting(os.fsync, self.root, self.notes, self.kept)

    def sync(self, *paths: Path) -> None:
        for path in paths:
            fd = os.open(path, os.O_RDONLY)
            self._fsync(fd)
            os.close(fd)

    def write(self, name: str, data: bytes) -> Path:
        path = self.log / name
        with path.open("ab") as file:
            file.write(data)
        return path

    def cut_power(self, tail: Tail = "gone") -> dict[Path, int]:
        return lose_unsynced(self.root, self.notes, self.kept, tail)

    def files(self) -> dict[str, bytes]:
        return {str(path.relative_to(self.root)): path.read_bytes() for path in self.root.rglob("*") if path.is_file()}


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def test_what_was_brought_to_disk_stays(disk: Disk) -> None:
    """With the names of all directories above it."""
    path = disk.write("0.kafka", b"abc")
    disk.sync(path, disk.log, disk.root)
    assert disk.cut_power() == {}
    assert disk.files() == {"t-0/0.kafka": b"abc"}


@pytest.mark.parametrize(
    ("tail", "left", "expected"), [("gone", 3, b"abc"), ("torn", 5, b"abcde"), ("zeros", 3, b"abc\0\0\0\0")]
)
def test_bytes_that_were_not_brought_to_disk_vanish(disk: Disk, tail: Tail, left: int, expected: bytes) -> None:
    """Or half of them do, or zeros stand there."""
    path = disk.write("0.kafka", b"abc")
    disk.sync(path, disk.log, disk.root)
    disk.write("0.kafka", b"defg")
    assert disk.cut_power(tail) == {path: left}
    assert disk.files() == {"t-0/0.kafka": expected}
    assert disk.cut_power() == {}, "what is there after a power cut is on disk"
    assert disk.files() == {"t-0/0.kafka": expected}


@pytest.mark.parametrize("tail", TAILS)
def test_names_that_were_not_brought_to_disk_vanish(disk: Disk, tail: Tail) -> None:
    """Of files and of directories, however much of their bytes was brought there."""
    old = disk.write("0.kafka", b"abc")
    disk.sync(old, disk.log, disk.root)
    new = disk.write("3.kafka", b"def")
    other = disk.root / "t-1" / "0.kafka"
    other.parent.mkdir()
    other.write_bytes(b"ghi")
    disk.sync(new, other, other.parent)
    assert disk.cut_power(tail) == {new: 0, other: 0}
    assert disk.files() == {"t-0/0.kafka": b"abc"}
    assert [path.name for path in disk.root.iterdir()] == ["t-0"]


def test_a_name_whose_removal_was_not_brought_to_disk_comes_back(disk: Disk) -> None:
    """With its bytes; one whose removal was does not."""
    first, second = disk.write("0.kafka", b"abc"), disk.write("3.kafka", b"def")
    disk.sync(first, second, disk.log, disk.root)
    first.unlink()
    disk.sync(disk.log)
    second.unlink()
    assert disk.cut_power() == {}
    assert disk.files() == {"t-0/3.kafka": b"def"}


def test_a_file_that_takes_the_place_of_another_unnoticed_by_the_disk(disk: Disk) -> None:
    """The name stands for the file that it stood for."""
    path = disk.write("0.kafka", b"abc")
    disk.sync(path, disk.log, disk.root)
    path.unlink()
    disk.sync(disk.write("0.kafka", b"new"))
    assert disk.cut_power() == {path: 0}
    assert disk.files() == {"t-0/0.kafka": b"abc"}


def test_what_failed_brought_nothing_to_disk(disk: Disk) -> None:
    """An fsync that raises covers nothing."""

    def fail(_fd: int) -> None:
        raise OSError

    path = disk.write("0.kafka", b"abc")
    fd = os.open(path, os.O_RDONLY)
    with pytest.raises(OSError, match=r"^$"):
        noting(fail, disk.root, disk.notes, disk.kept)(fd)
    os.close(fd)
    disk.sync(disk.log, disk.root)
    assert disk.cut_power() == {path: 0}


def test_what_comes_while_an_fsync_runs_is_not_covered(disk: Disk) -> None:
    """Neither bytes nor names: the disk may have been done with them before."""
    path = disk.write("0.kafka", b"abc")
    disk.sync(disk.log, disk.root)

    def more(_fd: int) -> None:
        disk.write("0.kafka", b"def")
        disk.write("3.kafka", b"ghi")

    for each in (path, disk.log):
        fd = os.open(each, os.O_RDONLY)
        noting(more, disk.root, disk.notes, disk.kept)(fd)
        os.close(fd)
    disk.cut_power()
    assert disk.files() == {"t-0/0.kafka": b"abc", "t-0/3.kafka": b""}


def test_a_line_that_kill_9_tore(disk: Disk) -> None:
    """The fsync that it was to tell of did not return; what is noted after it counts."""
    path = disk.write("0.kafka", b"abc")
    with disk.notes.open("ab") as notes:
        notes.write(b"[12, 34")
    again = noting(os.fsync, disk.root, disk.notes, disk.kept)
    for each in (path, disk.log, disk.root):
        fd = os.open(each, os.O_RDONLY)
        again(fd)
        os.close(fd)
    assert disk.cut_power() == {}
    assert disk.files() == {"t-0/0.kafka": b"abc"}


def test_a_program_that_may_open_no_files_brings_names_to_disk(disk: Disk) -> None:
    """The fault `no files` must be the broker's trouble and not that of the notes."""
    code = (
        "import os, resource, sys; from pathlib import Path; from integration.chaos.synced import noting\n"
        "root, notes, kept = map(Path, sys.argv[1:]); fsync = noting(os.fsync, root, notes, kept)\n"
        "fds = [os.open(path, os.O_RDONLY) for path in (root / 't-0', root)]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
        "for fd in fds: fsync(fd)\n"
    )
    path = disk.write("0.kafka", b"")
    command = [sys.executable, "-c", code, *map(str, (disk.root, disk.notes, disk.kept))]
    subprocess.run(command, check=True, timeout=60)
    assert disk.cut_power() == {}
    assert disk.files() == {"t-0/0.kafka": b""}
    assert path.exists()


def test_a_directory_of_very_many_names(disk: Disk) -> None:
    """All of them are noted, and directories elsewhere are not."""
    for number in range(2000):
        disk.write(f"{number:020}.kafka", b"")
    disk.sync(disk.log, disk.root)
    shutil.copytree(disk.log, disk.root.parent / "elsewhere")
    disk.sync(disk.root.parent / "elsewhere")
    assert disk.cut_power() == {}
    assert len(disk.files()) == 2000
