"""How many partitions a broker has of each topic: what its settings say, or more where a topic has grown since.

Growth is kept in log.dir, in the file `.kafka2011_partitions`, so that it outlives restarts and moves with the logs.
The file is replaced as a whole: a crash leaves the old one or the new one.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from kafka2011.disk import SYSTEM_DISK, is_replaced_file
from kafka2011.errors import LogError
from zk.cluster import MAX_INT32

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kafka2011.disk import Disk

logger = logging.getLogger(__name__)

FILE_NAME = ".kafka2011_partitions"


def is_partition_counts(name: str) -> bool:
    """Say whether a file in log.dir holds the numbers of topics that have grown, or was to."""
    return is_replaced_file(name, FILE_NAME)


class PartitionCounts:
    """The number of partitions of every topic. Methods that write let OSError through."""

    def __init__(
        self, log_dir: Path, default: int, by_topic: Mapping[str, int] | None = None, disk: Disk = SYSTEM_DISK
    ) -> None:
        self._log_dir = log_dir
        self._default = default
        self._by_topic = dict(by_topic or {})
        self._disk = disk
        self._grown: dict[str, int] = {}

    def of(self, topic: str) -> int:
        """Return how many partitions the topic has, or would have."""
        return max(self._by_topic.get(topic, self._default), self._grown.get(topic, 0))

    def load(self) -> None:
        """Read which topics have grown. Raises LogError for a file that says something else, and OSError."""
        path = self._log_dir / FILE_NAME
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            self._grown = {}
            return
        try:
            grown = json.loads(text)
        except (ValueError, RecursionError):
            grown = None
        if not isinstance(grown, dict) or not all(
            type(count) is int and 0 < count <= MAX_INT32 for count in grown.values()
        ):
            raise LogError(f"{path} does not hold topics with their numbers of partitions, like {{'views': 8}}")
        self._grown = grown
        for topic in grown:
            logger.info("topic %s has %d partitions, as %s says", topic, self.of(topic), path)

    def grow(self, topic: str, count: int) -> None:
        """Give a topic so many partitions, for good; fewer than it has change nothing."""
        if count > self.of(topic):
            self._write({**self._grown, topic: count})

    def forget(self, topic: str) -> None:
        """Let the settings alone decide about a topic again."""
        if topic in self._grown:
            self._write({name: count for name, count in self._grown.items() if name != topic})

    def _write(self, grown: dict[str, int]) -> None:
        with self._disk.replacing(self._log_dir / FILE_NAME) as file:
            self._disk.write_all(file.fileno(), json.dumps(grown, indent=2, sort_keys=True).encode() + b"\n")
        self._grown = grown
