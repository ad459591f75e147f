"""Creating a topic with an exact number of partitions: all of them are made, or none stays.

Brokers of this release make any number that they are requested in ZooKeeper. Those of Kafka 0.7 and of older releases
make the number of their settings, when an empty set is sent to them: they take part where that number fits.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.admin.partitions import count_on
from kafka2011.admin.placement import place
from kafka2011.admin.request_waiting import POLL_S, REQUEST_TIMEOUT_S, await_requests
from kafka2011.errors import KafkaError
from kafka2011.producer.sync_producer import SyncProducer
from zk.brokers import BrokerRegistry
from zk.errors import NodeExists, VersionConflict
from zk.gateways import GatewayRegistry
from zk.partition_counts import PartitionCountRegistry
from zk.requests import UNDO, RequestRegistry

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from zk.client import ZkClient
    from zk.cluster import Broker

MOST_PARTITIONS = 10_000
"""The most partitions of a topic that is created or grown to a number in all."""
REGISTER_TIMEOUT_S = 10.0
UNDO_TIMEOUT_S = 15.0
"""The time that brokers have to delete their part of a topic when others have made none. They may finish later."""


class TopicExistsError(KafkaError):
    """The topic that is to be created exists, or others are creating it."""


class PartitionCountError(KafkaError):
    """The brokers cannot make this number of partitions; nothing was changed."""


class CreationPlan(NamedTuple):
    """The number of partitions that each broker will have, and the brokers that get a request for it.

    `there` has what other brokers have of it already.
    """

    counts: dict[int, int]
    requested: frozenset[int]
    there: Mapping[int, int]


class ExactCreation:
    """Creates a topic on some of the brokers that live. Each method raises KafkaError."""

    def __init__(self, client: ZkClient, topic: str, brokers: Mapping[int, Broker]) -> None:
        self._topic = topic
        self._brokers = brokers
        self._registry = BrokerRegistry(client)
        self._requests = RequestRegistry(client)
        self._counts = PartitionCountRegistry(client)
        self._gateways = GatewayRegistry(client)
        self._creators = self._requests.creators(brokers)
        self._configured: dict[int, int] = {}

    def plan(self, partitions: int, *, on_all: bool) -> CreationPlan:
        """Return how to create the topic with this number of partitions in all.

        Brokers that make another number than their share are left out, or with `on_all`, refused.
        """
        self._check_new()
        if not 0 < partitions <= MOST_PARTITIONS:
            raise PartitionCountError(f"a topic can have 1 to {MOST_PARTITIONS} partitions, not {partitions}")
        brokers = set(self._brokers)
        while True:
            counts = place(self._topic, partitions, brokers, {})
            unfit = self._unfit(counts)
            if not unfit:
                return CreationPlan(counts, frozenset(counts.keys() & self._creators), {})
            if on_all or brokers == unfit.keys():
                raise self._refusal(unfit, counts)
            brokers -= unfit.keys()

    def plan_each(self, partitions: int) -> CreationPlan:
        """Return how to create the topic with this number of partitions on each broker, or extend it to them."""
        there = self._registry.partitions_of(self._topic)
        for number in sorted(there.keys() & self._brokers.keys()):
            if there[number] != partitions:
                raise PartitionCountError(
                    f"broker {number} has {there[number]} partitions of topic {self._topic}, not {partitions};"
                    " nothing was created"
                )
        counts = dict.fromkeys(sorted(self._brokers.keys() - there.keys()), partitions)
        unfit = self._unfit(counts)
        if unfit:
            raise self._refusal(unfit, counts)
        return CreationPlan(counts, frozenset(counts.keys() & self._creators), there)

    def _check_new(self) -> None:
        there = self._registry.partitions_of(self._topic)
        if there:
            total = sum(there.values())
            raise TopicExistsError(f"topic {self._topic} exists, with {total} partitions on {_named(there)}")
        counts = self._counts.counts(self._topic)
        if counts:
            raise TopicExistsError(f"topic {self._topic} exists on {_named(counts)}, which is not running")
        if self._topic in self._registry.topics():
            raise TopicExistsError(f"topic {self._topic} exists on brokers that are not running, or was not deleted")

    def _unfit(self, counts: Mapping[int, int]) -> dict[int, int]:
        """Return the number that brokers make by their settings, of those that must and whose share it is not."""
        for number in counts.keys() - self._creators - self._configured.keys():
            self._configured[number] = count_on(self._brokers[number], self._topic)
        return {
            number: self._configured[number]
            for number in sorted(counts.keys() - self._creators)
            if self._configured[number] != counts[number]
        }

    def _refusal(self, unfit: Mapping[int, int], counts: Mapping[int, int]) -> PartitionCountError:
        number, makes = next(iter(unfit.items()))
        return PartitionCountError(
            f"broker {number} can only make {makes} partitions of topic {self._topic}, as it is set, not"
            f" {counts[number]}: it runs Kafka 0.7 or an older release; nothing was created"
        )

    def create(self, plan: CreationPlan, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        """Create the topic, and wait until it is registered. Before an error is raised, what was made is deleted."""
        requested = {number: plan.counts[number] for number in sorted(plan.requested)}
        try:
            if requested:
                living = self._registry.brokers()
                self._requests.begin_creation(self._topic, requested, living, extends=bool(plan.there))
        except (NodeExists, VersionConflict) as error:
            raise TopicExistsError(f"topic {self._topic} exists, or is being changed: {error}") from error
        try:
            outcomes = await_requests(self._requests, self._topic, requested, timeout_s)
            _raise_first(outcomes, f"has not created topic {self._topic}")
            self._create_by_settings(plan.counts.keys() - plan.requested)
            self._check_made(plan)
        except KafkaError as error:
            raise KafkaError(f"{error}; {self._undo(requested)}") from error

    def _check_made(self, plan: CreationPlan) -> None:
        there = await_registration(self._registry, self._topic, plan.counts)
        for number in sorted(there):
            wanted = plan.counts.get(number, plan.there.get(number, 0))
            if there[number] != wanted:
                raise KafkaError(f"broker {number} has {there[number]} partitions of topic {self._topic}, not {wanted}")

    def _create_by_settings(self, broker_ids: Iterable[int]) -> None:
        for number in sorted(broker_ids):
            broker = self._brokers[number]
            with SyncProducer(broker.host, broker.port, security=broker.security) as producer:
                producer.send(self._topic, [])

    def _undo(self, broker_ids: Collection[int]) -> str:
        """Let brokers delete the topic unless it has messages by now, and return a text that says what is left."""
        for number in broker_ids:
            self._requests.place(number, self._topic, UNDO)
        outcomes = await_requests(self._requests, self._topic, broker_ids, UNDO_TIMEOUT_S, withdraw=False)
        self._counts.forget_topic(self._topic)
        if self._registry.forget_topic(self._topic):
            self._gateways.forget(self._topic)
        left = [f"broker {number} {why}" for number, why in outcomes.items() if why is not None]
        return f"not deleted yet: {'; '.join(left)}" if left else "nothing of it is left"


def await_registration(registry: BrokerRegistry, topic: str, broker_ids: Collection[int]) -> dict[int, int]:
    """Wait until brokers have registered a topic, and return how many partitions each has. Raises KafkaError."""
    deadline_s = time.monotonic() + REGISTER_TIMEOUT_S
    while True:
        partitions = registry.partitions_of(topic)
        missing = [str(number) for number in broker_ids if number not in partitions]
        if not missing:
            return partitions
        if time.monotonic() > deadline_s:
            raise KafkaError(
                f"topic {topic} was not registered by broker {', '.join(missing)} within {REGISTER_TIMEOUT_S:g} s"
            )
        time.sleep(POLL_S)


def _raise_first(outcomes: Mapping[int, str | None], what: str) -> None:
    for number, why in outcomes.items():
        if why is not None:
            raise KafkaError(f"broker {number} {what}: {why}")


def _named(broker_ids: Iterable[int]) -> str:
    return f"broker {', '.join(map(str, broker_ids))}"
