"""EndWatch: notices when there is more at the ends of logs, by a request that waits at each broker.

Runs on the driver only, in a thread and with a connection for each broker: what else is asked does not wait behind it.
A broker that flushes for readers that wait does so for a stream, too.
"""

from __future__ import annotations

import enum
import time
from functools import partial
from typing import TYPE_CHECKING

from kafka2011.consumer.threads import in_thread
from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future

    from kafka2011.consumer.simple_consumer import SimpleConsumer
    from kafka2011.spark.offset_ranges import Offsets
    from zk.cluster import Broker, TopicPartition

WAIT_MS = 30_000


class _Answer(enum.Enum):
    MORE = "there is more"
    NOTHING = "nothing came, or the broker is away"
    AT_ONCE = "nothing, and the broker has not waited: one of 0.7"


class EndWatch:
    """The ends that brokers were told, each by one request at a time. Not thread-safe, but for its own threads."""

    def __init__(self, connect: Callable[[Broker], SimpleConsumer]) -> None:
        self._connect = connect
        self._consumers: dict[Broker, SimpleConsumer] = {}
        self._asked: dict[Broker, tuple[Offsets, Future[_Answer]]] = {}
        self._of_07: set[Broker] = set()

    def watch(self, ends: Offsets, brokers: Mapping[int, Broker]) -> None:
        """Have brokers wait for more than this, unless they wait already."""
        by_broker: dict[Broker, Offsets] = {}
        for partition, end in ends.items():
            broker = brokers.get(partition.broker_id)
            if broker is not None and broker not in self._of_07:
                by_broker.setdefault(broker, {})[partition] = end
        for broker in self._consumers.keys() - by_broker.keys():
            self._leave(broker)
        for broker, its in by_broker.items():
            if broker not in self._asked:
                consumer = self._consumers.get(broker)
                if consumer is None:
                    consumer = self._consumers[broker] = self._connect(broker)
                fetches = [(partition.topic, partition.partition, end, 1) for partition, end in its.items()]
                self._asked[broker] = its, in_thread(partial(_ask, consumer, fetches))

    def has_news(self) -> bool:
        """Say whether a broker has more; it waits no longer then."""
        done = {broker: asked for broker, (_, asked) in self._asked.items() if asked.done()}
        for broker in done:
            del self._asked[broker]
        answers = {broker: asked.result() for broker, asked in done.items()}
        self._of_07 |= {broker for broker, answer in answers.items() if answer is _Answer.AT_ONCE}
        return _Answer.MORE in answers.values()

    def covers(self, partitions: Iterable[TopicPartition]) -> bool:
        """Say whether brokers wait for more of all these, so that nobody has to look."""
        watched = {partition for its, asked in self._asked.values() if not asked.done() for partition in its}
        return watched.issuperset(partitions)

    def close(self) -> None:
        """End all waits; may be called twice."""
        for broker in list(self._consumers):
            self._leave(broker)

    def _leave(self, broker: Broker) -> None:
        consumer = self._consumers.pop(broker)
        self._asked.pop(broker, None)
        consumer.interrupt()
        in_thread(consumer.close)  # it waits for a question that hangs


def _ask(consumer: SimpleConsumer, fetches: list[tuple[str, int, int, int]]) -> _Answer:
    began_s = time.monotonic()
    try:
        fetched = consumer.multifetch(fetches, wait_ms=WAIT_MS)
    except KafkaError:  # whoever looks next finds out
        return _Answer.NOTHING
    if any(part.data for part in fetched):
        return _Answer.MORE
    has_waited = time.monotonic() - began_s >= WAIT_MS / 2000
    return _Answer.NOTHING if has_waited or any(part.error for part in fetched) else _Answer.AT_ONCE
