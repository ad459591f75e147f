"""State that goes back while nobody runs on it: a disk to an earlier copy of itself or by its end; ZooKeeper.

What is done here is what replicas promise to survive. A disk goes back only if another one in sync has everything, and
only so far that what is in ZooKeeper tells, should its replica start alone.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from integration.chaos.power_cut import note_all
from kafka2011.log.segment import find_segment_files
from kafka2011.message.topic import parse_log_directory_name
from kafka2011.replica.known import Known
from kafka2011.replica.known_file import KnownFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from integration.chaos.replica_set import ChaosReplica, ReplicaSet
    from zk.local_zookeeper import LocalZooKeeper


class _Copy(NamedTuple):
    disk_id: str
    logs: Path


class Copies:
    """Copies of the disks of replicas and of ZooKeeper's, kept in a directory: the newest of each."""

    def __init__(self, replicas: ReplicaSet, directory: Path) -> None:
        self._replicas = replicas
        self._directory = directory
        self._disks: dict[str, _Copy] = {}
        self._made = 0

    def put_back(self, replica: ChaosReplica) -> bool:
        """Put the last copy in the place of a disk, of which a new copy is made; say whether that has been done."""
        earlier, disk_id = self._disks.pop(replica.name, None), replica.disk_id
        if disk_id is not None:
            with suppress(OSError):  # there is no room for a copy
                self._disks[replica.name] = _Copy(disk_id, self.make(replica))
        if earlier is None:
            return False
        goes_back = earlier.disk_id == disk_id and self.replace(replica, earlier.logs)
        shutil.rmtree(earlier.logs)
        return goes_back

    def replace(self, replica: ChaosReplica, copy: Path) -> bool:
        """Put a copy in the place of a disk, if anything tells that it lacks something; say whether that was done."""
        goes_back = self._is_told(copy)
        if goes_back:
            _empty(replica.logs)
            try:
                shutil.copytree(copy, replica.logs, dirs_exist_ok=True)
            except OSError:  # a small disk has no room for it
                _empty(replica.logs)
            note_all(replica.logs, replica.notes, replica.synced)
        return goes_back

    def lose_end(self, replica: ChaosReplica, pick: float, *, must_be_told: bool = True) -> bool:
        """Have a part of a log's last segment be gone that was on disk, and what the replica noted of that.

        It is left if nothing tells that it lacks something, unless another one leads all the while.
        """
        known = KnownFile(replica.logs).load()
        segments = [path for path in _last_segments(replica.logs) if path.stat().st_size]
        if known is None or not segments:
            return False
        path = segments[int(pick * 983) % len(segments)]
        size = path.stat().st_size
        left = int(size * pick)
        if must_be_told and not self._is_told(replica.logs, size - left):
            return False
        os.truncate(path, left)
        KnownFile(replica.logs).store(Known(known.replica, known.epoch, seen=known.seen))
        note_all(replica.logs, replica.notes, replica.synced)
        return True

    def _is_told(self, logs: Path, lost_bytes: int = 0) -> bool:
        """Say whether what is in ZooKeeper tells that such a disk lacks something."""
        known = KnownFile(logs).load()
        return known is not None and self._replicas.tells(known, _ends(logs) - lost_bytes)

    def make(self, replica: ChaosReplica) -> Path:
        """Return a copy of a disk as it is now; it must not be in use. Raises OSError."""
        self._made += 1
        return shutil.copytree(replica.logs, self._directory / f"copy-{self._made}")


class ZooKeeperCopy:
    """A copy of what ZooKeeper has on disk."""

    def __init__(self, zookeeper: LocalZooKeeper, data: Path, copy: Path) -> None:
        self._zookeeper = zookeeper
        self._data = data
        self._copy = copy
        self.renew()

    def renew(self) -> None:
        """Copy it as it is now."""
        self._zookeeper.pause()
        shutil.rmtree(self._copy, ignore_errors=True)
        shutil.copytree(self._data, self._copy)
        self._zookeeper.resume()

    def put_back(self) -> None:
        """Have it come up with the copy; it must have ended."""
        shutil.rmtree(self._data)
        shutil.copytree(self._copy, self._data)
        self._zookeeper.start()


def _empty(directory: Path) -> None:
    for path in directory.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _last_segments(logs: Path) -> Iterator[Path]:
    for directory in sorted(logs.iterdir()):
        if directory.is_dir() and parse_log_directory_name(directory.name) is not None:
            files = find_segment_files(directory)
            if files:
                yield files[-1][1]


def _ends(logs: Path) -> int:
    return sum(int(path.stem) + path.stat().st_size for path in _last_segments(logs))
