"""Whose turn it is to get the messages without a key."""

from __future__ import annotations

from typing import Any

from kafka2011.producer.broker_partition_info import BrokerPartition
from kafka2011.producer.broker_queue import BrokerQueue, Urgency
from kafka2011.producer.errors import NoBrokersError
from kafka2011.producer.parcel import Parcel, Ticket
from kafka2011.producer.turns import Turns


class ScriptedRouter:
    """Chooses what the test says, one after the other."""

    def __init__(self, *broker_ids: int | None) -> None:
        self._broker_ids = list(broker_ids)

    def choose(self, topic: str, key: object) -> BrokerPartition:
        broker_id = self._broker_ids.pop(0)
        if broker_id is None:
            raise NoBrokersError("nobody")
        return BrokerPartition(broker_id, 0)


def parcel(number: int) -> Parcel:
    return Parcel(Ticket("t", None, 1, 1), BrokerPartition(-1, -1), [b"%d" % number], None, 1)


def make(*broker_ids: int | None) -> tuple[Turns, dict[int, BrokerQueue]]:
    queues = {broker_id: BrokerQueue(100, 3_600_000, Urgency()) for broker_id in (0, 1)}
    router: Any = ScriptedRouter(*broker_ids)
    return Turns(router, queues.__getitem__, 3), queues


def queued(queue: BrokerQueue) -> list[bytes]:
    return [payload for each in queue.take_all().parcels for payload in each.payloads]


def test_a_turn_ends_when_it_is_long_enough_and_all_is_confirmed() -> None:
    """What comes meanwhile waits, and goes to the next one, which may have as much and more."""
    turns, queues = make(0, 1)
    for number in range(5):
        turns.send("t", [parcel(number)])
    assert queued(queues[0]) == [b"0", b"1", b"2"]
    turns.done("t", 2)
    assert queued(queues[1]) == []
    turns.done("t", 1)
    assert queued(queues[1]) == [b"3", b"4"]
    turns.send("t", [parcel(5)])
    assert queued(queues[1]) == [b"5"]


def test_with_nothing_unconfirmed_the_next_turn_begins() -> None:
    """So slow traffic is spread message by message."""
    turns, queues = make(0, 1)
    turns.send("t", [parcel(0)])
    turns.done("t", 1)
    turns.send("t", [parcel(1)])
    assert (queued(queues[0]), queued(queues[1])) == ([b"0"], [b"1"])


def test_the_end_of_a_turn_is_hurried() -> None:
    """What is left of it does not wait for a batch to fill, or the next turn would wait too."""
    turns, queues = make(0)
    for number in range(3):
        turns.send("t", [parcel(number)])
    assert not queues[0].take()
    turns.send("t", [parcel(3)])
    assert len(queues[0].take().parcels) == 3


def test_a_message_with_a_key_overtakes_nothing() -> None:
    """What waits for the next turn is queued before it, in the turn that there is."""
    turns, queues = make(0)
    for number in range(5):
        turns.send("t", [parcel(number)])
    turns.before_key("t")
    assert queued(queues[0]) == [b"0", b"1", b"2", b"3", b"4"]
    turns.before_key("other")


def test_without_brokers_the_turn_stays() -> None:
    """The old broker's sender finds out what becomes of it."""
    turns, queues = make(0, None)
    for number in range(4):
        turns.send("t", [parcel(number)])
    queues[0].take_all()
    turns.done("t", 3)
    assert queued(queues[0]) == [b"3"]
