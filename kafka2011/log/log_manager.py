"""All logs of a broker, in one directory: `{log.dir}/{topic}-{partition}` (paper, section 3.1).

A clean shutdown leaves `.kafka_cleanshutdown` there; without it the last segment of every log is recovered at start.
A label says whose directory it is.
"""

from __future__ import annotations

import fcntl
import logging
import os
import random
import shutil
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from kafka2011.disk import SYSTEM_DISK, is_directory, open_directory
from kafka2011.errors import KafkaError, LogClosedError, LogError, WrongPartitionError
from kafka2011.log.label import is_label
from kafka2011.log.log import Log, LogFailedError
from kafka2011.log.log_settings import LogSettings
from kafka2011.log.log_times import LogTimes
from kafka2011.log.partition_counts import PartitionCounts, is_partition_counts
from kafka2011.log.recovery import Recovery, TotalProgress, recover_last_segment
from kafka2011.log.replicated_log import ReplicatedLog
from kafka2011.log.retention import MAX_CLOCK_JUMP_MS, ClockJumpGuard, DeletedSegment
from kafka2011.log.segment import os_error_text
from kafka2011.message.topic import (
    DEFAULT_MAX_TOPIC_NAME_LENGTH,
    InvalidTopicError,
    log_directory_name,
    parse_log_directory_name,
    validate_topic,
)
from zk.clock import SYSTEM_CLOCK
from zk.errors import raise_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from kafka2011.disk import Disk
    from kafka2011.log.label import Label
    from kafka2011.log.log import BegunFlush
    from zk.clock import Clock

logger = logging.getLogger(__name__)

CLEAN_SHUTDOWN_MARK = ".kafka_cleanshutdown"
SYNCED_TOGETHER = 16
"""From so many logs on, all of the file system is brought to disk before they are recovered, and not each."""
FLUSHED_TOGETHER = 1000
"""How many logs: each is held up by all of them."""
_COUNTED = ("flushes", "deleted_segments", "waits_for_files")
DELETED_SUFFIX = ".deleted"
"""What the directory of a deleted topic's log is called, until its files are gone."""


class LogManager:
    """The logs in `log_dir`: opened or recovered together, made when a topic is first written to, closed together.

    `num_partitions`, or `partitions_by_topic` for the topics in it, says which partitions there are; `settings_for`
    how a topic's logs are kept. `on_new_topic(topic, number of partitions)` is called when a topic gets its first
    log. `clock`, `disk`, `request_flush`, `on_readable` and `on_awaited` are as for Log. With a `label`, the directory
    must be its broker's. With `on_flushed` all logs are a ReplicatedLog each, and it is as for these. `is_others` says
    which other files in the directory are known.
    """

    def __init__(
        self,
        log_dir: Path,
        *,
        num_partitions: int = 1,
        partitions_by_topic: Mapping[str, int] | None = None,
        settings_for: Callable[[str], LogSettings] = lambda _topic: LogSettings(),
        max_topic_name_length: int = DEFAULT_MAX_TOPIC_NAME_LENGTH,
        clock: Clock = SYSTEM_CLOCK,
        disk: Disk = SYSTEM_DISK,
        request_flush: Callable[[Log], None] | None = None,
        on_readable: Callable[[Log], None] = lambda _: None,
        on_awaited: Callable[[Log], None] = lambda _: None,
        on_new_topic: Callable[[str, int], None] | None = None,
        label: Label | None = None,
        on_flushed: Callable[[ReplicatedLog], None] | None = None,
        is_others: Callable[[str], bool] = lambda _name: False,
    ) -> None:
        self.log_dir = log_dir
        self.recoveries: list[Recovery] = []
        self.clock_jumps = 0
        self.times = LogTimes()
        self._counts = PartitionCounts(log_dir, num_partitions, partitions_by_topic, disk)
        self._settings_for = settings_for
        self._max_topic_name_length = max_topic_name_length
        self._clock = clock
        self._disk = disk
        self._request_flush = request_flush
        self._on_readable = on_readable
        self._on_awaited = on_awaited
        self._on_new_topic = on_new_topic
        self._label = label
        self._make_log = Log if on_flushed is None else partial(ReplicatedLog, on_flushed=on_flushed)
        self._is_others = is_others
        self._logs: dict[tuple[str, int], Log] = {}
        self._topics: set[str] = set()
        self._of_deleted: Counter[str] = Counter()  # what logs had counted that are no longer there
        self._creation_lock = disk.make_lock()  # taken before any lock of a log, and held while one is made
        self._lock_fd = -1  # holds the flock of log_dir, from open() to close()
        self._is_open = False
        self._is_tainted = False  # an I/O error happened: only recovery finds out what is on disk
        self._clock_guard = ClockJumpGuard(self._clock)

    # Opening

    def open(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Open every log, and recover them first unless the last stop was clean.

        `progress(bytes done, bytes in all)` is called while recovering. Raises LogError naming the path, with
        nothing left open, when another broker has the directory or a log cannot be used.
        """
        if self._is_open:
            return
        self.recoveries = []
        try:
            self._make_log_dir()
            self._lock_directory()
            self._disk.watch(self.log_dir)
        except OSError as error:
            raise LogError(os_error_text("cannot use log.dir", self.log_dir, error)) from error
        try:
            self._open_logs(progress)
        except BaseException:
            self._abandon()
            raise
        self._clock_guard = ClockJumpGuard(self._clock)
        self._is_tainted = False
        self._is_open = True

    def _make_log_dir(self) -> None:
        """Make log.dir. Its own name is not on disk then, and must be before a log is made in it."""
        missing = [path for path in (self.log_dir, *self.log_dir.parents) if not path.exists()]
        if missing and self._label is not None:
            self._label.refuse_new(self.log_dir)
        for path in reversed(missing):
            self._sync_name(path.parent)  # an earlier start may have made it and ended at once
            path.mkdir(exist_ok=True)

    def _sync_name(self, directory: Path) -> None:
        with suppress(PermissionError):  # what may not be opened cannot be brought to disk
            self._disk.fsync_directory(directory.parent)

    def _lock_directory(self) -> None:
        fd = open_directory(self.log_dir)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(fd)
            raise LogError(f"log.dir {self.log_dir} is in use by another broker") from error
        except BaseException:
            os.close(fd)
            raise
        self._lock_fd = fd

    def _open_logs(self, progress: Callable[[int, int], None] | None) -> None:
        try:
            self._counts.load()
            self._end_deletions()
            found = self._find_log_directories()
            self._claim_log_dir(has_logs=bool(found))
            recover = not self._take_mark()
            if recover:
                self._disk.fsync(self._lock_fd)  # names that were made just before the process ended
                if not found:
                    self._sync_name(self.log_dir)
            is_synced = recover and len(found) >= SYNCED_TOGETHER and self._disk.sync_file_system()
        except OSError as error:
            raise LogError(os_error_text("cannot use log.dir", self.log_dir, error)) from error
        report = None
        if recover and found:
            logger.info("the last stop was not clean: recovering %d logs in %s", len(found), self.log_dir)
            report = TotalProgress(found, progress).add if progress else None
        for directory, (topic, partition) in found.items():
            refusal = self._refusal(topic, partition)
            if refusal is None:
                log = self._open_log(directory, topic, partition, recover=recover, is_synced=is_synced, progress=report)
                self._logs[topic, partition] = log
                self._topics.add(topic)
                recovery = log.recovery
            else:
                logger.warning("%s is not served: %s", directory, refusal)
                # Recovered all the same: settings may serve it again after a clean stop, which recovers nothing.
                recovery = None
                if recover:
                    recovery = recover_last_segment(directory, self._disk, report, is_synced=is_synced)
            if recovery is not None:
                self.recoveries.append(recovery)

    def _end_deletions(self) -> None:
        doomed = [path for path in self.log_dir.iterdir() if _is_deleted(path)]
        if doomed:
            # Or a power cut could give a log that the process was deleting its name back, without some of its files.
            self._disk.fsync(self._lock_fd)
            self._remove_deleted(doomed)

    def _claim_log_dir(self, *, has_logs: bool) -> None:
        if self._label is not None and self._label.claim(self.log_dir, has_logs=has_logs):
            self._disk.fsync(self._lock_fd)

    def _take_mark(self) -> bool:
        """Remove the mark of a clean stop durably, and say whether it was there."""
        try:
            (self.log_dir / CLEAN_SHUTDOWN_MARK).unlink()
        except FileNotFoundError:
            return False
        self._disk.fsync(self._lock_fd)
        return True

    def _find_log_directories(self) -> dict[Path, tuple[str, int]]:
        found = {}
        for path in sorted(self.log_dir.iterdir()):
            if path.name == CLEAN_SHUTDOWN_MARK or is_label(path.name) or is_partition_counts(path.name):
                continue
            if self._is_others(path.name):
                continue
            parsed = parse_log_directory_name(path.name)
            # The name must be the one we would give: "t-01" would be a second directory for "t-1".
            if parsed is None or path.name != log_directory_name(*parsed) or not is_directory(path):
                logger.warning("skipped %s: not a log directory", path)
            else:
                found[path] = parsed
        return found

    def _open_log(
        self,
        directory: Path,
        topic: str,
        partition: int,
        *,
        recover: bool = False,
        is_synced: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Log:
        return self._make_log(
            directory,
            topic,
            partition,
            self._settings_for(topic),
            clock=self._clock,
            disk=self._disk,
            request_flush=self._request_flush,
            on_readable=self._on_readable,
            on_awaited=self._on_awaited,
            times=self.times,
            recover=recover,
            is_synced=is_synced,
            progress=progress,
        )

    def _abandon(self) -> None:
        """Close what an open() that failed had opened; there is nothing to flush yet."""
        for log in self._logs.values():
            log.close()
        self._forget()

    def _forget(self) -> None:
        self._logs = {}
        self._topics = set()
        self._disk.unwatch()
        fd, self._lock_fd = self._lock_fd, -1
        if fd >= 0:
            os.close(fd)

    # Topics and partitions

    def num_partitions(self, topic: str) -> int:
        """Return how many partitions this broker has, or would have, for the topic."""
        return self._counts.of(topic)

    def choose_partition(self, topic: str) -> int:
        """Return a random partition of the topic."""
        return random.randrange(self.num_partitions(topic))  # noqa: S311 (spreads load, guards nothing)

    def topics(self) -> dict[str, int]:
        """Return the number of partitions of every topic that has a log."""
        return {topic: self.num_partitions(topic) for topic in sorted(self._topics)}

    def logs(self) -> list[Log]:
        """Return all logs there are now."""
        return list(self._logs.values())

    def get(self, topic: str, partition: int) -> Log | None:
        """Return a log, or None if nothing was written to it yet.

        Raises InvalidTopicError, and WrongPartitionError if the topic cannot have this partition.
        """
        log = self._logs.get((topic, partition))
        if log is None:
            self._check(topic, partition)
        return log

    def existing(self, topic: str, partition: int) -> Log | None:
        """Return a log, or None if there is none now, whatever the reason."""
        return self._logs.get((topic, partition))

    def get_or_create(self, topic: str, partition: int) -> Log:
        """Return a log, which is made if it is absent. Raises like `get`, and LogError if it cannot be made."""
        log = self._logs.get((topic, partition))
        if log is not None:
            return log
        self._check(topic, partition)
        with self._creation_lock:
            log = self._logs.get((topic, partition))
            if log is not None:
                return log
            self._check_open()
            try:
                log = self._open_log(self.log_dir / log_directory_name(topic, partition), topic, partition)
            except LogError:
                self._is_tainted = True
                raise
            is_new_topic = topic not in self._topics
            self._topics.add(topic)
            self._logs[topic, partition] = log
        logger.info("made the log %s-%d", topic, partition)
        if is_new_topic and self._on_new_topic is not None:
            self._on_new_topic(topic, self.num_partitions(topic))
        return log

    def _check(self, topic: str, partition: int) -> None:
        refusal = self._refusal(topic, partition)
        if refusal is not None:
            raise refusal

    def _refusal(self, topic: str, partition: int) -> KafkaError | None:
        """Return the error for a topic and partition that cannot be served, or None."""
        count = self.num_partitions(topic)
        try:
            # With its highest number, so that a name is valid for all of the topic's partitions or for none.
            validate_topic(topic, count - 1, self._max_topic_name_length)
        except InvalidTopicError as error:
            return error
        if not 0 <= partition < count:
            return WrongPartitionError(f"partition {partition} of {topic} is not among the {count} of this broker")
        return None

    # What an operator asks for

    def grow_topic(self, topic: str, partitions: int) -> None:
        """Have so many partitions of a topic from now on, and after restarts; logs of them that are there are opened.

        Fewer than there are change nothing. Raises InvalidTopicError, and LogFailedError after an I/O error.
        """
        validate_topic(topic, partitions - 1, self._max_topic_name_length)
        with self._creation_lock:
            self._check_open()
            try:
                self._counts.grow(topic, partitions)
                for directory, number in self._directories_of(topic):
                    if (topic, number) not in self._logs and number < self.num_partitions(topic):
                        # Recovered before, if need was: see _open_logs.
                        self._logs[topic, number] = self._open_log(directory, topic, number)
                        self._topics.add(topic)
            except OSError as error:
                self._is_tainted = True
                raise LogFailedError(os_error_text(f"cannot grow topic {topic} in", self.log_dir, error)) from error
        logger.info("topic %s has %d partitions now", topic, self.num_partitions(topic))

    def delete_topic(self, topic: str) -> None:
        """Delete all logs of a topic, and what it has grown; whoever writes to it next makes it anew, at offset 0.

        First the directories get another name, on disk, so that a crash leaves all of a log or nothing that is served.
        Pieces that readers hold stay good. Raises LogFailedError.
        """
        with self._creation_lock:
            self._check_open()
            try:
                directories = [directory for directory, _ in self._directories_of(topic)]
                for key in [key for key in self._logs if key[0] == topic]:
                    log = self._logs.pop(key)
                    log.close()
                    self._of_deleted.update({name: getattr(log, name) for name in _COUNTED})
                self._topics.discard(topic)
                doomed = [path.rename(path.with_name(path.name + DELETED_SUFFIX)) for path in directories]
                self._disk.fsync(self._lock_fd)
                self._counts.forget(topic)
            except (OSError, LogError) as error:
                self._is_tainted = True
                if isinstance(error, LogError):  # of a log that could not be closed
                    raise
                raise LogFailedError(os_error_text(f"cannot delete topic {topic} in", self.log_dir, error)) from error
        try:
            self._remove_deleted(doomed)
        except OSError as error:
            self._is_tainted = True
            raise LogFailedError(os_error_text(f"cannot remove topic {topic} from", self.log_dir, error)) from error
        logger.warning("deleted topic %s: %d logs", topic, len(doomed))

    def _directories_of(self, topic: str) -> list[tuple[Path, int]]:
        return [(path, number) for path, (name, number) in self._find_log_directories().items() if name == topic]

    def _remove_deleted(self, directories: Iterable[Path]) -> None:
        for directory in directories:
            for path in directory.iterdir():
                if is_directory(path) and not path.is_symlink():  # a stranger's
                    shutil.rmtree(path)
                else:
                    self._disk.unlink(path)  # it may be large
            directory.rmdir()

    def _check_open(self) -> None:
        if not self._is_open:
            raise LogClosedError(f"log.dir {self.log_dir} is not open")

    # Upkeep

    @property
    def flushes(self) -> int:
        """How often a log was brought to disk."""
        return self._of_deleted["flushes"] + sum(log.flushes for log in self.logs())

    @property
    def deleted_segments(self) -> int:
        """How many segments retention has deleted since the start."""
        return self._of_deleted["deleted_segments"] + sum(log.deleted_segments for log in self.logs())

    @property
    def waits_for_files(self) -> int:
        """How often rolling or deleting had to wait because the process could open no more files."""
        return self._of_deleted["waits_for_files"] + sum(log.waits_for_files for log in self.logs())

    def flush_due(self) -> None:
        """Flush the logs whose flush_interval_ms has passed. Raises LogFailedError."""
        now_s = self._clock.monotonic_s()
        self.flush([log for log in self.logs() if log.is_flush_due(now_s)])

    def flush(self, logs: Sequence[Log]) -> None:
        """Flush logs, many of them by few calls, and all of them even if one fails. Raises the first LogFailedError."""
        parts = range(0, len(logs), FLUSHED_TOGETHER)
        raise_first([failure for at in parts for failure in self._flush_together(logs[at : at + FLUSHED_TOGETHER])])

    def _flush_together(self, logs: Sequence[Log]) -> list[LogError | None]:
        begun: list[BegunFlush] = []
        left: list[Log] = []
        failures: list[LogError | None] = []
        try:
            for log in logs:
                try:
                    flush = log.begin_flush()
                except LogFailedError as failure:
                    failures.append(failure)
                    continue
                if flush is not None:
                    begun.append(flush)
                elif log.is_flush_requested:
                    left.append(log)
            self._disk.fsync_all(begun)
        except BaseException as error:
            for flush in begun:
                flush.end(error)
            raise
        failures += [flush.failure for flush in begun]
        for log in left:
            try:
                log.flush()
            except LogFailedError as failure:
                failures.append(failure)
        return failures

    def clean_up(self) -> list[DeletedSegment]:
        """Make one retention pass over all logs and return what was deleted. Raises LogFailedError.

        After the wall clock has jumped by more than an hour, nothing is deleted because of its age until the clock is
        back or the logs are opened again.
        """
        jump_ms = self._clock_guard.jump_ms()
        is_clock_good = abs(jump_ms) <= MAX_CLOCK_JUMP_MS
        if not is_clock_good:
            self.clock_jumps += 1
            logger.warning(
                "the wall clock has jumped by %.0f s: retention deletes nothing because of its age until the clock is"
                " back, or the broker is restarted",
                jump_ms / 1000,
            )
        return [deleted for log in self.logs() for deleted in log.delete_old_segments(by_age=is_clock_good)]

    # Ending

    def close(self) -> None:
        """Flush and close all logs, then leave the mark of a clean stop, if no I/O error ever happened.

        May be called twice. Closes everything even if a log fails, then raises that LogFailedError.
        """
        with self._creation_lock:
            if not self._is_open:
                return
            self._is_open = False
            failure: LogError | None = None
            try:
                self.flush([log for log in self.logs() if log.failure is None])
            except LogError as error:
                failure = error
            for log in self.logs():
                try:
                    log.close()
                except LogError as error:
                    logger.exception("log %s-%d did not close", log.topic, log.partition)
                    failure = failure or error
                self._is_tainted |= log.failure is not None
            try:
                if not self._is_tainted:
                    self._leave_mark()
                else:
                    logger.error("no mark of a clean stop in %s: the next start will recover", self.log_dir)
            finally:
                self._forget()
        if failure is not None:
            raise failure

    def _leave_mark(self) -> None:
        path = self.log_dir / CLEAN_SHUTDOWN_MARK
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
            os.close(fd)
            self._disk.fsync(self._lock_fd)
        except OSError as error:
            raise LogError(os_error_text("cannot leave the mark of a clean stop", path, error)) from error

    def __enter__(self) -> LogManager:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _is_deleted(path: Path) -> bool:
    """Say whether a directory in log.dir is what a crash left of a deleted log."""
    name = path.name.removesuffix(DELETED_SUFFIX)
    return name != path.name and parse_log_directory_name(name) is not None and is_directory(path)
