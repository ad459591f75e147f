"""Creates, grows and deletes topics for clients, with the calls that operators have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gevent.lock import RLock
from gevent.threadpool import ThreadPool

from kafka2011.admin.exact_creation import PartitionCountError, TopicExistsError
from kafka2011.admin.topic_changes import TopicKeptError, check_deletion, delete_topic
from kafka2011.admin.topic_growth import grow_topic
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

        def work(client: ZkClient) -> None:
            self._catalogue.hidden.add(topic)
            try:
                create_topic(client, topic, partitions=partitions, dry_run=only_check)
            finally:
                self._catalogue.hidden.discard(topic)

        return self._do(work)

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
        """Delete a topic, and the offsets of groups in it; nothing if a broker would keep its part of it."""
        if topic not in self._catalogue.lists:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} does not exist"

        def work(client: ZkClient) -> None:
            check_deletion(client, topic)
            delete_topic(client, topic)

        return self._do(work)

    def grow(self, topic: str, partitions: int, *, only_check: bool = False) -> Outcome:
        """Give a topic more partitions: `partitions` in all. With `only_check`, only say what would prevent that."""
        known = self._catalogue.lists.get(topic)
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} does not exist"
        if partitions <= len(known.partitions):
            has = f"topic {topic} has {len(known.partitions)} partitions"
            return ErrorCode.INVALID_PARTITIONS, f"{has}: it can only have more, not {partitions}"

        def work(client: ZkClient) -> None:
            for change in grow_topic(client, topic, partitions, dry_run=only_check):
                if not change.is_done:
                    raise KafkaError(f"broker {change.broker_id}: {change.outcome}")

        return self._do(work)

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
            except TopicKeptError as error:
                return ErrorCode.TOPIC_DELETION_DISABLED, str(error)
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
