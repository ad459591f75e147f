"""All logs of a broker, in one directory: `{log.dir}/{topic}-{partition}` (paper, section 3.1).

A clean shutdown leaves `.kafka_cleanshutdown` there; without it the last segment of every log is recovered at start.
A label says whose directory it is.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka2011.disk import SYSTEM_DISK
from kafka2011.errors import KafkaError, LogClosedError, LogError, WrongPartitionError
from kafka2011.log.deleted_partitions import DeletedPartitions
from kafka2011.log.flush_together import flush_together
from kafka2011.log.log import Log, LogFailedError, LogHooks, RecoverySettings
from kafka2011.log.log_directory import LogDirectory
from kafka2011.log.log_limit import TopicRoom
from kafka2011.log.log_settings import LogSettings
from kafka2011.log.log_times import LogTimes
from kafka2011.log.partition_counts import PartitionCounts
from kafka2011.log.recovery import Recovery, TotalProgress, recover_last_segment
from kafka2011.log.retention_clock import RetentionClock, boot_id
from kafka2011.log.scrub_record import ScrubRecord
from kafka2011.log.segment import os_error_text
from kafka2011.message.topic import (
    DEFAULT_MAX_TOPIC_NAME_LENGTH,
    InvalidTopicError,
    log_directory_name,
    validate_topic,
)
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from kafka2011.disk import Disk
    from kafka2011.log.label import Label
    from kafka2011.log.log_limit import LogLimit
    from kafka2011.log.retention import DeletedSegment
    from zk.clock import Clock

logger = logging.getLogger(__name__)

SYNCED_TOGETHER = 16
"""From so many logs on, all of the file system is brought to disk before they are recovered, and not each."""
_COUNTED = ("flushes", "deleted_segments", "waits_for_files")


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """Which topics may have logs, and how their logs are kept.

    `num_partitions`, or `partitions_by_topic` for the topics in it, says which partitions there are; `of` returns how a
    topic's logs are kept. `limit`, which may be None, says how many logs there may be before new topics are refused.
    """

    num_partitions: int = 1
    partitions_by_topic: Mapping[str, int] | None = None
    max_topic_name_length: int = DEFAULT_MAX_TOPIC_NAME_LENGTH
    of: Callable[[str], LogSettings] = lambda _topic: LogSettings()
    limit: LogLimit | None = None


class LogManager:
    """The logs in `log_dir`: opened or recovered together, made when a topic is first written to, closed together.

    `on_new_topic(topic, number of partitions)` is called when a topic gets its first log. `clock`, `disk` and `hooks`
    are as for Log, `label` and `is_others` as for LogDirectory. If `is_clock_compared`, `retention_clock` is told what
    ZooKeeper's clock says.
    """

    def __init__(
        self,
        log_dir: Path,
        settings: TopicSettings = TopicSettings(),
        *,
        clock: Clock = SYSTEM_CLOCK,
        disk: Disk = SYSTEM_DISK,
        hooks: LogHooks = LogHooks(),  # noqa: B008 - as above
        on_new_topic: Callable[[str, int], None] | None = None,
        label: Label | None = None,
        is_others: Callable[[str], bool] = lambda _name: False,
        is_clock_compared: bool = False,
    ) -> None:
        self.log_dir = log_dir
        self.recoveries: list[Recovery] = []
        self.clock_jumps = 0
        self.room = TopicRoom(settings.limit)
        self.times = LogTimes()
        self.retention_clock = RetentionClock(log_dir, clock, disk, is_compared=is_clock_compared, boot=boot_id())
        self.scrubbed = ScrubRecord()
        self._directory = LogDirectory(log_dir, disk, label, is_others)
        self.counts = PartitionCounts(log_dir, settings.num_partitions, settings.partitions_by_topic, disk)
        self._deleted = DeletedPartitions(log_dir, disk, clock)
        self._settings = settings
        self._clock = clock
        self._disk = disk
        self._hooks = hooks
        self._on_new_topic = on_new_topic
        self._logs: dict[tuple[str, int], Log] = {}
        self._topics: set[str] = set()
        self._of_deleted: Counter[str] = Counter()  # what logs had counted that are no longer there
        self._creation_lock = disk.make_lock()  # taken before any lock of a log, and held while one is made
        self._is_open = False
        self._is_tainted = False  # an I/O error happened: only recovery finds out what is on disk

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
            self._directory.open()
        except OSError as error:
            raise LogError(os_error_text("cannot use log.dir", self.log_dir, error)) from error
        try:
            self._open_logs(progress)
        except BaseException:
            self._abandon()
            raise
        self._is_tainted = False
        self._is_open = True

    def _open_logs(self, progress: Callable[[int, int], None] | None) -> None:
        try:
            self._deleted.load()
            self.retention_clock.open()
            self._directory.end_deletions()
            directories = self._directory.logs()
            self.counts.load(directories.values())
            self._directory.claim(has_logs=bool(directories))
            recover = not self._directory.take_mark()
            if recover:
                self._directory.sync()  # names that were made just before the process ended
                if not directories:
                    self._directory.sync_name()
            is_synced = recover and len(directories) >= SYNCED_TOGETHER and self._disk.sync_file_system()
        except OSError as error:
            raise LogError(os_error_text("cannot use log.dir", self.log_dir, error)) from error
        report = None
        if recover and directories:
            logger.info("the last stop was not clean: recovering %d logs in %s", len(directories), self.log_dir)
            report = TotalProgress(directories, progress).add if progress else None
        recovering = RecoverySettings(is_synced, report) if recover else None
        for directory, (topic, partition) in directories.items():
            if (refusal := self._refusal(topic, partition)) is None:
                log = self._open_log(directory, topic, partition, recovering)
                self._logs[topic, partition] = log
                self._topics.add(topic)
                recovery = log.recovery
            else:
                logger.warning("%s is not served: %s", directory, refusal)
                # Recovered all the same: settings may serve it again after a clean stop, which recovers nothing.
                checked = (directory, self._disk, report)
                recovery = recover_last_segment(*checked, is_synced=is_synced) if recover else None
            if recovery is not None:
                self.recoveries.append(recovery)

    def _open_log(self, directory: Path, topic: str, partition: int, recovering: RecoverySettings | None = None) -> Log:
        return Log(
            directory,
            topic,
            partition,
            self._settings.of(topic),
            clock=self._clock,
            disk=self._disk,
            hooks=self._hooks,
            times=self.times,
            recovering=recovering,
        )

    def _abandon(self) -> None:
        """Close what an open() that failed had opened; there is nothing to flush yet."""
        for log in self._logs.values():
            log.close()
        self._forget()

    def _forget(self) -> None:
        self._logs = {}
        self._topics = set()
        self._directory.close()

    # Topics and partitions

    def num_partitions(self, topic: str) -> int:
        """Return how many partitions this broker has, or would have, for the topic."""
        return self.counts.of(topic)

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
        """Return a log, or None if nothing was written to it yet, or it was deleted lately.

        Raises InvalidTopicError, and WrongPartitionError if the topic cannot have this partition.
        """
        log = self._logs.get((topic, partition))
        if log is None and not self._deleted.has(topic, partition):
            self.check(topic, partition)
        return log

    def existing(self, topic: str, partition: int) -> Log | None:
        """Return a log, or None if there is none now, whatever the reason."""
        return self._logs.get((topic, partition))

    def get_or_create(self, topic: str, partition: int, *, is_copy: bool = False) -> Log:
        """Return a log, which is made if it is absent. Raises like `get`, and LogError if it cannot be made.

        Raises TooManyLogsError for a new topic that has no room; not for a copy of what another broker has already.
        """
        log = self._logs.get((topic, partition))
        if log is not None:
            return log
        self.check(topic, partition)
        with self._creation_lock:
            log = self._logs.get((topic, partition))
            if log is not None:
                return log
            self._check_open()
            if not is_copy and topic not in self._topics:
                self.room.check(topic, self.num_partitions(topic), self.topics())
            try:
                log = self._open_log(self.log_dir / log_directory_name(topic, partition), topic, partition)
            except LogError:
                self._is_tainted = True
                raise
            is_new_topic = topic not in self._topics
            self._topics.add(topic)
            self._logs[topic, partition] = log
        logger.info("created the log %s-%d", topic, partition)
        if is_new_topic and self._on_new_topic is not None:
            self._on_new_topic(topic, self.num_partitions(topic))
        return log

    def check(self, topic: str, partition: int) -> None:
        """Raise InvalidTopicError or WrongPartitionError unless the topic can have this partition now."""
        refusal = self._refusal(topic, partition)
        if refusal is not None:
            raise refusal

    def _refusal(self, topic: str, partition: int) -> KafkaError | None:
        """Return the error for a topic and partition that cannot be served, or None."""
        count = self.num_partitions(topic)
        try:
            # With its highest number, so that a name is valid for all of the topic's partitions or for none.
            validate_topic(topic, count - 1, self._settings.max_topic_name_length)
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
        validate_topic(topic, partitions - 1, self._settings.max_topic_name_length)
        with self._creation_lock:
            self._check_open()
            try:
                self.counts.grow(topic, partitions)
                for directory, number in self._directory.logs_of(topic):
                    if (topic, number) not in self._logs and number < self.num_partitions(topic):
                        # Recovered before, if need was: see _open_logs.
                        self._logs[topic, number] = self._open_log(directory, topic, number)
                        self._topics.add(topic)
            except OSError as error:
                self._is_tainted = True
                raise LogFailedError(os_error_text(f"cannot grow topic {topic} in", self.log_dir, error)) from error
        logger.info("topic %s has %d partitions now", topic, self.num_partitions(topic))

    def create_topic(self, topic: str, partitions: int) -> None:
        """Make a topic with exactly this number of partitions, each with an empty log. It may be repeated.

        Raises InvalidTopicError, TooManyLogsError, LogFailedError, and KafkaError for a topic that has other logs.
        """
        validate_topic(topic, partitions - 1, self._settings.max_topic_name_length)
        with self._creation_lock:
            self._check_open()
            if self.counts.exact.get(topic) != partitions and self._directory.logs_of(topic):
                raise KafkaError(f"log.dir {self.log_dir} has logs of topic {topic} already")
            self.room.check(topic, partitions, self.topics())
            self.counts.set_exact(topic, partitions)
        for partition in range(partitions):
            self.get_or_create(topic, partition, is_copy=True)

    def delete_topic(self, topic: str) -> None:
        """Delete all logs of a topic, and what it has grown; whoever writes to it next makes it anew, at offset 0.

        Pieces that readers hold stay good. For a minute, `get` returns None for each partition. Raises LogFailedError.
        """
        with self._creation_lock:
            self._check_open()
            try:
                directories = [directory for directory, _ in self._directory.logs_of(topic)]
                for key in [key for key in self._logs if key[0] == topic]:
                    log = self._logs.pop(key)
                    log.close()
                    self._of_deleted.update({name: getattr(log, name) for name in _COUNTED})
                self._topics.discard(topic)
                self._deleted.add(topic, self.num_partitions(topic))
                doomed = self._directory.rename_deleted(directories)
                self.counts.forget(topic)
            except (OSError, LogError) as error:
                self._is_tainted = True
                if isinstance(error, LogError):  # of a log that could not be closed
                    raise
                raise LogFailedError(os_error_text(f"cannot delete topic {topic} in", self.log_dir, error)) from error
        try:
            self._directory.remove(doomed)
        except OSError as error:
            self._is_tainted = True
            raise LogFailedError(os_error_text(f"cannot remove topic {topic} from", self.log_dir, error)) from error
        logger.warning("deleted topic %s: %d logs", topic, len(doomed))

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
        flush_together(logs, self._disk)

    def clean_up(self) -> list[DeletedSegment]:
        """Make one retention pass over all logs and return what was deleted. Raises LogFailedError.

        While the wall clock is in doubt, as `retention_clock` says, nothing is deleted because of its age.
        """
        is_clock_good = self.retention_clock.check() is None
        if not is_clock_good:
            self.clock_jumps += 1
        times = self.retention_clock.times
        return [item for log in self.logs() for item in log.delete_old_segments(by_age=is_clock_good, times=times)]

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
                    self._directory.leave_mark()
                else:
                    logger.error("no mark of a clean stop in %s: the next start will recover", self.log_dir)
            finally:
                self._forget()
        if failure is not None:
            raise failure

    def __enter__(self) -> LogManager:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
