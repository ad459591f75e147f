"""Looking at a cluster: all that the checks need, read once, with a limit on every wait."""

from __future__ import annotations

import logging
import re
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafka2011.admin.doctor.seen import Ends, Seen, SeenBroker, SeenGroup, SeenServer
from kafka2011.admin.groups import Groups
from kafka2011.admin.partitions import asking, ends_of
from kafka2011.errors import KafkaError
from zk import paths
from zk.brokers import BrokerRegistry
from zk.cluster import TopicPartition
from zk.consumers import ConsumerRegistry
from zk.nodes import Nodes
from zk.offsets import OffsetRegistry
from zk.owners import OwnerRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zk.client import ZkClient
    from zk.cluster import Broker

_ANSWER_TIMEOUT_S = 5.0
_MOST_ANSWER_BYTES = 64 * 1024
_DEFAULT_PORT = 2181
_FIELD = re.compile(r"([^:]+): (.*)")
_FORBIDDEN = "is not in the whitelist"


def look(client: ZkClient, zk_connect: str) -> Seen:
    """Look at brokers, topics, groups and ZooKeeper's servers. Raises ZkError while ZooKeeper is away."""
    with _complaints() as malformed:
        brokers = BrokerRegistry(client)
        registered = brokers.brokers()
        topics = brokers.partitions_of_many(brokers.topics())
        entries = Nodes(client).get_many(paths.broker(number) for number in registered)
        groups = {name: _group(client, name) for name in ConsumerRegistry(client).groups()}
    wanted = {where for topic, counts in topics.items() for where in TopicPartition.all_of(topic, counts)}
    ends: dict[TopicPartition, Ends] = {}
    seen_brokers: dict[int, SeenBroker] = {}
    for number, broker in registered.items():
        its = sorted(where for where in wanted if where.broker_id == number)
        error = _ask(broker, its, ends)
        entry = entries.get(paths.broker(number))
        if entry is not None:
            seen_brokers[number] = SeenBroker(broker, entry.created_ms, error)
    servers = tuple(_server(address) for address in zk_connect.partition("/")[0].split(","))
    return Seen(servers, seen_brokers, topics, ends, groups, tuple(malformed))


def _group(client: ZkClient, name: str) -> SeenGroup:
    members = ConsumerRegistry(client).members(name)
    nodes = Nodes(client).get_many(paths.consumer(name, member) for member in members)
    registered_ms = {
        member: nodes[path].created_ms for member in members if (path := paths.consumer(name, member)) in nodes
    }
    owners = OwnerRegistry(client)
    owned = {
        where: owner.stream_id for topic in owners.topics(name) for where, owner in owners.owners(name, topic).items()
    }
    problems = Groups(client).problems(name) if registered_ms else []
    return SeenGroup(name, registered_ms, OffsetRegistry(client).export_group(name), owned, problems)


def _ask(broker: Broker, its: list[TopicPartition], ends: dict[TopicPartition, Ends]) -> str:
    """Note the ends of a broker's partitions, and return why it does not answer, if it does not."""
    try:
        with asking(broker) as consumer:
            consumer.multifetch([])
            for where in its:
                ends[where] = Ends(*ends_of(consumer, where.topic, where.partition))
    except KafkaError as error:
        return str(error)
    return ""


def _server(address: str) -> SeenServer:
    host, _, port = address.rpartition(":") if re.search(r":\d+$", address) else (address, "", str(_DEFAULT_PORT))
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _ANSWER_TIMEOUT_S) as asked:
            asked.sendall(b"srvr")
            text = asked.makefile("rb").read(_MOST_ANSWER_BYTES).decode(errors="replace")
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


@contextmanager
def _complaints() -> Iterator[list[str]]:
    """Gather what registries log of znodes that cannot be read."""
    found: list[str] = []

    class Gather(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.WARNING:
                found.append(record.getMessage())

    logger, handler = logging.getLogger("zk"), Gather()
    logger.addHandler(handler)
    propagates, logger.propagate = logger.propagate, False
    try:
        yield found
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagates
