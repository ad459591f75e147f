"""The cluster that a mirror or a replay publishes into: one confirming producer, and topics made when they come."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from kafka2011.admin.topics import create_topic
from kafka2011.config import ProducerConfig
from kafka2011.errors import KafkaError
from kafka2011.message.topic import InvalidTopicError, validate_topic
from kafka2011.outages import Outages
from kafka2011.producer.producer import Producer
from kafka2011.producer.zk_partition_info import ZkBrokerPartitionInfo
from zk.brokers import BrokerRegistry
from zk.closing import Closing
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from concurrent.futures import Future

    from kafka2011.message.message_set import MessageSet
    from kafka2011.producer.batch import Receipt
    from zk.cluster import Broker, TopicPartition

logger = logging.getLogger(__name__)

CHOSEN = {
    "broker.list": "",
    "producer.type": "async",
    "confirm": "true",
    # A set for a broker that is away waits for it: were it to fail, those after it could arrive before it.
    "confirm.timeout.ms": 2**31 - 1,
    "queue.size": 2**31 - 1,  # the window bounds what is queued
    "queue.max.bytes": 2**31 - 1,
    "queue.enqueueTimeout.ms": -1,
}
"""Settings of the producer that are chosen here: what a mirror promises stands on them."""
_RETRY_S = 1.0


def target_config(
    zk_connect: str, properties: Iterable[str] = (), environ: Mapping[str, str] | None = None
) -> ProducerConfig:
    """Return the settings of the target's producer; `properties` are `key=value` texts. Raises ConfigError.

    They override settings in `environ`, the environment's variables.
    """
    overrides = [*properties, f"zk.connect={zk_connect}", *(f"{key}={value}" for key, value in CHOSEN.items())]
    return ProducerConfig.from_sources(environ=environ, overrides=overrides, option="--producer-property")


class Target(Closing):
    """Publishes stored sets into a cluster, unopened; a context manager. `config` is that of `target_config`.

    Raises ZkError when ZooKeeper does not answer at the start. Later it waits for brokers as long as it takes, except
    that `stop` ends every wait.
    """

    def __init__(self, config: ProducerConfig, *, stop: threading.Event) -> None:
        self.config = config
        self.zk_connect = config.zk_connect
        self._stop = stop
        client = connect(config.zk_connect, config.zk_sessiontimeout_ms, config.zk_connectiontimeout_ms)
        self._client = client
        self._info = ZkBrokerPartitionInfo(client)
        self._producer = Producer(config, info=self._info)
        self._known_topics: set[str] = set()
        self._making = threading.Lock()
        self._outages = Outages(logger)

    @property
    def max_payload_bytes(self) -> int:
        """A larger payload is not sent."""
        return self.config.max_message_size

    def brokers(self) -> dict[int, Broker]:
        """Return the live brokers by id."""
        return BrokerRegistry(self._client).brokers()

    def partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        """Return the partitions of a topic, which is made if no broker has it.

        Raises InvalidTopicError, and after `stop` what keeps it from being made.
        """
        if topic not in self._known_topics:
            validate_topic(topic)
            with self._making:
                self._make(topic)
        return self._info.partitions(topic)

    def has_made(self, topic: str) -> bool:
        """Try once to have a topic registered with all its partitions; return whether to go on with it.

        A name that no topic can have is no reason to wait.
        """
        if topic in self._known_topics:
            return True
        try:
            validate_topic(topic)
        except InvalidTopicError:
            return True
        with self._making:
            try:
                self._register(topic)
            except KafkaError as error:
                self._outages.failed("topic %s cannot be made at %s: %s", topic, self.zk_connect, error, of=topic)
                return False
            self._outages.over(topic)
        return True

    def send(self, topic: str, message_set: MessageSet, partition: TopicPartition | None) -> Future[Receipt]:
        """Queue a set for a partition, or for any; the future is done when the target has confirmed or refused it.

        Raises MessageSizeTooLargeError and InvalidTopicError for what no broker may get.
        """
        return self._producer.send(topic, message_set, partition=partition)

    def counts(self) -> dict[str, int]:
        """Return what the producer counts."""
        return self._producer.counts.as_dict()

    def close(self, timeout_s: float = 0.0) -> None:
        """Wait for what was sent, up to this long, and end; may be called twice."""
        self._producer.close(timeout_s)
        self._info.close()

    def _make(self, topic: str) -> None:
        """See that a topic is registered with all its partitions, before the first choice among them."""
        outages = Outages(logger)
        while topic not in self._known_topics:
            try:
                self._register(topic)
            except KafkaError as error:
                outages.failed("topic %s cannot be made at %s, trying again: %s", topic, self.zk_connect, error)
                if self._stop.wait(_RETRY_S):
                    raise

    def _register(self, topic: str) -> None:
        if not BrokerRegistry(self._client).partitions_of(topic):
            made = create_topic(self._client, topic)
            logger.info("created topic %s on %d brokers at %s", topic, len(made), self.zk_connect)
        self._known_topics.add(topic)
