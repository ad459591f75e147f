"""How many logs a broker may have: each keeps a file open, and the files of a process are limited."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping


class TooManyLogsError(KafkaError):
    """A new topic, or more partitions of one, are refused: their logs would take files that other things need."""


class LogLimit(NamedTuple):
    """At most `max_logs` logs; `why` says in errors where that comes from, and what to do about it."""

    max_logs: int
    why: str


class TopicRoom:
    """Refuses topics whose logs would be beyond a limit, None for no limit; `refused` counts how often."""

    def __init__(self, limit: LogLimit | None) -> None:
        self._limit = limit
        self.refused = 0

    def check(self, topic: str, partitions: int, there: Mapping[str, int]) -> None:
        """Raise TooManyLogsError if there is no room for that number of partitions of a topic.

        `there` has how many partitions the topics have that are there. All of them count, with logs or without yet, so
        that a topic which is there never lacks room.
        """
        if self._limit is None or partitions <= there.get(topic, 0):
            return
        planned = sum(there.values()) - there.get(topic, 0) + partitions
        if planned > self._limit.max_logs:
            self.refused += 1
            raise TooManyLogsError(
                f"topic {topic} cannot have {partitions} partitions here: with them this broker would have {planned},"
                f" and it may have {self._limit.max_logs}: {self._limit.why}"
            )
