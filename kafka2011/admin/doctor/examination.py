"""Looking at a cluster: all that the checks need, read once, with a limit on every wait."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kazoo.hosts import collect_hosts

from kafka2011.admin.doctor.checkup import Ends, Seen, SeenBroker, SeenGroup, SeenReplicas, SeenRequest, SeenServer
from kafka2011.admin.groups import Groups
from kafka2011.admin.partitions import asking, ends_of_many
from kafka2011.admin.replicas import ReplicaChangeError, describe_broker
from kafka2011.errors import KafkaError
from kafka2011.replica.state import ReplicaStateError
from zk import paths
from zk.brokers import BrokerRegistry
from zk.clock import SYSTEM_CLOCK
from zk.cluster import TopicPartition
from zk.consumers import ConsumerRegistry
from zk.four_letters import ask
from zk.nodes import Nodes
from zk.offsets import OffsetRegistry
from zk.owners import OwnerRegistry
from zk.protection import find_open
from zk.replicas import replicated_brokers
from zk.requests import RequestRegistry

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping

    from kafka2011.admin.replicas import BrokerReplicas
    from zk.client import ZkClient
    from zk.cluster import Broker

_ANSWER_TIMEOUT_S = 5.0
_FIELD = re.compile(r"([^:]+): (.*)")
_FORBIDDEN = "is not in the whitelist"


def look(client: ZkClient, zk_connect: str) -> Seen:
    """Look at brokers, topics, groups and ZooKeeper's servers. Raises ZkError while ZooKeeper is away."""
    brokers, nodes = BrokerRegistry(client), Nodes(client)
    registered = brokers.brokers()
    topics = brokers.partitions_of_many(brokers.topics())
    entries = nodes.get_many(paths.broker(number) for number in registered)
    looked = _GroupsLook(client)
    groups = {name: looked.at(name) for name in looked.names()}
    wanted = {where for topic, counts in topics.items() for where in TopicPartition.all_of(topic, counts)}
    ends: dict[TopicPartition, Ends] = {}
    seen_brokers: dict[int, SeenBroker] = {}
    for number, broker in registered.items():
        its = sorted(where for where in wanted if where.broker_id == number)
        error = _ask(broker, its, ends)
        entry = entries.get(paths.broker(number))
        if entry is not None:
            seen_brokers[number] = SeenBroker(broker, entry.created_ms, error)
    servers = tuple(_server(host, port, client.tls) for host, port in collect_hosts(zk_connect)[0])
    open_nodes = find_open(client) if client.default_acl else ()
    requests = RequestRegistry(client)
    asked = tuple(_requests(requests))
    replicas, odd = _replicas(client)
    malformed = (*brokers.malformed.texts, *looked.malformed(), *requests.malformed.texts, *odd)
    return Seen(servers, seen_brokers, topics, ends, groups, malformed, asked, replicas, open_nodes)


def _replicas(client: ZkClient) -> tuple[list[SeenReplicas], list[str]]:
    """Return the replicas of all broker ids, and what is wrong with those whose state cannot be read."""
    found, odd = [], []
    for number in replicated_brokers(client):
        try:
            found.append(_seen_replicas(describe_broker(client, number)))
        except ReplicaChangeError:  # they were removed
            continue
        except ReplicaStateError as error:
            odd.append(str(error))
    return found, odd


def _seen_replicas(described: BrokerReplicas) -> SeenReplicas:
    alive = [each for each in described.replicas if each.address is not None]
    return SeenReplicas(
        described.broker_id,
        next((each.replica.name for each in described.replicas if each.role == "leader"), None),
        [each.replica.name for each in described.replicas if each.is_in_sync],
        [each.replica.name for each in alive],
        {each.replica.name: each.bytes_behind for each in alive if not each.is_in_sync},
        described.error,
    )


def _requests(registry: RequestRegistry) -> Iterator[SeenRequest]:
    now_ms = SYSTEM_CLOCK.wall_s() * 1000
    for number in sorted(registry.takers()):
        for topic, placed in registry.placed(number).items():
            what = "" if placed.request is None else placed.request.of(topic)
            yield SeenRequest(number, topic, what, placed.refusal, (now_ms - placed.created_ms) / 1000)


class _GroupsLook:
    """Looks at groups, through one registry of each kind."""

    def __init__(self, client: ZkClient) -> None:
        self._nodes = Nodes(client)
        self._groups = Groups(client)
        self._consumers = ConsumerRegistry(client)
        self._owners = OwnerRegistry(client)
        self._offsets = OffsetRegistry(client)

    def names(self) -> list[str]:
        return self._consumers.groups()

    def at(self, name: str) -> SeenGroup:
        members = {paths.consumer(name, member): member for member in self._consumers.members(name)}
        registered_ms = {members[path]: node.created_ms for path, node in self._nodes.get_many(members).items()}
        owned = {
            where: owner.stream_id
            for topic in self._owners.topics(name)
            for where, owner in self._owners.owners(name, topic).items()
        }
        problems = self._groups.problems(name) if registered_ms else []
        return SeenGroup(name, registered_ms, self._offsets.export_group(name), owned, problems)

    def malformed(self) -> tuple[str, ...]:
        return (*self._consumers.malformed.texts, *self._owners.malformed.texts, *self._offsets.malformed.texts)


def _ask(broker: Broker, its: list[TopicPartition], ends: dict[TopicPartition, Ends]) -> str:
    """Note the ends of a broker's partitions, and return why it does not answer, if it does not."""
    try:
        with asking(broker) as consumer:
            consumer.multifetch([])
            asked = ends_of_many(consumer, [(where.topic, where.partition) for where in its])
            for where, found in zip(its, asked, strict=True):
                ends[where] = Ends(*found)
    except KafkaError as error:
        return str(error)
    return ""


def _server(host: str, port: int, tls: ssl.SSLContext | None) -> SeenServer:
    address = f"{host}:{port}"
    try:
        text = ask(host, port, b"srvr", _ANSWER_TIMEOUT_S, tls)
    except OSError as error:
        return SeenServer(address, error=f"does not answer: {error}")
    return server_of(address, text)


def server_of(address: str, text: str) -> SeenServer:
    """Read what a ZooKeeper server answers to `srvr`; servers before 3.5.3 answer it, later ones unless forbidden."""
    if not text or _FORBIDDEN in text:
        return SeenServer(address)
    fields: Mapping[str, str] = {found[1]: found[2] for line in text.splitlines() if (found := _FIELD.fullmatch(line))}
    if "Mode" not in fields:
        return SeenServer(address, error=f"does not serve: {text.strip()[:200]}")
    return SeenServer(address, fields)
