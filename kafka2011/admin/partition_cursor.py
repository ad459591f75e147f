"""Reading partitions as they are named, without a group: from an offset, a time or the last few messages on."""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka2011.admin.partitions import check_partition, ends_of, fault_of_offset, has_log, offset_before
from kafka2011.admin.shifting import shifted
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.errors import KafkaError
from kafka2011.wire.protocol import EARLIEST, LATEST
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import ExitStack

    from kafka2011.config import SimpleConsumerConfig
    from kafka2011.message.message_set import Message
    from zk.cluster import Broker

logger = logging.getLogger(__name__)

_IDLE_S = 0.2
_WAIT_S = 10.0
_WORDS = {"latest": LATEST, "earliest": EARLIEST}


@dataclass(slots=True)
class PartitionCursor:
    """A partition and where to go on in it."""

    consumer: SimpleConsumer
    topic: str
    partition: int
    offset: int = 0

    def fetch(self) -> Iterator[Message]:
        """Yield what one fetch gives, and go on after each."""
        for message in self.consumer.fetch(self.topic, self.partition, self.offset):
            yield message
            self.offset = message.next_offset

    def go_to(self, start: int | str) -> None:
        """Go to an offset, `earliest`, `latest`, or for `@` and ms the newest segment from before that time.

        Raises KafkaError for an offset at which no message starts.
        """
        if isinstance(start, str):
            time_ms = _WORDS[start] if start in _WORDS else int(start.removeprefix("@"))
            start = offset_before(self.consumer, self.topic, self.partition, time_ms)
        elif (fault := fault_of_offset(self.consumer, self.topic, self.partition, start)) is not None:
            raise KafkaError(fault)
        self.offset = start

    def take_last(self, count: int) -> list[Message]:
        """Return the last messages, and move past them."""
        _, end = ends_of(self.consumer, self.topic, self.partition)
        assert self.consumer.broker_id is not None
        where = TopicPartition(self.topic, self.consumer.broker_id, self.partition)
        self.offset = shifted(self.consumer, where, end, -count)
        last: deque[Message] = deque(maxlen=count)
        while self.offset < end:
            before = self.offset
            last.extend(message for message in self.fetch() if message.offset < end)
            if self.offset == before:
                break
        self.offset = end
        return list(last)


def open_cursors(
    stack: ExitStack, topic: str, partitions: Iterable[tuple[Broker, int]], config: SimpleConsumerConfig
) -> list[PartitionCursor]:
    """Return cursors at the beginning of partitions; one consumer for each broker, which the stack closes.

    Raises WrongPartitionError. Warns of a partition to which nobody has ever sent: its topic may be a slip of the pen.
    """
    consumers: dict[Broker, SimpleConsumer] = {}
    cursors = []
    for broker, partition in partitions:
        if broker not in consumers:
            consumers[broker] = stack.enter_context(SimpleConsumer.of(broker, config))
        consumer = consumers[broker]
        check_partition(consumer, topic, partition)
        cursors.append(PartitionCursor(consumer, topic, partition))
    if not any(has_log(cursor.consumer, topic, cursor.partition) for cursor in cursors):
        asked = ", ".join(broker.address for broker in consumers)
        logger.warning("topic %s has no messages yet on broker %s: is the name right?", topic, asked)
    return cursors


def to_the_end(cursors: Iterable[PartitionCursor]) -> Iterator[Message]:
    """Yield what partitions hold, one after the other."""
    for cursor in cursors:
        while True:
            before = cursor.offset
            yield from cursor.fetch()
            if cursor.offset == before:
                break


def following(
    cursors: list[PartitionCursor], on_idle: Callable[[], object], timeout_ms: int | None = None
) -> Iterator[Message]:
    """Yield what partitions hold and get, in turns; call `on_idle` when there is nothing now.

    Ends when there was nothing for `timeout_ms`.
    """
    idle_since_s = time.monotonic()
    while True:
        is_idle = True
        for cursor in cursors:
            for message in cursor.fetch():
                is_idle = False
                yield message
        if not is_idle:
            idle_since_s = time.monotonic()
            continue
        on_idle()
        left_s = _WAIT_S
        if timeout_ms is not None:
            left_s = timeout_ms / 1000 - (time.monotonic() - idle_since_s)
            if left_s <= 0:
                return
        _await_more(cursors, min(left_s, _WAIT_S))


def _await_more(cursors: list[PartitionCursor], longest_s: float) -> None:
    """Wait at the broker until there is more, or at several in turns; one of 0.7 does not, then here for a while."""
    by_consumer: dict[SimpleConsumer, list[PartitionCursor]] = {}
    for cursor in cursors:
        by_consumer.setdefault(cursor.consumer, []).append(cursor)
    turn_s = longest_s if len(by_consumer) == 1 else min(longest_s, _IDLE_S / len(by_consumer))
    for consumer, its in by_consumer.items():
        began_s = time.monotonic()
        fetches = [(cursor.topic, cursor.partition, cursor.offset, 1) for cursor in its]
        if any(fetched.data for fetched in consumer.multifetch(fetches, wait_ms=max(1, int(turn_s * 1000)))):
            return
        if time.monotonic() - began_s < turn_s / 2:
            time.sleep(min(turn_s, _IDLE_S))
