"""A directory that cannot be written costs a gateway nothing but time after a restart."""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING, Never

from kafka2011.gateway.cache_files import WARNING_INTERVAL_S, CacheFaults, IndexCache, ListsCache
from kafka2011.gateway.numbering.boundaries import Tail
from kafka2011.gateway.numbering.index_file import IndexDirectory
from kafka2011.gateway.partition_lists import ListsFile
from tests.gateway.numbering.test_index_file import stored
from tests.gateway.test_partition_lists import listed
from tests.support.clocks import ManualClock
from tests.support.disks import DiskWith

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def full(*_: object) -> Never:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_an_index_that_cannot_be_stored_is_no_error(tmp_path: Path) -> None:
    """Once there is space again, it is stored, and the fault is over."""
    disk, path, faults = DiskWith(replacing=full), tmp_path / "views-0-0", CacheFaults()
    index = IndexCache(IndexDirectory(path, disk), path, faults)
    index.store(stored())
    assert faults.text == f"{path}/state: No space left on device"
    assert index.load() is None

    disk.replace(replacing=DiskWith().replacing)
    index.store(stored())
    assert faults.text == ""
    assert faults.count == 1
    assert index.load() is not None


def test_a_directory_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path, faults = tmp_path / "file" / "views-0-0", CacheFaults()
    index = IndexCache(IndexDirectory(path), path, faults)
    assert index.load() is None
    index.store(stored())
    index.note(2, Tail(0, 0))
    ListsCache(ListsFile(tmp_path / "file" / "topics.json"), faults).store({"views": listed("0-0")}, {})
    assert faults.count >= 3


def test_it_is_warned_of_once_a_minute(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    clock = ManualClock()
    faults = CacheFaults(clock)

    def fail(times: int) -> None:
        for number in range(times):
            with faults.attempt(tmp_path / f"index-{number}"):
                full()

    with caplog.at_level(logging.WARNING):
        fail(100)
        clock.sleep(WARNING_INTERVAL_S)
        fail(100)
    assert len(caplog.records) == 2
    assert "100 files of the gateway cannot be read or written" in caplog.text
