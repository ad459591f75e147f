"""Brokers that come and go, at one port or another, and the registry that says so, sooner or later."""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from kafka2011.producer.partition_info import on_every_broker
from kafka2011.wire.protocol import ANY_PARTITION
from zk.cluster import Broker, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from tests.models.producer.faulty_broker import FaultyBroker


class Outage(Enum):
    """What may happen to a broker; where it has happened, the next one of its kind undoes it."""

    AWAY = auto()  # it dies, and begins again where it was
    ELSEWHERE = auto()  # it dies, and begins at once at another port
    UNREGISTERED = auto()  # though it may well live
    ENDED_CONNECTIONS = auto()
    SILENT = auto()  # connecting to it takes longer than anybody waits


class Door(Protocol):
    """Where a broker can be reached."""

    @property
    def port(self) -> int:
        """The port."""

    def open(self) -> None:
        """Take connections."""

    def shut(self) -> None:
        """Refuse them."""

    def move(self) -> None:
        """Take them at another port."""

    def silence(self, *, silent: bool) -> None:
        """Let nobody in or out, without a word, or do so again."""


class ClusterInTrouble:
    """Brokers with the partitions of every topic, and what a producer knows of them (a BrokerPartitionInfo).

    With `picks` the brokers choose the partition of a message without a key, as with broker.list.
    """

    def __init__(
        self,
        brokers: Mapping[int, FaultyBroker],
        doors: Mapping[int, Door],
        refreshing: Callable[[], object],
        *,
        picks: bool,
    ) -> None:
        self.brokers = brokers
        self._doors = doors
        self._refreshing = refreshing
        self._picks = picks
        self._registered: dict[int, Broker] = {}
        self._has: set[tuple[Outage, int]] = set()
        for broker_id, door in doors.items():
            door.open()
            self._register(broker_id)

    # What the producer asks --------------------------------------------------------------------------------------

    def partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        counts = {broker_id: self.brokers[broker_id].partitions for broker_id in dict(self._registered)}
        return tuple(TopicPartition.all_of(topic, counts))

    def lacks(self, _partition: TopicPartition) -> bool:
        return False

    def choices(self, topic: str) -> tuple[TopicPartition, ...]:
        return on_every_broker(dict(self._registered), topic, ANY_PARTITION) if self._picks else self.partitions(topic)

    def broker(self, broker_id: int) -> Broker | None:
        return self._registered.get(broker_id)

    def refresh(self) -> None:
        self._refreshing()

    def close(self) -> None:
        """Nothing is open."""

    # What happens to it ------------------------------------------------------------------------------------------

    def strike(self, outage: Outage, broker_id: int) -> None:
        """Let something happen to a broker, or end it."""
        door = self._doors[broker_id]
        begins = (outage, broker_id) not in self._has
        if outage is Outage.ENDED_CONNECTIONS:
            self.brokers[broker_id].die()
            return
        if outage is Outage.ELSEWHERE:
            door.shut()
            self.brokers[broker_id].die()
            door.move()
            self._has.discard((Outage.AWAY, broker_id))
            self._register(broker_id)
            return
        (self._has.add if begins else self._has.discard)((outage, broker_id))
        if outage is Outage.SILENT:
            door.silence(silent=begins)
        elif outage is Outage.AWAY and begins:
            door.shut()
            self.brokers[broker_id].die()
        elif outage is Outage.AWAY:
            door.open()
        elif begins:
            self._registered.pop(broker_id, None)
        else:
            self._register(broker_id)

    def _register(self, broker_id: int) -> None:
        self._has.discard((Outage.UNREGISTERED, broker_id))
        self._registered[broker_id] = Broker(broker_id, "127.0.0.1", self._doors[broker_id].port)


def trouble(
    cluster: ClusterInTrouble,
    random: Random,
    sleep: Callable[[float], object],
    is_over: Callable[[], bool],
    *,
    outages: Sequence[Outage],
    interval_s: float,
) -> None:
    """Let things happen to brokers until it is over."""
    while outages:
        sleep(random.expovariate(1 / interval_s))
        if is_over():
            return
        cluster.strike(random.choice(outages), random.choice(list(cluster.brokers)))
