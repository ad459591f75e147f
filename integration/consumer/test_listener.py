"""An application that is told when partitions come and go keeps what belongs to them, and may call the connector."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from integration.consumer.conftest import MEMBER_SETTINGS
from integration.consumer.reading import everything, produce
from kafka2011 import ConsumerConnector, RebalanceListener
from tests.support.waiting import eventually
from zk.cluster import TopicPartition
from zk.owners import OwnerRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafka2011.local_cluster import LocalCluster
    from zk.client import ZkClient

    OpenListening = Callable[..., ConsumerConnector]

WAIT_S = 30


@pytest.fixture
def open_listening(shared_cluster: LocalCluster, topic: str) -> Iterator[OpenListening]:
    """Open a member of the topic's group that has a listener."""
    with ExitStack() as stack:

        def make(listener: RebalanceListener, settings: dict[str, object] | None = None) -> ConsumerConnector:
            config = {
                "zk.connect": shared_cluster.zk_connect,
                "groupid": f"g-{topic}",
                **MEMBER_SETTINGS,
                **(settings or {}),
            }
            return stack.enter_context(ConsumerConnector(config, listener))

        yield make


class Keeper(RebalanceListener):
    """Reads a stream, and keeps what it read of each partition in a store when the partition goes."""

    def __init__(self, store: dict[TopicPartition, tuple[int, list[str]]]) -> None:
        self.store = store
        self.read: dict[TopicPartition, tuple[int, list[str]]] = {}
        self.connector: ConsumerConnector | None = None

    def begin(self, connector: ConsumerConnector, topic: str) -> None:
        self.connector = connector
        [stream] = connector.create_message_streams({topic: 1})[topic]

        def run() -> None:
            for message in stream:
                where = TopicPartition(message.topic, message.broker_id or 0, message.partition)
                _, payloads = self.read[where]
                self.read[where] = (message.next_offset, [*payloads, message.payload.decode()])

        threading.Thread(target=run, daemon=True).start()

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        assert self.connector is not None
        for where in partitions:
            self.read[where] = self.store.get(where, (0, []))
            self.connector.rewind(*where, offset=self.read[where][0])

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        for where in partitions:
            self.store[where] = self.read.pop(where)


def test_what_belongs_to_a_partition_moves_with_it(
    shared_cluster: LocalCluster, topic: str, open_listening: OpenListening
) -> None:
    """Saved by who had it before the next owner loads it; the store alone says where to go on."""
    broker = shared_cluster.brokers[0]
    produce(broker, topic, range(100))
    store: dict[TopicPartition, tuple[int, list[str]]] = {}
    first, second = Keeper(store), Keeper(store)
    off = {"autocommit.enable": False}
    a = open_listening(first, off)
    first.begin(a, topic)
    eventually(lambda: sum(len(payloads) for _, payloads in list(first.read.values())) > 100)
    b = open_listening(second, off)
    second.begin(b, topic)
    eventually(lambda: len(a.owned_partitions()) == len(b.owned_partitions()) == 2)
    produce(broker, topic, range(100, 200))
    eventually(
        lambda: sum(len(payloads) for each in (first, second) for _, payloads in list(each.read.values())) == 800
    )
    a.shutdown()
    b.shutdown()
    assert {payload for _, payloads in store.values() for payload in payloads} == everything(range(200))
    for _, payloads in store.values():
        numbers = [int(payload.partition(":")[2]) for payload in payloads]
        assert numbers == list(range(200)), "each once, in order"
    assert a.counts().get("listener_errors", 0) == b.counts().get("listener_errors", 0) == 0


def test_a_listener_is_called_under_no_lock(
    shared_cluster: LocalCluster, topic: str, open_listening: OpenListening
) -> None:
    """While it waits, other threads use the connector as ever; at the end too."""
    produce(shared_cluster.brokers[0], topic, range(5))
    calls: list[str] = []

    class Waiter(RebalanceListener):
        def _use(self, what: str, partitions: Sequence[TopicPartition]) -> None:
            def use() -> None:
                member.commit_offsets()
                member.commit_offsets(dict.fromkeys(partitions, 0))
                member.counts()
                assert set(member.owned_partitions()) == set(partitions)
                calls.append(what)

            thread = threading.Thread(target=use, daemon=True)
            thread.start()
            thread.join(WAIT_S)

        def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            self._use("assigned", partitions)

        def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            self._use("revoked", partitions)
            member.shutdown()  # by itself, and it is under way already

    member = open_listening(Waiter())
    member.create_message_streams({topic: 1})
    eventually(lambda: calls == ["assigned"])
    member.shutdown()
    assert calls == ["assigned", "revoked"]


def test_a_listener_may_shut_the_connector_down(
    shared_cluster: LocalCluster, topic: str, open_listening: OpenListening, zk_of: Callable[[LocalCluster], ZkClient]
) -> None:
    """It gets an answer at once; the rest follows when the rebalance is over, and leaves nothing behind."""
    produce(shared_cluster.brokers[0], topic, range(5))
    told: list[str] = []

    class Quitter(RebalanceListener):
        def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            told.append("assigned")
            member.shutdown()

        def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            told.append("revoked")

    member = open_listening(Quitter())
    [stream] = member.create_message_streams({topic: 1})[topic]
    for _ in stream:
        pass
    member.shutdown()
    assert told == ["assigned", "revoked"]
    assert OwnerRegistry(zk_of(shared_cluster)).owners(f"g-{topic}", topic) == {}
