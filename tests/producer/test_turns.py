"""Whose turn it is to get the messages without a key."""

from __future__ import annotations

import pytest

from kafka2011.producer.broker_partition_info import ListedBrokers
from kafka2011.producer.broker_queue import BrokerQueue, Urgency
from kafka2011.producer.parcel import Parcel, Ticket
from kafka2011.producer.partitioner import DefaultPartitioner
from kafka2011.producer.router import Router
from kafka2011.producer.turns import Turns
from zk.cluster import Broker, TopicPartition

TURN_MESSAGES = 3


class World:
    """Turns over queues that nobody empties but the test."""

    def __init__(self, brokers: int) -> None:
        self.router = Router(
            ListedBrokers([Broker(broker_id, "host", 1) for broker_id in range(brokers)]),
            DefaultPartitioner(),
            0,
        )
        self.queues = {broker_id: BrokerQueue(100, 3_600_000, Urgency()) for broker_id in range(brokers)}
        self.turns = Turns(self.router, self.queues.__getitem__, TURN_MESSAGES)
        self._sent = 0

    def send(self, count: int = 1) -> None:
        for _ in range(count):
            payload = b"%d" % self._sent
            self.turns.send("t", [Parcel(Ticket("t", None, 1, 1), TopicPartition("t", -1, -1), [payload], None, 1)])
            self._sent += 1

    def take(self) -> list[Parcel]:
        """Take what is queued at the one broker that has something."""
        [parcels] = [parcels for queue in self.queues.values() if (parcels := queue.take_all().parcels)]
        return parcels


def payloads(parcels: list[Parcel]) -> list[bytes]:
    return [payload for parcel in parcels for payload in parcel.payloads]


def test_the_next_turn_begins_elsewhere_while_the_last_is_unconfirmed() -> None:
    """But no third one does before the first has ended."""
    world = World(brokers=3)
    world.send(3)
    first = world.take()
    world.send(5)
    second = world.take()
    assert (payloads(first), payloads(second)) == ([b"0", b"1", b"2"], [b"3", b"4", b"5"])
    assert first[0].partition.broker_id != second[0].partition.broker_id
    world.turns.done(second)
    world.turns.done(first[:2])
    assert not any(queue.take_all() for queue in world.queues.values())
    world.turns.done(first[2:])
    assert payloads(world.take()) == [b"6", b"7"]


@pytest.mark.parametrize("brokers", [1, 2])
def test_turns_follow_one_another_where_there_is_no_refuge_for_both(brokers: int) -> None:
    """With two brokers and one partition each, what a lost one had must find the other untouched by later ones."""
    world = World(brokers)
    world.send(5)
    first = world.take()
    assert payloads(first) == [b"0", b"1", b"2"]
    world.turns.done(first)
    assert payloads(world.take()) == [b"3", b"4"]


def test_with_nothing_unconfirmed_the_next_turn_begins() -> None:
    """So slow traffic is spread message by message."""
    world = World(brokers=3)
    seen = set()
    for _ in range(100):
        world.send()
        [parcel] = world.take()
        seen.add(parcel.partition.broker_id)
        world.turns.done([parcel])
    assert seen == {0, 1, 2}


def test_the_end_of_a_turn_is_hurried() -> None:
    """What is left of it does not wait for a batch to fill, or the next turn would wait too."""
    world = World(brokers=1)
    world.send(3)
    assert not world.queues[0].take()
    world.send()
    assert payloads(world.queues[0].take().parcels) == [b"0", b"1", b"2"]


def test_a_message_with_a_key_overtakes_nothing() -> None:
    """What waits for the next turn is queued before it, in the turn that there is."""
    world = World(brokers=1)
    world.send(5)
    world.turns.before_key("t")
    assert payloads(world.take()) == [b"0", b"1", b"2", b"3", b"4"]
    world.turns.before_key("other")


def test_without_brokers_the_turn_stays() -> None:
    """The old broker's sender finds out what becomes of it."""
    world = World(brokers=1)
    world.send(4)
    first = world.take()
    world.router.info = ListedBrokers([])
    world.turns.done(first)
    assert payloads(world.take()) == [b"3"]
