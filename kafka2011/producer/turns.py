"""Which partition gets the messages without a key, such that they can go elsewhere when its broker is lost, in order.

A confirming producer may have to send messages again at another broker. If later ones were in its partitions already,
these would see them in the wrong order. So all unconfirmed messages of a topic that have no key are for one partition
at a time. Its turn ends when it has had enough of them; the next one's begins when all of them are confirmed, and what
was sent meanwhile waits here until then. What a lost broker had goes to another one's partition, in order, ahead of
everything else. (Long sets for one partition are also cheaper for the broker than short ones for many.)
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from kafka2011.producer.errors import NoBrokersError

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from kafka2011.producer.broker_partition_info import BrokerPartition
    from kafka2011.producer.broker_queue import BrokerQueue
    from kafka2011.producer.parcel import Parcel, PartitionSet
    from kafka2011.producer.router import Router

    TakeSets = Callable[[Container[str]], list[PartitionSet]]


class _Turn:
    """One topic's: the partition whose turn it is, what it has had, and what waits for the next one."""

    __slots__ = ("messages", "open_parcels", "partition", "waiting")

    def __init__(self, partition: BrokerPartition) -> None:
        self.partition = partition
        self.messages = 0
        self.open_parcels = 0
        self.waiting: list[Parcel] = []

    def pass_to(self, partition: BrokerPartition) -> None:
        """Begin another partition's turn."""
        self.partition = partition
        self.messages = 0


class Turns:
    """Hands parcels without a key to the brokers' queues, topic by topic. Thread-safe.

    `queue_of` gives a broker's queue. A turn ends after `turn_messages`, or before when nothing is unconfirmed.
    """

    def __init__(self, router: Router, queue_of: Callable[[int], BrokerQueue], turn_messages: int) -> None:
        self._router = router
        self._queue_of = queue_of
        self._turn_messages = turn_messages
        self._turns: dict[str, _Turn] = {}
        self._lock = threading.Lock()

    def send(self, topic: str, parcels: list[Parcel]) -> None:
        """Queue parcels for the partition whose turn it is, or have them wait. Raises NoBrokersError."""
        with self._lock:
            turn = self._turns.get(topic)
            if turn is None:
                turn = self._turns[topic] = _Turn(self._router.choose(topic, None))
            elif not turn.open_parcels:
                turn.pass_to(self._router.choose(topic, None))
            if turn.waiting or turn.messages >= self._turn_messages:
                turn.waiting += parcels
                self._queue_of(turn.partition.broker_id).hurry()  # so that the turn comes to its end
            else:
                self._put(turn, parcels)

    def done(self, topic: str, parcels: int) -> None:
        """Note that parcels were confirmed or given up; the next turn begins with the last of them."""
        with self._lock:
            turn = self._turns[topic]
            turn.open_parcels -= parcels
            if not turn.open_parcels and turn.waiting:
                with contextlib.suppress(NoBrokersError):  # else the old one's sender finds out, and tells the sends
                    turn.pass_to(self._router.choose(topic, None))
                self._put_waiting(turn)

    def before_key(self, topic: str) -> None:
        """Queue what waits now, because a message with a key must not overtake it in its partition."""
        turn = self._turns.get(topic)
        if turn is not None and turn.waiting:
            with self._lock:
                self._put_waiting(turn)

    def move(self, broker_id: int, take_sets: TakeSets) -> int:
        """Send what a lost broker had elsewhere, topic by topic where there is anywhere; returns how many sets moved.

        `take_sets` gives the sets of some topics, without a key, that are older than all in the broker's queue.
        """
        with self._lock:
            moving: dict[str, _Turn] = {}
            for topic, turn in self._turns.items():
                if turn.open_parcels and turn.partition.broker_id == broker_id:
                    elsewhere = self._router.choose_elsewhere(topic, broker_id)
                    if elsewhere is not None:
                        turn.partition = elsewhere
                        moving[topic] = turn
            if not moving:
                return 0
            sets = take_sets(moving)
            for each in sets:
                each.partition = moving[each.topic].partition
                self._queue_of(each.partition.broker_id).put_moved([each])
            for parcel in self._queue_of(broker_id).take_unkeyed(moving):
                parcel.partition = moving[parcel.ticket.topic].partition
                self._queue_of(parcel.partition.broker_id).put([parcel])
            return len(sets)

    def _put_waiting(self, turn: _Turn) -> None:
        waiting, turn.waiting = turn.waiting, []
        self._put(turn, waiting)

    def _put(self, turn: _Turn, parcels: list[Parcel]) -> None:
        messages = 0
        for parcel in parcels:
            parcel.partition = turn.partition
            messages += parcel.messages
        self._queue_of(turn.partition.broker_id).put(parcels)
        turn.messages += messages
        turn.open_parcels += len(parcels)
