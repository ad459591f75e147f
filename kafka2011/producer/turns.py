"""Which partitions get the messages without a key, such that they can go elsewhere when a broker is lost, in order.

A confirming producer may have to send messages again at another broker. If later ones were in the partition there
already, it would see them in the wrong order. So partitions take turns: a topic's messages without a key go to one of
them until it has had enough, then to the next. While the last turn is being confirmed the next one may be going on, so
that brokers work at the same time; a third begins only when the first of them has ended. Messages of earlier turns are
all older, so whatever partition is not taking one of these two turns may get what a lost broker had. A second turn
begins only if each would then have such a refuge; else what is sent waits here until the first has ended.
(Long sets for one partition are also cheaper for a broker than short ones for many.)
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from kafka2011.producer.errors import NoBrokersError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.producer.broker_queue import BrokerQueue
    from kafka2011.producer.parcel import Parcel, PartitionSet
    from kafka2011.producer.router import Router
    from zk.cluster import TopicPartition

    TakeSets = Callable[[Callable[[PartitionSet], bool]], list[PartitionSet]]


_TURNS = 2


class Turn:
    """One partition's turn: what it has had, and how much of that is neither confirmed nor given up.

    `touched` are all the partitions it has been at; those that it left may hold messages of it.
    """

    __slots__ = ("messages", "open_parcels", "partition", "touched")

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.touched = {partition}
        self.messages = 0
        self.open_parcels = 0

    def go_on_at(self, partition: TopicPartition) -> None:
        """Have the turn at another partition from now on."""
        self.partition = partition
        self.touched.add(partition)


class _Line:
    """One topic's turns, oldest first, and what waits for the next one."""

    __slots__ = ("turns", "waiting")

    def __init__(self) -> None:
        self.turns: deque[Turn] = deque()
        self.waiting: list[Parcel] = []

    def drop_ended(self) -> None:
        """Forget ended turns; not one behind an open one, whose messages are older and must not follow its own."""
        while self.turns and not self.turns[0].open_parcels:
            self.turns.popleft()


class Turns:
    """Hands parcels without a key to the brokers' queues, topic by topic. Thread-safe.

    `queue_of` gives a broker's queue. A turn ends after `turn_messages`, or before when nothing is unconfirmed.
    """

    def __init__(self, router: Router, queue_of: Callable[[int], BrokerQueue], turn_messages: int) -> None:
        self._router = router
        self._queue_of = queue_of
        self._turn_messages = turn_messages
        self._lines: dict[str, _Line] = {}
        self._lock = threading.Lock()

    def send(self, topic: str, parcels: list[Parcel]) -> None:
        """Queue parcels for the partition whose turn it is, or have them wait. Raises NoBrokersError."""
        with self._lock:
            line = self._lines.get(topic)
            if line is None:
                line = self._lines[topic] = _Line()
            if not line.waiting and self._has_turn(topic, line):
                self._put(line.turns[-1], parcels)
                return
            line.waiting += parcels
            # So that the turn comes to its end.
            self._queue_of(line.turns[0].partition.broker_id).hurry()

    def done(self, parcels: list[Parcel]) -> None:
        """Note that parcels of one topic were confirmed or given up; what waits may get its turn."""
        with self._lock:
            for parcel in parcels:
                turn = parcel.turn
                if turn is not None:
                    turn.open_parcels -= 1
            topic = parcels[0].ticket.topic
            line = self._lines[topic]
            old = line.turns[-1]
            line.drop_ended()
            if line.waiting:
                try:
                    has_turn = self._has_turn(topic, line)
                except NoBrokersError:
                    line.turns.append(old)  # its broker's sender finds out, and tells the sends
                    has_turn = True
                if has_turn:
                    self._put_waiting(line)

    def before_key(self, topic: str) -> None:
        """Queue what waits now, because a message with a key must not overtake it in its partition."""
        line = self._lines.get(topic)
        if line is not None and line.waiting:
            with self._lock:
                self._put_waiting(line)

    def move(self, broker_id: int, take_sets: TakeSets) -> int:
        """Send what a lost broker had elsewhere, turn by turn where there is a refuge; returns how many sets moved.

        `take_sets` gives the sets that are wanted, of those older than all in the broker's queue.
        """
        with self._lock:
            moving: dict[int, TopicPartition] = {}
            for topic, line in self._lines.items():
                for turn in line.turns:
                    if turn.open_parcels and turn.partition.broker_id == broker_id:
                        taken = {each for other in line.turns if other is not turn for each in other.touched}
                        refuge = self._router.choose_elsewhere(topic, broker_id, taken)
                        if refuge is not None:
                            turn.go_on_at(refuge)
                            moving[id(turn)] = refuge
            if not moving:
                return 0

            def wanted(parcel: Parcel) -> bool:
                return id(parcel.turn) in moving

            sets = take_sets(lambda each: wanted(each.parcels[0]))
            for each in sets:
                each.partition = moving[id(each.parcels[0].turn)]
                self._queue_of(each.partition.broker_id).put_moved([each])
            for parcel in self._queue_of(broker_id).take_out(wanted):
                parcel.partition = moving[id(parcel.turn)]
                self._queue_of(parcel.partition.broker_id).put([parcel])
            return len(sets)

    def _has_turn(self, topic: str, line: _Line) -> bool:
        """Say whether there is a turn that has not had enough, or can begin. Raises NoBrokersError."""
        turns = line.turns
        line.drop_ended()
        if turns and turns[-1].messages < self._turn_messages:
            return True
        if not turns:
            turns.append(Turn(self._router.choose(topic, None)))
            return True
        if len(turns) == _TURNS:
            return False
        current = turns[0].partition
        following = self._router.choose_elsewhere(topic, current.broker_id)
        if following is None:
            return False
        for lost, kept in ((current, following), (following, current)):
            if self._router.choose_elsewhere(topic, lost.broker_id, [kept]) is None:
                return False
        turns.append(Turn(following))
        return True

    def _put_waiting(self, line: _Line) -> None:
        waiting, line.waiting = line.waiting, []
        self._put(line.turns[-1], waiting)

    def _put(self, turn: Turn, parcels: list[Parcel]) -> None:
        messages = 0
        for parcel in parcels:
            parcel.partition = turn.partition
            parcel.turn = turn
            messages += parcel.messages
        self._queue_of(turn.partition.broker_id).put(parcels)
        turn.messages += messages
        turn.open_parcels += len(parcels)
