"""Knows what clients were shown, and says when a replica breaks the promise: nothing readable changes or disappears."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.models.replica.logs import ModelLog
    from zk.cluster import TopicPartition


class BrokenPromiseError(AssertionError):
    """What clients have read, or were told is safe, is not so any more."""


class Referee:
    """What was readable: for each partition, messages by offset with the starts of their segments."""

    def __init__(self) -> None:
        self.line: dict[TopicPartition, dict[int, tuple[bytes, int]]] = defaultdict(dict)
        self.ends: dict[TopicPartition, int] = defaultdict(int)
        self.deleted: dict[TopicPartition, int] = defaultdict(int)
        self.loss_epoch = 0
        self.deletions: dict[str, int] = defaultdict(int)

    def deletes(self, topic: str, epoch: int) -> None:
        """Hear that a topic is deleted from an epoch on: what was readable of it binds nobody any more."""
        self.deletions[topic] = epoch
        for of_partition in (self.line, self.ends, self.deleted):
            for where in [where for where in of_partition if where.topic == topic]:
                del of_partition[where]

    def is_deleted(self, where: TopicPartition, log: ModelLog) -> bool:
        """Say whether a log is of a topic that was deleted since it was made."""
        return log.deletion < self.deletions[where.topic]

    def _there(self, logs: Mapping[TopicPartition, ModelLog]) -> dict[TopicPartition, ModelLog]:
        return {where: log for where, log in logs.items() if not self.is_deleted(where, log)}

    def look(self, where: TopicPartition, log: ModelLog, readable: int, who: str) -> None:
        """Compare what a replica lets, or would let, clients read, and note it."""
        if self.is_deleted(where, log):
            return
        line = self.line[where]
        for offset, found in log.messages().items():
            if offset < readable and line.setdefault(offset, found) != found:
                raise BrokenPromiseError(f"{where} at {offset}: {found} at {who}, and it was {line[offset]}")
        self.ends[where] = max(self.ends[where], readable)

    def begins(self, logs: Mapping[TopicPartition, ModelLog], loss_epoch: int, who: str) -> None:
        """Look at what a new leader has: all that was ever readable and was not deleted."""
        if loss_epoch > self.loss_epoch:
            self.loss_epoch = loss_epoch
            self._accept_loss(self._there(logs))
        self.compare(logs, who)

    def compare(self, logs: Mapping[TopicPartition, ModelLog], who: str) -> None:
        """Check that logs have everything that clients could ever read, except what was deleted."""
        logs = self._there(logs)
        for where, line in self.line.items():
            has = logs[where].messages() if where in logs else {}
            start = logs[where].start_offset if where in logs else 0
            if start > self.deleted[where]:
                raise BrokenPromiseError(f"{where} begins at {start} at {who}, deleted is up to {self.deleted[where]}")
            for offset, message in line.items():
                if offset >= start and has.get(offset) != message:
                    raise BrokenPromiseError(f"{where} at {offset}: {has.get(offset)} at {who}, and it was {message}")

    def _accept_loss(self, logs: Mapping[TopicPartition, ModelLog]) -> None:
        for where in set(self.line) | set(logs):
            has = logs[where].messages() if where in logs else {}
            start = logs[where].start_offset if where in logs else 0
            end = logs[where].appended_end_offset if where in logs else 0
            line = self.line[where]
            same = min((offset for offset in line if offset >= start and has.get(offset) != line[offset]), default=end)
            self.line[where] = {offset: line[offset] for offset in line if offset < same}
            self.ends[where] = min(self.ends[where], same)
            self.deleted[where] = max(self.deleted[where], start)

    def is_registered(self, readable: Mapping[TopicPartition, int], who: str) -> None:
        """Look at what a leader shows when clients are told of it: no end may go back."""
        for where, end in self.ends.items():
            if readable.get(where, 0) < end:
                raise BrokenPromiseError(f"{where} is readable to {readable.get(where, 0)} at {who}, and was to {end}")

    def is_confirmed(self, where: TopicPartition, offset: int, message: bytes) -> None:
        """Look at a message that its sender was told is safe."""
        found = self.line[where].get(offset)
        if (found is None or found[0] != message) and offset >= self.deleted[where]:
            raise BrokenPromiseError(f"{message!r} of {where} was confirmed at {offset}, where {found} is")

    def is_out_of_range(self, where: TopicPartition, who: str) -> None:
        """Hear that the readable end is out of range: a consumer there would start over."""
        raise BrokenPromiseError(f"{where} at {self.ends[where]} is out of range at {who}")
