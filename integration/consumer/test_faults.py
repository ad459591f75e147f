"""Brokers and ZooKeeper go away and come back; consumers read on from where they were."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from integration.consumer.reading import Reader, check_order, everything, now_s, produce, repeats
from kafka2011.message.message_set import MessageSet
from kafka2011.producer.sync_producer import SyncProducer
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.consumer.connector import ConsumerConnector
    from kafka2011.local_cluster import LocalBroker, LocalCluster
    from zk.local_zookeeper import LocalZooKeeper

    OpenMember = Callable[..., ConsumerConnector]
    NewCluster = Callable[..., LocalCluster]

TOPIC = "views"


def read(member: ConsumerConnector, pause_s: float = 0.0) -> Reader:
    [stream] = member.create_message_streams({TOPIC: 1})[TOPIC]
    return Reader(stream, pause_s)


@pytest.mark.parametrize("moves", [False, True])
def test_a_broker_is_killed_and_comes_back(new_cluster: NewCluster, open_member: OpenMember, moves: bool) -> None:
    """Its partitions are read on from where they were left, at another port too; nothing comes twice."""
    cluster = new_cluster(2)
    broker = cluster.brokers[0]
    for each in cluster.brokers.values():
        produce(each, TOPIC, range(100))
    member = open_member(cluster, TOPIC)
    reader = read(member, 0.0005)
    eventually(lambda: len(reader.receipts) > 300)
    broker.kill()
    if moves:
        broker._properties["port"] = "0"
    before = broker.port if not moves else 0
    broker.start()
    assert (broker.port == before) is not moves
    produce(broker, TOPIC, range(100, 150))
    produce(cluster.brokers[1], TOPIC, range(100, 150))
    eventually(lambda: len(reader.receipts) >= 2 * 4 * 150)
    for broker_id in (0, 1):
        of_broker = [receipt for receipt in reader.receipts if receipt.partition[0] == broker_id]
        assert {receipt.payload for receipt in of_broker} == everything(range(150))
        assert repeats(of_broker) == []
        check_order(of_broker)
    assert len(member.owned_partitions()) == 8


def test_zookeeper_is_away_for_less_than_the_session(
    own_zookeeper: LocalZooKeeper, new_cluster: NewCluster, open_member: OpenMember
) -> None:
    """Everything goes on in the same session, and what was consumed meanwhile is committed afterwards."""
    cluster = new_cluster(zk_connect=own_zookeeper.connect_string, settings={"zk.sessiontimeout.ms": 20_000})
    produce(cluster.brokers[0], TOPIC, range(100))
    settings = {"zk.sessiontimeout.ms": 20_000}
    # At the end it may still be without a connection, and waits so long for one.
    member = open_member(cluster, TOPIC, settings | {"rebalance.backoff.ms": 20_000})
    reader = read(member, 0.001)
    eventually(lambda: len(reader.receipts) > 50)
    own_zookeeper.kill()
    eventually(lambda: len(reader.receipts) > 200)
    own_zookeeper.start()
    produce(cluster.brokers[0], TOPIC, range(100, 120))
    eventually(lambda: set(reader.payloads) == everything(range(120)))
    assert repeats(reader.receipts) == []
    member.shutdown()
    assert "sessions_lost" not in member.counts()
    other = open_member(cluster, TOPIC, settings)
    rest = read(other)
    eventually(lambda: len(other.owned_partitions()) == 4)
    produce(cluster.brokers[0], TOPIC, [120])
    eventually(lambda: set(rest.payloads) >= everything([120]))
    assert set(rest.payloads) == everything([120])


def test_zookeeper_is_away_for_longer_than_the_session(
    own_zookeeper: LocalZooKeeper, new_cluster: NewCluster, open_member: OpenMember
) -> None:
    """Nothing is handed out once the lease has run out; afterwards the member goes on where it was."""
    cluster = new_cluster(zk_connect=own_zookeeper.connect_string)
    produce(cluster.brokers[0], TOPIC, range(4000), set_size=500)
    member = open_member(cluster, TOPIC)
    reader = read(member, 0.001)
    eventually(lambda: len(reader.receipts) > 50)
    own_zookeeper.kill()
    killed_s = now_s()
    lease = member._membership.rebalancer.session.lease  # type: ignore[union-attr]
    eventually(lambda: now_s() > lease.until_s)
    ran_out_s = lease.until_s  # it moves when ZooKeeper is back
    assert ran_out_s <= killed_s + 2
    eventually(lambda: now_s() > ran_out_s + 1)
    handed_out = len(reader.receipts)
    back_s = now_s()
    own_zookeeper.start()
    eventually(lambda: len(reader.receipts) > handed_out + 500)
    late = [receipt for receipt in reader.receipts if ran_out_s < receipt.stamp_s < back_s]
    assert len(late) <= 1, "one may be handed out just before, and stamped just after"
    check_order(reader.receipts)
    assert len(repeats(reader.receipts)) <= 1


@pytest.mark.parametrize("reset", ["smallest", "largest"])
def test_retention_passes_a_consumer(new_cluster: NewCluster, open_member: OpenMember, reset: str) -> None:
    """What was fetched is still handed out; then it starts anew where autooffset.reset says, logged and counted."""
    often = {"log.cleanup.interval.mins": 0.002, "log.default.flush.scheduler.interval.ms": 50}
    cluster = new_cluster(settings={**often, "log.file.size": 2000, "log.retention.size": 12_000, "num.partitions": 1})
    broker = cluster.brokers[0]
    send(broker, range(8))
    member = open_member(cluster, TOPIC, {"autooffset.reset": reset, "queuedchunks.max": 3, "fetch.size": 2000})
    [stream] = member.create_message_streams({TOPIC: 1})[TOPIC]
    eventually(lambda: member.owned_partitions() == [(TOPIC, 0, 0)])
    eventually(lambda: started(member))
    member.rewind(TOPIC, 0, 0, offset=0)  # a new group that wants the largest offset begins behind all there is
    reader = Reader(stream, pause_s=0.02, hold_at=1)
    eventually(lambda: len(reader.receipts) == 1 and stream._queue.taken == 3)
    [owned] = member._membership.rebalancer.owned.values()  # type: ignore[union-attr]
    fetched = (owned.feed.fetch_offset or 0) // PADDED
    assert fetched > 2
    send(broker, range(8, 40))
    eventually(lambda: first_segment(broker) > 8 * PADDED)
    reader.gate.set()
    eventually(lambda: member.counts().get("resets", 0) >= 1)
    send(broker, [40])
    eventually(lambda: int(reader.payloads[-1]) == 40)
    numbers = [int(payload) for payload in reader.payloads]
    assert numbers == sorted(set(numbers))
    assert numbers[:fetched] == list(range(fetched))
    last = {37, 38, 39}
    assert last <= set(numbers) if reset == "smallest" else not last & set(numbers)


PADDED = 1000


def send(broker: LocalBroker, numbers: range | list[int]) -> None:
    """Send each number in a set of its own, as a message of 1,000 bytes."""
    with SyncProducer(broker.host, broker.port) as producer:
        for number in numbers:
            producer.send(TOPIC, MessageSet([str(number).encode().zfill(PADDED - 10)]), 0)


def first_segment(broker: LocalBroker) -> int:
    return min(int(name.partition(".")[0]) for name in os.listdir(broker.log_dir / f"{TOPIC}-0"))  # noqa: PTH208


def started(member: ConsumerConnector) -> bool:
    membership = member._membership
    assert membership is not None
    return all(owned.feed.fetch_offset is not None for owned in list(membership.rebalancer.owned.values()))
