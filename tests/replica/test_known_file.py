"""The file in which a replica keeps what it knows of itself."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from kafka2011.replica.known_file import KnownFile, NotStoredNowError, is_known_file
from kafka2011.replica.state import ReplicaStateError
from tests.support.disks import DiskWith
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path


def test_a_new_disk_gets_an_id_of_its_own(tmp_path: Path) -> None:
    """It keeps it, also under another name."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    known = KnownFile(one).load_or_begin("a")
    assert KnownFile(two).load_or_begin("a").replica.disk != known.replica.disk
    assert KnownFile(one).load_or_begin("b").replica == ("b", known.replica.disk)


def test_what_is_stored_is_there_after_a_restart(tmp_path: Path) -> None:
    file = KnownFile(tmp_path)
    known = file.load_or_begin("a").with_readable({TopicPartition("views", 3, 1): 70})
    file.store(known)
    assert KnownFile(tmp_path).load() == known
    assert [path.name for path in tmp_path.iterdir() if not is_known_file(path.name)] == []


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    KnownFile(tmp_path).load_or_begin("a")
    (tmp_path / "replica").write_text("{")
    with pytest.raises(ReplicaStateError, match=str(tmp_path)):
        KnownFile(tmp_path).load_or_begin("a")


def test_a_disk_without_room_is_named(tmp_path: Path) -> None:
    """What was there stays."""
    known = KnownFile(tmp_path).load_or_begin("a")

    def fsync(_fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    full = KnownFile(tmp_path, DiskWith(fsync=fsync))
    with pytest.raises(ReplicaStateError, match=f"{tmp_path}/replica cannot be written: No space left"):
        full.store(known.with_readable({TopicPartition("views", 3, 1): 70}))
    assert KnownFile(tmp_path).load() == known


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN])
def test_what_the_process_lacks_for_a_moment_is_no_fault_of_the_disk(tmp_path: Path, number: int) -> None:
    """Nothing is done by what was not stored, and it can be stored later."""
    known = KnownFile(tmp_path).load_or_begin("a")
    errors = [OSError(number, os.strerror(number))]

    def fsync(fd: int) -> None:
        if errors:
            raise errors.pop()
        os.fsync(fd)

    file, more = KnownFile(tmp_path, DiskWith(fsync=fsync)), known.with_readable({TopicPartition("views", 3, 1): 70})
    with pytest.raises(NotStoredNowError, match=f"{tmp_path}/replica"):
        file.store(more)
    assert KnownFile(tmp_path).load() == known
    file.store(more)
    assert KnownFile(tmp_path).load() == more
