"""The number of partitions of each topic on a broker: by its settings, by growth, or exactly as it was created.

Numbers are kept in log.dir, so that they outlive restarts and move with the logs. `.kafka2011_partitions` has topics
that may have more than the settings say, and `.kafka2011_exact_partitions` has topics that were created with an exact
number; they are in both files, so that a release which reads only the first one hides no log. Each file is replaced as
a whole: a crash leaves the old one or the new one.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from kafka2011.disk import SYSTEM_DISK, is_replaced_file
from kafka2011.errors import LogError
from kafka2011.log.log import LogFailedError
from kafka2011.log.segment import os_error_text
from zk.cluster import MAX_INT32

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from kafka2011.disk import Disk

logger = logging.getLogger(__name__)

FILE_NAME = ".kafka2011_partitions"
EXACT_FILE_NAME = ".kafka2011_exact_partitions"


def is_partition_counts(name: str) -> bool:
    """Say whether a file in log.dir holds numbers of partitions, or was to."""
    return is_replaced_file(name, FILE_NAME) or is_replaced_file(name, EXACT_FILE_NAME)


class PartitionCounts:
    """The number of partitions of every topic. `grow` and `forget` let OSError through."""

    def __init__(
        self, log_dir: Path, default: int, by_topic: Mapping[str, int] | None = None, disk: Disk = SYSTEM_DISK
    ) -> None:
        self._log_dir = log_dir
        self._default = default
        self._by_topic = dict(by_topic or {})
        self._disk = disk
        self._grown: dict[str, int] = {}
        self.exact: Mapping[str, int] = {}
        """The topics that were created with an exact number of partitions, with the number they have now."""

    def of(self, topic: str) -> int:
        """Return how many partitions the topic has, or would have."""
        exact = self.exact.get(topic)
        return max(self._by_topic.get(topic, self._default), self._grown.get(topic, 0)) if exact is None else exact

    def load(self, logs: Collection[tuple[str, int]]) -> None:
        """Read both files. Raises LogError for a file that says something else, and OSError.

        An older release changes nothing in the file of exact numbers. So a number that would hide a log is raised, and
        one of a topic without logs is forgotten.
        """
        self._grown, self.exact = self._read(FILE_NAME), self._read(EXACT_FILE_NAME)
        for topic in self._grown | self.exact:
            logger.info("topic %s has %d partitions, as a file in %s says", topic, self.of(topic), self._log_dir)
        for topic in self.exact.keys() - {topic for topic, _ in logs}:
            self.forget(topic)
        for topic, partition in logs:
            if self.exact.get(topic, partition + 1) <= partition:
                logger.warning("topic %s has a log for partition %d: an older release has made it", topic, partition)
                self.set_exact(topic, partition + 1)

    def _read(self, name: str) -> dict[str, int]:
        path = self._log_dir / name
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return {}
        try:
            counts = json.loads(text)
        except (ValueError, RecursionError):
            counts = None
        if not isinstance(counts, dict) or not all(
            type(count) is int and 0 < count <= MAX_INT32 for count in counts.values()
        ):
            raise LogError(f"{path} does not hold topics with their numbers of partitions, like {{'views': 8}}")
        return counts

    def set_exact(self, topic: str, count: int) -> None:
        """Give a topic exactly this number of partitions, whatever the settings say. Raises LogFailedError."""
        if self.exact.get(topic) == count:
            return
        try:
            if count > self._grown.get(topic, 0):
                self._write(FILE_NAME, self._grown | {topic: count})
            self._write(EXACT_FILE_NAME, {**self.exact, topic: count})
        except OSError as error:
            raise LogFailedError(
                os_error_text("cannot note a number of partitions in", self._log_dir, error)
            ) from error

    def grow(self, topic: str, count: int) -> None:
        """Give a topic this number of partitions, for good; a number below its present one changes nothing."""
        if count <= self.of(topic):
            return
        if topic in self.exact:
            self.set_exact(topic, count)
        else:
            self._write(FILE_NAME, self._grown | {topic: count})

    def forget(self, topic: str) -> None:
        """Let the settings alone decide about a topic again."""
        for name, counts in ((FILE_NAME, self._grown), (EXACT_FILE_NAME, self.exact)):
            if topic in counts:
                self._write(name, {other: count for other, count in counts.items() if other != topic})

    def _write(self, name: str, counts: dict[str, int]) -> None:
        with self._disk.replacing(self._log_dir / name) as file:
            self._disk.write_all(file.fileno(), json.dumps(counts, indent=2, sort_keys=True).encode() + b"\n")
        if name == FILE_NAME:
            self._grown = counts
        else:
            self.exact = counts
