"""Asks brokers where partitions begin and end, over connections that are kept while somebody looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.admin.partitions import ends_of_many
from kafka2011.admin.snapshot.cluster_snapshot import Ends
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.errors import KafkaError
from kafka2011.message.topic import InvalidTopicError, validate_topic
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka2011.admin.snapshot.cluster_snapshot import SeenBroker
    from zk.clock import Clock
    from zk.cluster import Broker, TopicPartition

ASK_TIMEOUT_MS = 2000
_AGAIN_S = 10.0
"""A broker that has not answered is left alone for so long."""


def asking(broker: Broker) -> SimpleConsumer:
    """Return a consumer that does not wait long."""
    return SimpleConsumer.of(broker, {"socket.timeout.ms": ASK_TIMEOUT_MS})


class LogEnds:
    """For one thread. `errors` says of each broker that does not answer why."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._consumers: dict[Broker, SimpleConsumer] = {}
        self._again_s: dict[Broker, float] = {}
        self.errors: dict[int, str] = {}

    def ask(self, brokers: Mapping[int, SeenBroker], wanted: Iterable[TopicPartition]) -> dict[TopicPartition, Ends]:
        """Return the ends of those partitions whose brokers answer.

        A topic whose name can be none, as in a znode that somebody else has made, is left out: a broker would end the
        connection, and all others on it would have no answer.
        """
        living = {each.broker for each in brokers.values()}
        for gone in self._consumers.keys() - living:
            self._consumers.pop(gone).close()
        self._again_s = {broker: at_s for broker, at_s in self._again_s.items() if broker in living}
        self.errors = {number: text for number, text in self.errors.items() if number in brokers}
        by_broker: dict[Broker, list[TopicPartition]] = {}
        for where in wanted:
            if where.broker_id in brokers and _is_name(where.topic):
                by_broker.setdefault(brokers[where.broker_id].broker, []).append(where)
        found: dict[TopicPartition, Ends] = {}
        for broker, its in by_broker.items():
            if self._clock.monotonic_s() < self._again_s.get(broker, 0.0):
                continue
            try:
                asked = ends_of_many(self._consumer(broker), [(where.topic, where.partition) for where in its])
                found.update(zip(its, (Ends(*each) for each in asked), strict=True))
            except KafkaError as error:
                self._consumers.pop(broker).close()
                self._again_s[broker] = self._clock.monotonic_s() + _AGAIN_S
                self.errors[broker.id] = str(error)
            else:
                self._again_s.pop(broker, None)
                self.errors.pop(broker.id, None)
        return found

    def close(self) -> None:
        """Close the connections; the next question opens them again."""
        while self._consumers:
            self._consumers.popitem()[1].close()

    def _consumer(self, broker: Broker) -> SimpleConsumer:
        if broker not in self._consumers:
            self._consumers[broker] = asking(broker)
        return self._consumers[broker]


def _is_name(topic: str) -> bool:
    try:
        validate_topic(topic)
    except InvalidTopicError:
        return False
    return True
