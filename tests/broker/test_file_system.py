"""Bringing a whole file system to disk, where that can be relied on."""

from __future__ import annotations

import ctypes
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from kafka2011.broker.flushing import file_system
from kafka2011.broker.flushing.file_system import KINDS, FileSystem, kind_of
from kafka2011.disk import open_directory
from tests.support.files import count_open_files

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def directory_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a directory on a file system that can be relied on, whatever it is."""
    monkeypatch.setattr(file_system, "kind_of", lambda _fd: "ext4")
    return tmp_path


def test_a_file_system_is_brought_to_disk(directory_kind: Path) -> None:
    """Its files are known, by whatever name; no descriptor is left behind."""
    before = count_open_files()
    found = FileSystem.of(directory_kind)
    assert found is not None
    with (directory_kind / "file").open("wb") as file, open("/proc/self/status", "rb") as other:  # noqa: PTH123
        file.write(b"bytes")
        assert found.holds(file.fileno())
        assert not found.holds(other.fileno())
        found.begin_sync()()
        later = found.begin_sync()
        found.close()
        later()
        found.close()
    assert count_open_files() == before


@pytest.mark.parametrize("number", [5, 28])
def test_its_errors_are_those_of_the_kernel(directory_kind: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Of bytes that could not be written, to whatever file."""
    before = count_open_files()

    def syncfs(fd: int) -> int:
        ctypes.set_errno(number if fd >= 0 else 9)
        return -1

    monkeypatch.setattr(file_system, "_LIBC", SimpleNamespace(syncfs=syncfs))
    found = FileSystem.of(directory_kind)
    assert found is not None
    with pytest.raises(OSError, match=os.strerror(number)):
        found.begin_sync()()
    found.close()
    assert count_open_files() == before


@pytest.mark.parametrize("release", ["5.7.19", "4.19.0-amd64", "unknown"])
def test_an_old_kernel_does_not_tell_of_errors(
    directory_kind: Path, monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    """So it is not relied on."""
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release=release))
    assert FileSystem.of(directory_kind) is None
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release="5.8.0-rc1"))
    found = FileSystem.of(directory_kind)
    assert found is not None
    found.close()


def test_a_call_that_is_forbidden_is_not_relied_on(directory_kind: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in some containers, nor one that succeeds with no descriptor at all, nor one that the library lacks."""

    def forbidden(_fd: int) -> int:
        ctypes.set_errno(1)
        return -1

    for libc in (SimpleNamespace(syncfs=forbidden), SimpleNamespace(syncfs=lambda _fd: 0), SimpleNamespace()):
        monkeypatch.setattr(file_system, "_LIBC", libc)
        assert FileSystem.of(directory_kind) is None


@pytest.mark.parametrize("kind", ["overlay", "ext2", "tmpfs", "fuse.fuse-overlayfs", ""])
def test_other_kinds_are_not_relied_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Some succeed and do nothing."""
    before = count_open_files()
    monkeypatch.setattr(file_system, "kind_of", lambda _fd: kind)
    assert FileSystem.of(tmp_path) is None
    assert FileSystem.of(tmp_path / "absent") is None
    assert count_open_files() == before
    assert kind not in KINDS


def test_the_kernel_tells_the_kind() -> None:
    """By the mount of a descriptor, so that a path that is mounted over makes no difference."""
    for directory, kind in (("/proc", "proc"), ("/proc/self/task", "proc"), ("/dev/pts", "devpts")):
        fd = open_directory(directory)
        try:
            assert kind_of(fd) == kind
        finally:
            os.close(fd)
