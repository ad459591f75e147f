"""log.dir: whose it is, who holds it now, which logs are in it, and whether the last stop was clean."""

from __future__ import annotations

import itertools
import logging
import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from kafka2011.disk import is_directory, lock_directory
from kafka2011.errors import LogError
from kafka2011.log.clock_file import is_clock_file
from kafka2011.log.deleted_partitions import is_deleted_partitions
from kafka2011.log.label import is_label
from kafka2011.log.partition_counts import is_partition_counts
from kafka2011.log.scrub_record import is_scrub_file
from kafka2011.log.segment import os_error_text
from kafka2011.message.topic import MAX_DIRECTORY_NAME_BYTES, log_directory_name, parse_log_directory_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from kafka2011.disk import Disk
    from kafka2011.log.label import Label

logger = logging.getLogger(__name__)

CLEAN_SHUTDOWN_MARK = ".kafka_cleanshutdown"
DELETED_SUFFIX = ".deleted"
"""What the directory of a deleted topic's log is called, until its files are gone."""


class LogDirectory:
    """The directory at `path`, from `open` to `close` in the hands of one broker.

    With a `label` it must be its broker's. `is_others` says which other files in it are known. Lets OSError through.
    """

    def __init__(self, path: Path, disk: Disk, label: Label | None, is_others: Callable[[str], bool]) -> None:
        self.path = path
        self._disk = disk
        self._label = label
        self._is_others = is_others
        self._lock_fd = -1  # holds the flock

    def open(self) -> None:
        """Make it if it is absent, and hold it. Raises LogError when another broker has it."""
        self._make()
        self._lock()
        self._disk.watch(self.path)

    def close(self) -> None:
        """Let go of it; may be called twice."""
        self._disk.unwatch()
        fd, self._lock_fd = self._lock_fd, -1
        if fd >= 0:
            os.close(fd)

    def sync(self) -> None:
        """Bring the names in it to disk."""
        self._disk.fsync(self._lock_fd)

    def sync_name(self) -> None:
        """Bring its own name to disk, where its parent may be opened."""
        self._sync_name(self.path)

    def claim(self, *, has_logs: bool) -> None:
        """Label it as the broker's. Raises LogError if it is another's."""
        if self._label is not None and self._label.claim(self.path, has_logs=has_logs):
            self.sync()

    def _make(self) -> None:
        """Make log.dir. Its own name is not on disk then, and must be before a log is made in it."""
        missing = [path for path in (self.path, *self.path.parents) if not path.exists()]
        if missing and self._label is not None:
            self._label.refuse_new(self.path)
        for path in reversed(missing):
            self._sync_name(path.parent)  # an earlier start may have made it and ended at once
            path.mkdir(exist_ok=True)

    def _sync_name(self, directory: Path) -> None:
        with suppress(PermissionError):  # what may not be opened cannot be brought to disk
            self._disk.fsync_directory(directory.parent)

    def _lock(self) -> None:
        try:
            self._lock_fd = lock_directory(self.path)
        except BlockingIOError as error:
            raise LogError(f"log.dir {self.path} is in use by another broker") from error

    def end_deletions(self) -> None:
        """Remove what a crash left of deleted topics."""
        doomed = [path for path in self.path.iterdir() if _is_deleted(path)]
        if doomed:
            # Or a power cut could give a log that the process was deleting its name back, without some of its files.
            self.sync()
            self.remove(doomed)

    def take_mark(self) -> bool:
        """Remove the mark of a clean stop durably, and say whether it was there."""
        try:
            (self.path / CLEAN_SHUTDOWN_MARK).unlink()
        except FileNotFoundError:
            return False
        self.sync()
        return True

    def logs(self) -> dict[Path, tuple[str, int]]:
        """Return the directories of logs, each with its topic and partition."""
        directories = {}
        for path in sorted(self.path.iterdir()):
            if path.name == CLEAN_SHUTDOWN_MARK or is_label(path.name) or is_partition_counts(path.name):
                continue
            if is_clock_file(path.name) or is_scrub_file(path.name) or is_deleted_partitions(path.name):
                continue
            if self._is_others(path.name):
                continue
            parsed = parse_log_directory_name(path.name)
            # The name must be the one we would give: "t-01" would be a second directory for "t-1".
            if parsed is None or path.name != log_directory_name(*parsed) or not is_directory(path):
                logger.warning("skipped %s: not a log directory", path)
            else:
                directories[path] = parsed
        return directories

    def logs_of(self, topic: str) -> list[tuple[Path, int]]:
        """Return the directories of a topic's logs, each with its partition."""
        return [(path, partition) for path, (name, partition) in self.logs().items() if name == topic]

    def rename_deleted(self, directories: Iterable[Path]) -> list[Path]:
        """Give logs another name, on disk, so that a crash leaves all of a log or nothing that is served."""
        renamed = [path.rename(self._deleted_path(path)) for path in directories]
        self.sync()
        return renamed

    def _deleted_path(self, path: Path) -> Path:
        """Return what a deleted log is called, which is no other one's name and not too long for a file."""
        name = path.name + DELETED_SUFFIX
        if len(name) <= MAX_DIRECTORY_NAME_BYTES:
            return path.with_name(name)
        names = (log_directory_name("deleted", number) + DELETED_SUFFIX for number in itertools.count())
        return next(path.with_name(name) for name in names if not path.with_name(name).exists())

    def remove(self, directories: Iterable[Path]) -> None:
        """Remove the directories of deleted logs, with all that is in them."""
        for directory in directories:
            for path in directory.iterdir():
                if is_directory(path) and not path.is_symlink():  # a stranger's
                    shutil.rmtree(path)
                else:
                    self._disk.unlink(path)  # it may be large
            directory.rmdir()

    def leave_mark(self) -> None:
        """Leave the mark of a clean stop. Raises LogError."""
        path = self.path / CLEAN_SHUTDOWN_MARK
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
            os.close(fd)
            self.sync()
        except OSError as error:
            raise LogError(os_error_text("cannot leave the mark of a clean stop", path, error)) from error


def _is_deleted(path: Path) -> bool:
    """Say whether a directory in log.dir is what a crash left of a deleted log."""
    name = path.name.removesuffix(DELETED_SUFFIX)
    return name != path.name and parse_log_directory_name(name) is not None and is_directory(path)
