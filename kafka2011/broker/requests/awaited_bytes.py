"""AwaitedBytes: what a fetch at the end of its logs waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, KeysView

    from kafka2011.broker.requests.parking import PartitionKey
    from kafka2011.log.log import Log
    from kafka2011.log.log_manager import LogManager
    from kafka2011.wire.protocol import FetchRequest


class AwaitedBytes:
    """At least `wanted_bytes` of what the parts of a fetch ask for.

    What is known of a partition is looked at again only when more of its log can be read.
    """

    __slots__ = ("_found_bytes", "_logs", "_parts", "_wanted_bytes")

    def __init__(self, logs: LogManager, fetches: Iterable[FetchRequest], wanted_bytes: int) -> None:
        self._logs = logs
        self._parts = {(fetch.topic, fetch.partition): (fetch, 0) for fetch in fetches}  # with the bytes that are there
        self._found_bytes = 0
        self._wanted_bytes = wanted_bytes

    @property
    def partitions(self) -> KeysView[PartitionKey]:
        """Topics and partitions of its parts."""
        return self._parts.keys()

    def begin(self) -> bool:
        """Look at all logs, and have them tell of what comes; say whether it is there already."""
        is_there = False
        for topic, partition in self._parts:
            log = self._logs.existing(topic, partition)
            if log is not None:
                log.be_awaited()
                is_there |= self.is_there(log)
        return is_there

    def is_there(self, log: Log) -> bool:
        """Say whether enough is there, now that more of this log can be read, or an error to answer with."""
        key = log.topic, log.partition
        fetch, before_bytes = self._parts[key]
        if not log.start_offset <= fetch.offset <= log.end_offset:
            return True
        found_bytes = min(fetch.max_bytes, log.end_offset - fetch.offset)
        self._parts[key] = fetch, found_bytes
        self._found_bytes += found_bytes - before_bytes
        return self._found_bytes >= self._wanted_bytes


def missing_bytes(
    fetches: Iterable[FetchRequest], min_bytes: int, logs: LogManager, pause: Callable[[], None]
) -> AwaitedBytes | None:
    """Return what to wait for until `min_bytes` are there, or all that is asked for, if that is less.

    None when it is there now, when there is an error to answer with, and for who asks for a partition twice: no client
    does. `pause` is called between two looks at logs.
    """
    found_bytes = asked_bytes = parts = 0
    for fetch in fetches:
        pause()
        try:
            log = logs.get(fetch.topic, fetch.partition)
        except KafkaError:
            return None
        if log is not None:
            if fetch.max_bytes < 0 or not log.start_offset <= fetch.offset <= log.end_offset:
                return None
            found_bytes += min(fetch.max_bytes, log.end_offset - fetch.offset)
            if found_bytes >= min_bytes:
                return None
        asked_bytes += max(0, fetch.max_bytes)
        parts += 1
    if found_bytes >= asked_bytes:
        return None
    awaited = AwaitedBytes(logs, fetches, min(min_bytes, asked_bytes))
    return awaited if len(awaited.partitions) == parts else None
