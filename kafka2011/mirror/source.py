"""One cluster that is mirrored: a member of a group there, whose streams are forwarded and committed."""

from __future__ import annotations

import logging
import threading
from collections import deque
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from kafka2011.admin.groups import Groups
from kafka2011.config import ConsumerConfig
from kafka2011.consumer.connector import ConsumerConnector
from kafka2011.consumer.rebalance_listener import RebalanceListener
from kafka2011.errors import ConfigError, KafkaError
from kafka2011.outages import Outages
from kafka2011.producer.zk_partition_info import ZkBrokerPartitionInfo
from zk.brokers import BrokerRegistry
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafka2011.consumer.feed import StoredSet
    from kafka2011.consumer.stream import MessageStream
    from kafka2011.consumer.topic_filter import TopicFilter
    from kafka2011.mirror.forwarder import Forwarder
    from kafka2011.mirror.target import Target
    from zk.client import ZkClient
    from zk.cluster import TopicPartition

    Failed = Callable[[TopicPartition, Exception], object]
    MakeForwarder = Callable[[str, Callable[[str], Sequence[TopicPartition]], Failed], Forwarder]

logger = logging.getLogger(__name__)

CHOSEN = {"autocommit.enable": "false", "consumer.timeout.ms": -1, "shallowiterator.enable": "false"}
"""Settings of the consumer that are chosen here: the mirror commits by itself, and reads sets as they are."""
COMMIT_INTERVAL_MS = 2000
"""Between two commits, unless autocommit.interval.ms says otherwise: what comes in between may come twice."""
LAST_WAIT_S = 10.0
"""How long a mirror that stops waits for confirmations."""


def source_config(
    zk_connect: str, group: str, properties: Iterable[str] = (), environ: Mapping[str, str] | None = None
) -> ConsumerConfig:
    """Return the settings of a source's consumer; `properties` are `key=value` texts. Raises ConfigError.

    They override settings in `environ`, the environment's variables.

    autocommit.interval.ms is the time between two commits by the mirror itself.
    """
    chosen = (f"{key}={value}" for key, value in CHOSEN.items())
    return ConsumerConfig.from_sources(
        environ=environ,
        overrides=[*properties, f"zk.connect={zk_connect}", f"groupid={group}", *chosen],
        defaults={
            "autooffset.newpartitions": "smallest",
            "autocommit.interval.ms": COMMIT_INTERVAL_MS,
            "partition.assignment": "fair",
        },
        option="--consumer-property",
    )


def check_no_loop(source: ZkClient, source_connect: str, target: Target) -> None:
    """Raise ConfigError when a source is the target itself: it would copy its own copies."""
    addresses = {broker.address for broker in target.brokers().values()}
    shared = sorted(addresses & {broker.address for broker in BrokerRegistry(source).brokers().values()})
    if shared or source_connect == target.zk_connect:
        via = f", both have the broker at {shared[0]}" if shared else ""
        raise ConfigError(f"{source_connect} and {target.zk_connect} are the same cluster{via}: a mirror would loop")


class Source(RebalanceListener):
    """Forwards what a group may read of a cluster, with threads of its own, from `open` to `close`.

    `failed` is called with the error that ends it, `on_topic` with each topic before anything of it is forwarded. What
    concerns one partition halts only that one: see `halted`.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        topic_filter: TopicFilter,
        streams: int,
        target: Target,
        make_forwarder: MakeForwarder,
        failed: Callable[[Exception], object],
        on_topic: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.config = config
        self.zk_connect = config.zk_connect
        self._filter = topic_filter
        self._stream_count = streams
        self._target = target
        self._failed = failed
        self._on_topic = on_topic
        self._release_wait_s = config.rebalance_backoff_ms / 1000
        self._client: ZkClient | None = None
        self._info: ZkBrokerPartitionInfo | None = None
        self._connector: ConsumerConnector | None = None
        self._closing = threading.Event()
        self._committing = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._halted: dict[TopicPartition, str] = {}
        self._waiting: deque[Callable[[], None]] = deque()  # resume partitions whose topic the target could not make
        self.forwarder = make_forwarder(self.zk_connect, self._partitions, self._halt)

    def open(self) -> None:
        """Join the group and begin. Raises ZkError when ZooKeeper does not answer, ConfigError for a loop."""
        config = self.config
        with ExitStack() as undo:
            client = connect(config.zk_connect, config.zk_sessiontimeout_ms, config.zk_connectiontimeout_ms)
            info = ZkBrokerPartitionInfo(client)
            undo.callback(info.close)
            check_no_loop(client, config.zk_connect, self._target)
            self._info = info
            connector = ConsumerConnector(config, self, explicit_commits=True)
            undo.callback(connector.shutdown)
            self._connector = connector  # the rebalance begins at once, and tells of it
            streams = connector.create_message_streams_by_filter(self._filter, self._stream_count)
            self._client = client
            undo.pop_all()
        for stream in streams:
            self._start(f"mirror {stream.stream_id}", partial(self._forward, stream))
        self._start(f"mirror commits {connector.consumer_id}", self._commit_now_and_then)

    @property
    def is_open(self) -> bool:
        """Whether it has joined its group."""
        return self._client is not None

    @property
    def is_connected(self) -> bool:
        """Whether its consumer has a session in ZooKeeper now."""
        return self._connector is not None and self._connector.is_connected

    def lag_bytes(self) -> tuple[int, int]:
        """Return what the group has not committed, in bytes, and of how many partitions that is not known.

        Raises ZkError when ZooKeeper does not answer.
        """
        if self._client is None:
            return 0, 0
        lags = [partition.lag_bytes for partition in Groups(self._client).describe(self.config.groupid)]
        return sum(lag for lag in lags if lag is not None), lags.count(None)

    def counts(self) -> dict[str, int]:
        """Return what was forwarded, and what the consumer counts of rebalances and commits."""
        of_consumer = self._connector.counts() if self._connector is not None else {}
        return {**of_consumer, **self.forwarder.counts.as_dict()}

    def halted(self) -> dict[TopicPartition, str]:
        """Return the partitions of which nothing more is copied while this member has them, each with the error."""
        return dict(self._halted)

    def close(self) -> None:
        """Wait a while for confirmations, commit, and leave the group; may be called twice."""
        self._closing.set()
        self._release_wait_s = max(self._release_wait_s, LAST_WAIT_S)
        if self._connector is not None:
            self._connector.shutdown()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(LAST_WAIT_S)
        if self._info is not None:
            self._info.close()

    # What the rebalance tells ------------------------------------------------------------------------------------

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Wait a while for confirmations, and commit what there is of them: the next owner goes on there."""
        self.forwarder.await_confirmation(partitions, self._release_wait_s)
        try:
            self._commit(partitions)
        except KafkaError as error:
            logger.warning("%s: not committed before its partitions go: %s", self.zk_connect, error)
        self.on_lost(partitions)

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget what others may own by now."""
        self.forwarder.drop(partitions)
        if not self._closing.is_set():
            for where in partitions:
                self._halted.pop(where, None)

    # The threads -------------------------------------------------------------------------------------------------

    def _start(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _forward(self, stream: MessageStream) -> None:
        known: set[str] = set()
        try:
            for stored in stream.sets():
                self._forward_set(stored, known)
        except Exception as error:  # noqa: BLE001  # whoever runs the mirror must hear of any
            if not self._closing.is_set():
                self._failed(error)

    def _forward_set(self, stored: StoredSet, known: set[str]) -> None:
        """Forward a set, whose topic joins the `known` ones. A failure halts its partition, and no other."""
        topic = stored.where.topic
        if stored.where in self._halted:
            stored.put_back(stored.offset)
            return
        try:
            if topic not in known:
                self._on_topic(topic)
                known.add(topic)
            if self._target.has_made(topic):
                self.forwarder.forward(stored)
            elif (resume := stored.put_back(stored.offset)) is not None:
                self._waiting.append(resume)
        except Exception as error:
            if self._closing.is_set():
                return
            if not isinstance(error, KafkaError):
                logger.exception("%s: an unexpected error, of %s", self.zk_connect, stored.where)
            self.forwarder.halt(stored.where)
            self._halt(stored.where, error)
            stored.put_back(stored.offset)

    def _halt(self, where: TopicPartition, error: Exception) -> None:
        """Note that nothing more of a partition is copied, and why."""
        if where not in self._halted:
            self._halted[where] = str(error)
            logger.error(
                "%s: %s is not copied any further, others are; start the mirror again once this is mended: %s",
                self.zk_connect,
                where,
                error,
            )

    def _resume_waiting(self) -> None:
        """Try again with partitions whose topic the target could not make."""
        for _ in range(len(self._waiting)):
            self._waiting.popleft()()

    def _commit_now_and_then(self) -> None:
        outages = Outages(logger)
        while not self._closing.wait(self.config.autocommit_interval_ms / 1000):
            self._resume_waiting()
            try:
                self._commit()
                outages.over()
            except KafkaError as error:
                outages.failed("%s: offsets are not committed for now: %s", self.zk_connect, error)
            except Exception as error:  # noqa: BLE001
                self._failed(error)
                return

    def _commit(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Commit up to where all is confirmed, of some partitions or of all; one thread at a time."""
        assert self._connector is not None
        if not self._committing.acquire(timeout=self._release_wait_s):
            raise KafkaError("another commit is under way")
        try:
            due = self.forwarder.due(self._release_wait_s)
            wanted = due.keys() if partitions is None else due.keys() & set(partitions)
            offsets: dict[tuple[str, int, int], int] = {where: due[where] for where in wanted}
            if offsets:
                self._connector.commit_offsets(offsets)
                for where in wanted:
                    self.forwarder.window.committed(where, due[where])
        finally:
            self._committing.release()

    def _partitions(self, topic: str) -> Sequence[TopicPartition]:
        assert self._info is not None
        return self._info.partitions(topic)
