"""Giving a topic more partitions while brokers run: a number in all, or on each broker that has it.

Brokers are requested to grow it in ZooKeeper. Only brokers of this package read that; those of 0.7 keep what they have.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.admin.exact_creation import (
    MOST_PARTITIONS,
    CreationPlan,
    ExactCreation,
    PartitionCountError,
    TopicExistsError,
)
from kafka2011.admin.placement import place
from kafka2011.admin.request_waiting import REQUEST_TIMEOUT_S, await_requests
from kafka2011.admin.topics import living_partitions
from kafka2011.errors import KafkaError
from zk import paths
from zk.brokers import BrokerRegistry
from zk.gateways import GatewayRegistry
from zk.partition_counts import PartitionCountRegistry
from zk.requests import RequestKind, RequestRegistry, TopicRequest

if TYPE_CHECKING:
    from collections.abc import Collection

    from zk.client import ZkClient
    from zk.cluster import Broker
    from zk.gateways import PartitionList

OF_07 = "left as it is: it takes no requests (Kafka 0.7)"


class BrokerChange(NamedTuple):
    """Tells what one broker has of a topic, and what becomes of it; of a broker that is down, only the id."""

    broker_id: int
    broker: Broker | None
    partitions: int
    size_bytes: int | None
    outcome: str
    is_done: bool


def grow_topic(
    client: ZkClient,
    topic: str,
    partitions: int | None = None,
    broker_ids: Collection[int] | None = None,
    *,
    per_broker: int | None = None,
    dry_run: bool = False,
    timeout_s: float = REQUEST_TIMEOUT_S,
) -> list[BrokerChange]:
    """Give a topic more partitions, for good: `partitions` in all, or `per_broker` on each living broker that has it.

    A number in all includes partitions of brokers that are down. The new ones go to the brokers with the fewest, of
    `broker_ids` or by default of all living ones, also to those that have none of it yet. Says what each broker has
    afterwards. Raises KafkaError: unknown, or it has more, since no log is taken away; PartitionCountError if nobody
    can tell how many there are, or can make that number. Nothing is changed then.
    """
    if (partitions is None) == (per_broker is None):
        raise ValueError("give either partitions, in all, or per_broker")
    growth = _Growth(client, topic, timeout_s)
    if partitions is None:
        return growth.grow_each(per_broker or 0, dry_run=dry_run)
    return growth.grow_to(partitions, broker_ids, dry_run=dry_run)


def known_counts(client: ZkClient, topic: str) -> dict[int, int]:
    """Return how many partitions of a topic each broker has, as far as ZooKeeper tells; also brokers that are down.

    Of those, the topic's exact numbers tell, and the list of gateways.
    """
    listed = _listed(client, topic)
    counts = Counter(() if listed is None else (where.broker_id for where in listed.partitions))
    for other in (BrokerRegistry(client).partitions_of(topic), PartitionCountRegistry(client).counts(topic)):
        counts |= Counter(other)
    return dict(sorted(counts.items()))


def _listed(client: ZkClient, topic: str) -> PartitionList | None:
    listed = GatewayRegistry(client).lists([topic]).get(topic)
    return None if listed is None or listed.is_deleted else listed


class _Growth:
    """A topic before it grows."""

    def __init__(self, client: ZkClient, topic: str, timeout_s: float) -> None:
        self._client = client
        self._topic = topic
        self._timeout_s = timeout_s
        self._having = {where.broker_id: broker for where, broker in living_partitions(client, topic).items()}
        self._registry = BrokerRegistry(client)
        self._requests = RequestRegistry(client)
        self._takers = self._requests.takers_beside(self._registry.brokers())
        self._there = self._registry.partitions_of(topic)

    # On each broker

    def grow_each(self, partitions: int, *, dry_run: bool) -> list[BrokerChange]:
        """Give the topic this number of partitions on each living broker that has it."""
        for number, count in self._there.items():
            if count > partitions:
                raise KafkaError(
                    f"broker {number} has {count} partitions of topic {self._topic}: fewer would hide logs that hold"
                    " messages"
                )
        request = TopicRequest(RequestKind.GROW, partitions)
        asked = [number for number in self._having if number in self._takers and self._there[number] < partitions]
        outcomes: dict[int, str | None] = {}
        if not dry_run:
            outcomes = self._request(dict.fromkeys(asked, request))
        now = self._registry.partitions_of(self._topic)
        changes = []
        for number, broker in self._having.items():
            if self._there[number] >= partitions:
                outcome, is_done = "has them", True
            elif number not in self._takers:
                add = f"add {self._topic}:{partitions} to topic.partition.count.map, and start it again"
                outcome, is_done = f"{OF_07}: {add}", False
            elif dry_run:
                outcome, is_done = f"grows to {partitions}", True
            else:
                error = outcomes[number]
                outcome, is_done = error or "grown", error is None
            changes.append(BrokerChange(number, broker, now.get(number, 0), None, outcome, is_done))
        return changes

    # In all

    def grow_to(self, partitions: int, broker_ids: Collection[int] | None, *, dry_run: bool) -> list[BrokerChange]:
        """Give the topic this number of partitions in all."""
        living = self._registry.brokers()
        creators = self._requests.creators(living)
        counts = known_counts(self._client, self._topic)
        self._check_known(counts, living)
        wanted = counts | self._place(partitions, counts, set(broker_ids or living), living, creators)
        new = {number: wanted[number] for number in wanted if wanted[number] > counts.get(number, 0)}
        outcomes: dict[int, str | None] = {}
        if not dry_run:
            self._create({number: new[number] for number in new.keys() - self._there.keys()}, living)
            exact = {number: wanted[number] for number in self._there.keys() & creators}
            more = {number: new[number] for number in new.keys() & self._there.keys() - creators}
            requests = {number: TopicRequest(RequestKind.GROW_EXACTLY, count) for number, count in exact.items()}
            outcomes = self._request(requests | {n: TopicRequest(RequestKind.GROW, count) for n, count in more.items()})
        now = known_counts(self._client, self._topic)
        changes = []
        for number in sorted(wanted):
            error = outcomes.get(number)
            if error is not None:
                outcome = error
            elif number in new:
                outcome = f"grows to {wanted[number]}" if dry_run else "grown"
            else:
                outcome = "has them" if number in living else "away: keeps them"
            changes.append(BrokerChange(number, living.get(number), now.get(number, 0), None, outcome, error is None))
        if not dry_run and all(change.is_done for change in changes) and sum(now.values()) != partitions:
            raise KafkaError(f"topic {self._topic} has {sum(now.values())} partitions: others change it, too")
        return changes

    def _check_known(self, counts: Collection[int], living: Collection[int]) -> None:
        """Raise PartitionCountError if a broker that is down may have partitions that nobody counts."""
        if _listed(self._client, self._topic) is not None:
            return
        for number in sorted(self._takers - set(living) - set(counts)):
            raise PartitionCountError(
                f"broker {number} is down, and may have partitions of topic {self._topic} that would not be counted:"
                f" start it, grow the topic on each broker (--per-broker), or delete {paths.requests(number)} in"
                " ZooKeeper if it never comes back"
            )

    def _place(
        self,
        partitions: int,
        counts: dict[int, int],
        chosen: set[int],
        living: Collection[int],
        creators: set[int],
    ) -> dict[int, int]:
        total = sum(counts.values())
        if not total <= partitions <= MOST_PARTITIONS:
            raise PartitionCountError(
                f"topic {self._topic} has {total} partitions in all: it can have {total} to {MOST_PARTITIONS}, not"
                f" {partitions}; fewer would hide logs that hold messages"
            )
        if missing := sorted(chosen - set(living)):
            raise KafkaError(f"broker {missing[0]} is not registered in ZooKeeper")
        growable = chosen & (creators | (self._takers & self._there.keys()))
        if not growable:
            raise PartitionCountError(f"no broker can grow topic {self._topic}: they run Kafka 0.7 or an older release")
        return place(self._topic, partitions, growable, counts)

    def _create(self, counts: dict[int, int], living: dict[int, Broker]) -> None:
        """Create the topic on brokers that have none of it. Raises KafkaError, with nothing changed."""
        if not counts:
            return
        creation = ExactCreation(self._client, self._topic, living)
        try:
            creation.create(CreationPlan(counts, frozenset(counts), self._there), self._timeout_s)
        except TopicExistsError as error:
            raise KafkaError(str(error)) from error

    def _request(self, requests: dict[int, TopicRequest]) -> dict[int, str | None]:
        for number, request in requests.items():
            self._requests.place(number, self._topic, request)
        return await_requests(self._requests, self._topic, requests, self._timeout_s)
