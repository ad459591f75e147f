"""Creates, grows and deletes topics for clients, with the calls that operators have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gevent.lock import RLock
from gevent.threadpool import ThreadPool

from kafka2011.admin.exact_creation import MOST_PARTITIONS, PartitionCountError, TopicExistsError
from kafka2011.admin.topic_changes import delete_topic, grow_topic
from kafka2011.admin.topics import create_topic
from kafka2011.errors import KafkaError
from kafka2011.gateway.protocol.errors import ErrorCode
from zk.connecting import connect
from zk.errors import ZkError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from kafka2011.config import GatewayConfig
    from kafka2011.gateway.catalogue import Catalogue
    from zk.client import ZkClient

    Outcome: TypeAlias = tuple[ErrorCode, str]

LONGEST_NAME = 249
"""The most characters of a new topic's name, as in Kafka. Longer names leave too few for the number of a partition."""
DONE = (ErrorCode.NONE, "")


class TopicChanges:
    """Changes topics, one at a time, by the calls that operators have, which wait in a thread."""

    def __init__(self, config: GatewayConfig, catalogue: Catalogue) -> None:
        self._config = config
        self._catalogue = catalogue
        self._threads = ThreadPool(1)
        self._one = RLock()

    def create(self, topic: str, partitions: int | None, *, only_check: bool = False) -> Outcome:
        """Create a topic with `partitions` partitions in all; None: with one on each broker, or as brokers are set.

        With `only_check`, only say what would prevent that.
        """
        error, text = self._why_not_new(topic)
        if error:
            return error, text
        return self._do(lambda client: create_topic(client, topic, partitions=partitions, dry_run=only_check))

    def _why_not_new(self, topic: str) -> Outcome:
        if topic in self._catalogue.lists:
            return ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {topic} exists"
        if len(topic) > LONGEST_NAME:
            text = f"the name of a new topic may have {LONGEST_NAME} characters, not {len(topic)}"
            return ErrorCode.INVALID_TOPIC_EXCEPTION, text
        if not self._catalogue.brokers:
            return ErrorCode.LEADER_NOT_AVAILABLE, "no broker is registered"
        return DONE

    def delete(self, topic: str) -> Outcome:
        """Delete a topic, and the offsets of groups in it."""
        if topic not in self._catalogue.lists:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} does not exist"
        return self._do(lambda client: delete_topic(client, topic))

    def grow(self, topic: str, partitions: int, *, only_check: bool = False) -> Outcome:
        """Give a topic more partitions: `partitions` in all. With `only_check`, only say what would prevent that."""
        known = self._catalogue.lists.get(topic)
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} does not exist"
        brokers = sorted({where.broker_id for where in known.partitions})
        counts = shares(partitions, brokers)
        if partitions <= len(known.partitions) or counts is None or len(counts) < len(brokers):
            has = f"topic {topic} has {len(known.partitions)} partitions on {len(brokers)} brokers"
            return ErrorCode.INVALID_PARTITIONS, f"{has}: it can have any larger multiple of {len(brokers)}"
        if only_check:
            return DONE
        return self._do(lambda client: grow_topic(client, topic, partitions // len(brokers)))

    def stop(self) -> None:
        """Let nothing more begin."""
        self._threads.kill()

    def _do(self, work: Callable[[ZkClient], object]) -> Outcome:
        with self._one:
            try:
                try:
                    self._threads.apply(self._in_thread, (work,))
                finally:
                    self._catalogue.read()
            except ZkError as error:
                return ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)
            except TopicExistsError as error:
                return ErrorCode.TOPIC_ALREADY_EXISTS, str(error)
            except PartitionCountError as error:
                return ErrorCode.INVALID_PARTITIONS, str(error)
            except KafkaError as error:
                return ErrorCode.INVALID_REQUEST, str(error)
        return DONE

    def _in_thread(self, work: Callable[[ZkClient], object]) -> None:
        client = connect(self._config.zk_connect, self._config.zk_sessiontimeout_ms)
        try:
            work(client)
        finally:
            client.shutdown()


def shares(partitions: int, brokers: list[int]) -> dict[int, int] | None:
    """Return how many partitions each broker gets, which add up to `partitions`; None if brokers cannot do that.

    Every broker gets as many as the others: a topic grows on all of its brokers alike.
    """
    if not 0 < partitions <= MOST_PARTITIONS:
        return None
    if partitions < len(brokers):
        return dict.fromkeys(brokers[:partitions], 1)
    return None if partitions % len(brokers) else dict.fromkeys(brokers, partitions // len(brokers))
