"""Which broker gets the messages without a key, such that they can go elsewhere when it is lost and stay in order.

A confirming producer may have to send messages again at another broker. If later ones were in that broker's partitions
already, these would see them in the wrong order. So all unconfirmed messages of a topic that have no key are at one
broker at a time, on any of its partitions. Its turn ends when it has had enough of them; the next broker's begins when
all of them are confirmed, and what was sent meanwhile waits here until then. A lost broker's messages go to the next
one, in order, ahead of everything else.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from kafka2011.producer.broker_partition_info import BrokerPartition
from kafka2011.producer.errors import NoBrokersError

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from kafka2011.producer.broker_queue import BrokerQueue
    from kafka2011.producer.parcel import Parcel, PartitionSet
    from kafka2011.producer.router import Router

    TakeSets = Callable[[Container[str]], list[PartitionSet]]


class _Turn:
    """One topic's: the broker whose turn it is, what it has had, and what waits for the next one."""

    __slots__ = ("broker_id", "choices", "choices_of", "messages", "open_parcels", "waiting")

    def __init__(self) -> None:
        self.broker_id = -1
        self.choices: tuple[BrokerPartition, ...] = ()
        self.choices_of: object = None
        self.messages = 0
        self.open_parcels = 0
        self.waiting: deque[Parcel] = deque()


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
        """Queue parcels at the broker whose turn it is, or have them wait. Raises NoBrokersError."""
        with self._lock:
            turn = self._turns.get(topic)
            if turn is None:
                turn = self._turns[topic] = _Turn()
            if not turn.open_parcels:
                self._begin(turn, self._router.choose(topic, None).broker_id)
            if turn.waiting or turn.messages >= self._turn_messages:
                turn.waiting.extend(parcels)
                self._queue_of(turn.broker_id).hurry()  # so that the turn comes to its end
            else:
                self._put(topic, turn, parcels)

    def done(self, topic: str, parcels: int) -> None:
        """Note that parcels were confirmed or given up; the next turn begins with the last of them."""
        with self._lock:
            turn = self._turns[topic]
            turn.open_parcels -= parcels
            if not turn.open_parcels and turn.waiting:
                self._begin(turn, self._next_broker(topic, turn))
                self._release(topic, turn)

    def before_key(self, topic: str) -> None:
        """Queue what waits now, because a message with a key must not overtake it in its partition."""
        turn = self._turns.get(topic)
        if turn is not None and turn.waiting:
            with self._lock:
                self._release(topic, turn)

    def move(self, broker_id: int, take_sets: TakeSets) -> int:
        """Send what a lost broker had to another, topic by topic where there is one; returns how many sets moved.

        `take_sets` gives the sets of some topics, without a key, that are older than all in the broker's queue.
        """
        with self._lock:
            targets: dict[str, int] = {}
            for topic, turn in self._turns.items():
                if turn.broker_id == broker_id and turn.open_parcels:
                    target = self._router.other_broker(topic, broker_id)
                    if target is not None:
                        targets[topic] = target
            if not targets:
                return 0
            sets = take_sets(targets)
            parcels = self._queue_of(broker_id).take_unkeyed(targets)
            for topic, target in targets.items():
                turn = self._turns[topic]
                turn.broker_id = target
                moved = [each for each in sets if each.topic == topic]
                for each in moved:
                    each.partition = self._partition(topic, turn)
                behind = [parcel for parcel in parcels if parcel.ticket.topic == topic]
                for parcel in behind:
                    parcel.partition = self._partition(topic, turn)
                queue = self._queue_of(target)
                if moved:
                    queue.put_moved(moved)
                if behind:
                    queue.put(behind)
            return len(sets)

    def _begin(self, turn: _Turn, broker_id: int) -> None:
        turn.broker_id = broker_id
        turn.messages = 0

    def _next_broker(self, topic: str, turn: _Turn) -> int:
        try:
            return self._router.choose(topic, None).broker_id
        except NoBrokersError:
            return turn.broker_id  # its sender will find out, and tell the sends

    def _put(self, topic: str, turn: _Turn, parcels: list[Parcel]) -> None:
        messages = 0
        for parcel in parcels:
            parcel.partition = self._partition(topic, turn)
            messages += parcel.messages
        self._queue_of(turn.broker_id).put(parcels)
        turn.messages += messages
        turn.open_parcels += len(parcels)

    def _release(self, topic: str, turn: _Turn) -> None:
        parcels = list(turn.waiting)
        turn.waiting.clear()
        self._put(topic, turn, parcels)

    def _partition(self, topic: str, turn: _Turn) -> BrokerPartition:
        """Return any of the topic's partitions on the broker whose turn it is."""
        source = (self._router.info.choices(topic), turn.broker_id)
        if source != turn.choices_of:
            turn.choices_of = source
            # A broker that has just left the list still gets what is its turn's, and its sender passes it on.
            turn.choices = tuple(choice for choice in source[0] if choice.broker_id == turn.broker_id) or (
                BrokerPartition(turn.broker_id, 0),
            )
        return self._router.any_of(turn.choices)
