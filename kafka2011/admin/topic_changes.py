"""Deleting topics, which no request of Kafka 0.7 does: brokers are asked for it in ZooKeeper.

Only brokers of this package look there. Those of 0.7 are left as they are, and named.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.admin.request_waiting import POLL_S, REQUEST_TIMEOUT_S, await_requests
from kafka2011.admin.topic_growth import OF_07, BrokerChange, known_counts
from kafka2011.admin.topics import describe_topic
from kafka2011.errors import KafkaError
from zk.brokers import BrokerRegistry
from zk.consumers import ConsumerRegistry
from zk.gateways import GatewayRegistry
from zk.offsets import OffsetRegistry
from zk.owners import OwnerRegistry
from zk.partition_counts import PartitionCountRegistry
from zk.requests import DELETE, RequestRegistry

if TYPE_CHECKING:
    from collections.abc import Collection

    from zk.client import ZkClient

RELEASE_TIMEOUT_S = 15.0
"""How long members of groups may take to give partitions up that are gone."""


class TopicKeptError(KafkaError):
    """A broker would keep its part of a topic that is to be deleted as a whole; nothing was deleted."""


class TopicDeletion(NamedTuple):
    """Tells what deleting a topic affects, or has changed."""

    brokers: list[BrokerChange]
    readers: list[str]
    """Groups that have offsets in it."""
    forgotten: list[str]
    """Those of them whose offsets were removed."""
    again: list[int]
    """Brokers that have it again already: something publishes to it."""


def check_deletion(client: ZkClient, topic: str) -> None:
    """Raise TopicKeptError if a broker that has a topic takes no requests, and so would keep it."""
    takers = RequestRegistry(client).takers_beside(BrokerRegistry(client).brokers())
    for number in known_counts(client, topic):
        if number not in takers:
            raise TopicKeptError(
                f"broker {number} runs Kafka 0.7, which keeps topic {topic}: nothing was deleted. An operator can"
                f" delete it on the other brokers: kafka2011 topics delete {topic}"
            )


def delete_topic(
    client: ZkClient,
    topic: str,
    *,
    offsets: bool = True,
    dry_run: bool = False,
    timeout_s: float = REQUEST_TIMEOUT_S,
) -> TopicDeletion:
    """Delete a topic with what it holds, on all brokers that take requests; those that are away do it as they start.

    With `offsets`, also the offsets that groups have in it, when no member owns it any more: a new topic of that name
    begins at offset 0. May be repeated. Raises KafkaError if the topic is unknown, or a group does not give it up.
    """
    registry = BrokerRegistry(client)
    requests = RequestRegistry(client)
    stored = OffsetRegistry(client)
    held = _held(client, topic)
    living = registry.brokers()
    takers = requests.takers_beside(living)
    readers = [group for group in ConsumerRegistry(client).groups() if topic in stored.topics(group)]
    asked = [number for number in held if number in takers]
    away = sorted(takers - living.keys())
    outcomes: dict[int, str | None] = {}
    if not dry_run:
        for number in (*asked, *away):
            requests.place(number, topic, DELETE)
        outcomes = await_requests(requests, topic, asked, timeout_s)
    changes = []
    for number, (partitions, size_bytes) in held.items():
        if number not in takers:
            outcome, is_done = f"{OF_07}: stop it, remove {topic}-* from its log.dir, and start it again", False
        elif dry_run:
            outcome, is_done = "deletes it", True
        else:
            outcome, is_done = outcomes[number] or "deleted", outcomes[number] is None
        changes.append(BrokerChange(number, living.get(number), partitions, size_bytes, outcome, is_done))
    changes += [BrokerChange(number, None, 0, None, "away: deletes it when it starts", True) for number in away]
    if dry_run:
        return TopicDeletion(changes, readers, [], [])
    gone = {change.broker_id for change in changes if change.is_done}
    if offsets:
        for group in readers:
            _forget_offsets(client, group, topic, gone)
    again = []
    GatewayRegistry(client).forget(topic)
    PartitionCountRegistry(client).forget_topic(topic)
    if not registry.forget_topic(topic):
        again = sorted(registry.partitions_of(topic).keys() & gone)
    return TopicDeletion(changes, readers, readers if offsets else [], again)


def _held(client: ZkClient, topic: str) -> dict[int, tuple[int, int | None]]:
    """Return how many partitions each broker has, and how many bytes, if it says; by broker id."""
    sizes: defaultdict[int, list[int | None]] = defaultdict(list)
    for where, _, earliest, latest in describe_topic(client, topic):
        sizes[where.broker_id].append(None if earliest is None or latest is None else latest - earliest)
    return {
        number: (len(of_broker), None if None in of_broker else sum(size for size in of_broker if size is not None))
        for number, of_broker in sizes.items()
    }


def _forget_offsets(client: ZkClient, group: str, topic: str, broker_ids: Collection[int]) -> None:
    """Remove a group's offsets, once its members have given up what is gone: they commit when they do."""
    owners = OwnerRegistry(client)
    deadline_s = time.monotonic() + RELEASE_TIMEOUT_S
    while owned := [where for where in owners.owners(group, topic) if where.broker_id in broker_ids]:
        if time.monotonic() > deadline_s:
            raise KafkaError(
                f"group {group} still owns {owned[0]} after {RELEASE_TIMEOUT_S:g} s: the topic is deleted, but this"
                " group's offsets are not; stop it, and repeat the command"
            )
        time.sleep(POLL_S)
    stored = OffsetRegistry(client)
    stored.forget(group, [where for where in stored.offsets(group, topic) if where.broker_id in broker_ids])
