"""One member of a group, in a process of its own: `python -m integration.gateway.group_member KIND FILE JSON`.

    confluent      confluent-kafka, which gives up everything before it joins again
    confluent-keeps, -static
                   the same, which gives up only what it must; or with a group.instance.id
    kafka-python, aiokafka
                   clients in Python
    ours           this project's connector
    of-07          a member that does what Kafka 0.7.2 does: four tries, 2 s apart, and commits without conditions

A line of the file begins with a time of the machine's clock: `TIME has PARTITION` once the member was given it,
`TIME got PARTITION VALUE` for each message, before another is asked for, and `TIME done PARTITION VALUE` once the
group's offset has been committed behind it. SIGTERM leaves the group in order, SIGUSR1 has the member do nothing for a
while.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import logging
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kafka2011 import ConsumerConnector, RebalanceListener, SimpleConsumer
from kafka2011.consumer.rebalance import assign
from kafka2011.errors import KafkaError
from zk import paths
from zk.brokers import BrokerRegistry
from zk.cluster import TopicPartition
from zk.connecting import connect
from zk.consumers import ConsumerRegistry
from zk.errors import NodeExists, ZkError
from zk.nodes import Nodes
from zk.offsets import OffsetRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

logger = logging.getLogger("member")

COMMIT_S = 0.5
NAP_S = 60.0
IN_PYTHON: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
    "session_timeout_ms": 6000,
    "heartbeat_interval_ms": 500,
    "max_poll_interval_ms": 30_000,
    "metadata_max_age_ms": 2000,
}
"""What both clients in Python are told."""
_TRIES, _BETWEEN_TRIES_S = 4, 2.0


class Notes:
    """The member's file, and what it was told to do."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.stopped = threading.Event()
        self._naps = False
        self._last: dict[str, bytes] = {}
        self._committed_s = time.monotonic()
        signal.signal(signal.SIGTERM, lambda *_: self.stopped.set())
        signal.signal(signal.SIGUSR1, self._note_nap)
        faulthandler.register(signal.SIGUSR2)  # where it stands, if it does not end

    def _note_nap(self, *_: object) -> None:
        self._naps = True

    def _note(self, what: str, partition: object, value: bytes = b"-", at_s: float | None = None) -> None:
        at_s = time.monotonic() if at_s is None else at_s
        os.write(self._fd, f"{at_s:.6f} {what} {partition} ".encode() + value + b"\n")

    def has(self, partitions: Iterable[object], at_s: float | None = None) -> None:
        """Note partitions that were given to the member, and when it asked how far the group had come."""
        for partition in partitions:
            self._note("has", partition, at_s=at_s)

    def got(self, partition: str, value: bytes) -> None:
        """Note a message."""
        self._note("got", partition, value)
        self._last[partition] = value

    def forget(self, partitions: Iterable[object]) -> None:
        """Commit nothing more of partitions that were given up."""
        for partition in partitions:
            self._last.pop(str(partition), None)

    @property
    def is_due(self) -> bool:
        """Whether it is time to commit."""
        return time.monotonic() >= self._committed_s + COMMIT_S

    def commit(self, commit: Callable[[], object]) -> None:
        """Commit what was noted, and note that."""
        done, self._committed_s = dict(self._last), time.monotonic()
        try:
            commit()
        except Exception as error:  # noqa: BLE001 - each client has errors of its own; then it was not committed
            logger.info("not committed: %r", error)
            return
        for partition, value in done.items():
            self._note("done", partition, value)

    def nap(self) -> None:
        """Do nothing for a while, if it was told so."""
        if self._naps:
            self._naps = False
            self.stopped.wait(NAP_S)


def confluent(notes: Notes, given: dict[str, Any], more: dict[str, object]) -> None:
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": given["servers"],
            "group.id": given["group"],
            "client.id": given["name"],
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            "max.poll.interval.ms": 30_000,
            "topic.metadata.refresh.interval.ms": 2000,
            "log_level": 0,
            **more,
        }
    )

    def give_up(_consumer: object, partitions: list[Any]) -> None:
        notes.commit(lambda: consumer.commit(asynchronous=False))
        notes.forget(each.partition for each in partitions)

    def lose(_consumer: object, partitions: list[Any]) -> None:
        notes.forget(each.partition for each in partitions)

    def begin(_consumer: object, partitions: list[Any]) -> None:
        notes.has(each.partition for each in partitions)

    consumer.subscribe([given["topic"]], on_assign=begin, on_revoke=give_up, on_lost=lose)
    while not notes.stopped.is_set():
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            notes.got(str(message.partition()), message.value())
        if notes.is_due:
            notes.commit(lambda: consumer.commit(asynchronous=False))
        notes.nap()
    consumer.close()


def kafka_python(notes: Notes, given: dict[str, Any]) -> None:
    import kafka

    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_revoked(self, revoked: Any) -> None:
            notes.commit(consumer.commit)
            notes.forget(each.partition for each in revoked)

        def on_partitions_assigned(self, assigned: Any) -> None:
            notes.has(each.partition for each in assigned)

    consumer = kafka.KafkaConsumer(
        bootstrap_servers=given["servers"].split(","),
        group_id=given["group"],
        client_id=given["name"],
        **IN_PYTHON,
    )
    consumer.subscribe([given["topic"]], listener=Listener())
    while not notes.stopped.is_set():
        for where, records in consumer.poll(100, max_records=20).items():
            for record in records:
                notes.got(str(where.partition), record.value)
        if notes.is_due:
            notes.commit(consumer.commit)
        notes.nap()
    notes.commit(consumer.commit)
    consumer.close(autocommit=False)


def aiokafka(notes: Notes, given: dict[str, Any]) -> None:
    asyncio.run(_consume(notes, given))


async def _consume(notes: Notes, given: dict[str, Any]) -> None:
    import aiokafka as client

    consumer = client.AIOKafkaConsumer(
        bootstrap_servers=given["servers"],
        group_id=given["group"],
        client_id=given["name"],
        **IN_PYTHON,
    )

    async def commit() -> None:
        try:
            await consumer.commit()
        except Exception as error:  # noqa: BLE001 - it was not committed then
            logger.info("not committed: %r", error)
        else:
            notes.commit(lambda: None)

    class Listener(client.ConsumerRebalanceListener):  # type: ignore[misc]
        async def on_partitions_revoked(self, revoked: Any) -> None:
            await commit()
            notes.forget(each.partition for each in revoked)

        async def on_partitions_assigned(self, assigned: Any) -> None:
            notes.has(each.partition for each in assigned)

    consumer.subscribe([given["topic"]], listener=Listener())
    await consumer.start()
    try:
        while not notes.stopped.is_set():
            for where, records in (await consumer.getmany(timeout_ms=100, max_records=20)).items():
                for record in records:
                    notes.got(str(where.partition), record.value)
            if notes.is_due:
                await commit()
        await commit()
    finally:
        await consumer.stop()


def ours(notes: Notes, given: dict[str, Any]) -> None:
    settings = {
        "zk.connect": given["zk_connect"],
        "groupid": given["group"],
        "consumerid": given["name"],
        "autooffset.reset": "smallest",
        "autocommit.enable": True,
        "autocommit.interval.ms": 1000,
    }

    class Listener(RebalanceListener):
        def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            notes.has(where.znode_name for where in partitions)

    with ConsumerConnector(settings, Listener()) as connector:
        [stream] = connector.create_message_streams({given["topic"]: 1})[given["topic"]]
        while not notes.stopped.is_set():
            message = stream.poll(0.1)
            if message is not None:
                notes.got(f"{message.broker_id}-{message.partition}", message.payload)
            notes.nap()


class MemberOf07:
    """A member that does what Kafka 0.7.2's consumer does, on the same registries and logs."""

    def __init__(self, notes: Notes, given: dict[str, Any]) -> None:
        self._notes = notes
        self._topic, self._group = given["topic"], given["group"]
        self._consumer_id = f"{given['group']}_{given['name']}"
        self._changed = threading.Event()
        self._changed.set()
        self._client = connect(given["zk_connect"], 6000, 6000)
        self._session_id: int | None = None
        self._owned: dict[TopicPartition, int] = {}
        self._fetchers: dict[int, SimpleConsumer] = {}

    def run(self) -> None:
        """Be a member until it is told to stop."""
        registry = BrokerRegistry(self._client)
        committed_s = 0.0
        while not self._notes.stopped.is_set():
            try:
                if self._client.session_id != self._session_id and self._client.session_id is not None:
                    self._owned.clear()
                    ConsumerRegistry(self._client).register(self._group, self._consumer_id, f'{{ "{self._topic}": 1 }}')
                    self._session_id = self._client.session_id
                    self._changed.set()
                if self._changed.is_set():
                    self._rebalance(registry)
                if time.monotonic() > committed_s + COMMIT_S:
                    self._commit()
                    committed_s = time.monotonic()
                self._fetch(registry)
            except (ZkError, KafkaError, OSError) as error:
                logger.info("%r", error)
                self._notes.stopped.wait(0.2)
        with suppress(ZkError):
            self._commit()
            self._release()
        self._client.shutdown()

    def _wake(self, _event: object) -> None:
        self._changed.set()

    def _rebalance(self, registry: BrokerRegistry) -> None:
        for number in range(_TRIES):
            if number:
                self._notes.stopped.wait(_BETWEEN_TRIES_S)
            self._changed.clear()
            self._commit()
            self._release()
            streams = []
            subscriptions = ConsumerRegistry(self._client)
            members = subscriptions.members(self._group, self._wake)
            for member, text in subscriptions.subscriptions_of(self._group, members).items():
                count = json.loads(text).get(self._topic, 0)
                streams += [f"{member}-{number}" for number in range(count)]
            partitions = TopicPartition.all_of(self._topic, registry.partitions_of(self._topic, self._wake))
            share = assign(partitions, streams).get(f"{self._consumer_id}-0", [])
            offsets, asked_s = OffsetRegistry(self._client), time.monotonic()  # as 0.7.2 does, before it owns them
            starts = {where: found.offset if (found := offsets.read(self._group, where)) else 0 for where in share}
            if all(self._claim(where) for where in share):
                self._owned = starts
                self._notes.has((where.znode_name for where in share), asked_s)
                return
            self._release(share)
        logger.warning("no rebalance after %d tries: it waits for the next change", _TRIES)

    def _claim(self, where: TopicPartition) -> bool:
        text = f"{self._consumer_id}-0".encode()
        path = paths.owner(self._group, where)
        try:
            Nodes(self._client).create_with_parents(path, text, ephemeral=True)
        except NodeExists:
            node = Nodes(self._client).get(path)
            return node is not None and node.data == text
        return True

    def _release(self, partitions: list[TopicPartition] | None = None) -> None:
        text = f"{self._consumer_id}-0".encode()
        nodes = Nodes(self._client)
        for where in list(self._owned) if partitions is None else partitions:
            node = nodes.get(paths.owner(self._group, where))
            if node is not None and node.data == text:
                nodes.delete(paths.owner(self._group, where))
        self._notes.forget(where.znode_name for where in self._owned)
        self._owned = {}

    def _commit(self) -> None:
        def write() -> None:
            for where, offset in list(self._owned.items()):
                OffsetRegistry(self._client).write(self._group, where, offset)

        self._notes.commit(write)

    def _fetch(self, registry: BrokerRegistry) -> None:
        read = 0
        for where, offset in list(self._owned.items()):
            fetcher = self._fetchers.get(where.broker_id)
            if fetcher is None:
                broker = registry.brokers().get(where.broker_id)
                if broker is None:  # it restarts
                    continue
                fetcher = self._fetchers[where.broker_id] = SimpleConsumer(broker.host, broker.port)
            try:
                messages = [*fetcher.fetch(where.topic, where.partition, offset, 65536)]
            except (KafkaError, OSError):
                self._fetchers.pop(where.broker_id).close()
                raise
            for message in messages:
                self._notes.got(f"{where.broker_id}-{where.partition}", message.payload)
            if messages:
                self._owned[where] = messages[-1].next_offset
            read += len(messages)
        if not read:
            self._notes.stopped.wait(0.05)


KINDS: dict[str, Callable[[Notes, dict[str, Any]], None]] = {
    "confluent": lambda notes, given: confluent(notes, given, {}),
    "confluent-keeps": lambda notes, given: confluent(
        notes, given, {"partition.assignment.strategy": "cooperative-sticky"}
    ),
    "confluent-static": lambda notes, given: confluent(notes, given, {"group.instance.id": given["name"]}),
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "ours": ours,
    "of-07": lambda notes, given: MemberOf07(notes, given).run(),
}
TODAY = [kind for kind in KINDS if kind not in {"ours", "of-07"}]


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s")
    KINDS[sys.argv[1]](Notes(sys.argv[2]), json.loads(sys.argv[3]))
