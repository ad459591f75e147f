"""Partitions that were deleted lately. Consumers may still fetch them, and an error would end those of Kafka 0.7.2.

The broker answers with an empty set until consumers have noticed the deletion. The file `.kafka2011_deleted` in log.dir
keeps the partitions over a restart. It is replaced as a whole: a crash leaves the old one or the new one.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from kafka2011.disk import is_replaced_file
from kafka2011.log.segment import os_error_text

if TYPE_CHECKING:
    from pathlib import Path

    from kafka2011.disk import Disk
    from zk.clock import Clock

logger = logging.getLogger(__name__)

FILE_NAME = ".kafka2011_deleted"
REMEMBERED_S = 60.0
"""How long a deleted partition is answered with an empty set, in seconds. Members of groups notice within a few."""


def is_deleted_partitions(name: str) -> bool:
    """Say whether a file in log.dir names partitions that were deleted, or was to."""
    return is_replaced_file(name, FILE_NAME)


class DeletedPartitions:
    """Topics that were deleted less than a minute ago, each with its number of partitions."""

    def __init__(self, log_dir: Path, disk: Disk, clock: Clock) -> None:
        self._path = log_dir / FILE_NAME
        self._disk = disk
        self._clock = clock
        self._by_topic: dict[str, tuple[int, float]] = {}  # number of partitions, and until when on the steady clock

    def load(self) -> None:
        """Read the file; a damaged one is ignored with a warning, since it only spares consumers. Raises OSError."""
        self._by_topic = {}
        try:
            text = self._path.read_bytes()
        except FileNotFoundError:
            return
        try:
            for topic, (partitions, deleted_s) in json.loads(text).items():
                # A clock that was set back must not make it longer.
                left_s = min(float(deleted_s) + REMEMBERED_S - self._clock.wall_s(), REMEMBERED_S)
                if left_s > 0:
                    self._by_topic[topic] = int(partitions), self._clock.monotonic_s() + left_s
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            logger.warning("%s is damaged: consumers of topics deleted lately may get errors", self._path)

    def add(self, topic: str, partitions: int) -> None:
        """Remember that all partitions of a topic are deleted, also after a restart.

        If the disk is full, only this process remembers: deleting topics is what frees it.
        """
        if partitions == 1:  # each topic has a partition 0
            return
        now_s = self._clock.monotonic_s()
        kept = {name: each for name, each in self._by_topic.items() if each[1] > now_s}
        before, _ = kept.get(topic, (0, 0.0))
        self._by_topic = {**kept, topic: (max(partitions, before), now_s + REMEMBERED_S)}
        start_s = self._clock.wall_s() - now_s - REMEMBERED_S
        told = {name: (count, start_s + until_s) for name, (count, until_s) in self._by_topic.items()}
        try:
            with self._disk.replacing(self._path) as file:
                self._disk.write_all(file.fileno(), json.dumps(told, sort_keys=True).encode() + b"\n")
        except OSError as error:
            logger.warning("%s", os_error_text("cannot note deleted partitions in", self._path, error))

    def has(self, topic: str, partition: int) -> bool:
        """Say whether a partition was deleted lately."""
        partitions, until_s = self._by_topic.get(topic, (0, 0.0))
        return 0 <= partition < partitions and self._clock.monotonic_s() < until_s
