"""Examines a cluster: reads all that the checks need once, with a limit on every wait."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from itertools import groupby, islice
from typing import TYPE_CHECKING

from kazoo.hosts import collect_hosts

from kafka2011.admin.doctor.checkup import Checkup, PendingRequest, ZooKeeperServer
from kafka2011.admin.partitions import asking, check_partition, fault_of_offset
from kafka2011.admin.replicas import describe_replicas
from kafka2011.admin.snapshot.cluster_reader import ClusterReader
from kafka2011.admin.snapshot.log_offsets import with_log_offsets
from kafka2011.errors import BrokerError, KafkaError
from zk.broker_clocks import BrokerClockRegistry
from zk.clock import SYSTEM_CLOCK
from zk.four_letters import ask
from zk.gateways import GatewayRegistry
from zk.protection import Protection, look
from zk.requests import RequestRegistry

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping

    from kafka2011.admin.snapshot.cluster_snapshot import ClusterSnapshot
    from zk.client import ZkClient
    from zk.cluster import TopicPartition

_ANSWER_TIMEOUT_S = 5.0
_MOST_OFFSETS = 1000
_FIELD = re.compile(r"([^:]+): (.*)")
_FORBIDDEN = "is not in the whitelist"


def examine(client: ZkClient, zk_connect: str) -> Checkup:
    """Read what the checks need: registries, brokers and ZooKeeper's servers. Raises ZkError without ZooKeeper."""
    reader = ClusterReader(client)
    cluster = with_log_offsets(reader.read(), with_idle=True)
    requests, clocks = RequestRegistry(client), BrokerClockRegistry(client)
    pending = tuple(_pending(requests))
    replicas, unreadable = describe_replicas(client)
    compared = clocks.clocks()
    gateways = GatewayRegistry(client)
    gateways.lists(cluster.topics)
    gateways.floors.floors(cluster.topics)
    claimed = gateways.claims()
    return Checkup(
        replace(cluster, replicas=replicas),
        servers=tuple(_server(host, port, client.tls) for host, port in collect_hosts(zk_connect)[0]),
        malformed=(
            *reader.malformed,
            *requests.malformed.texts,
            *clocks.malformed.texts,
            *unreadable,
            *gateways.malformed.texts,
            *gateways.floors.malformed.texts,
        ),
        requests=pending,
        clocks=compared,
        misplaced=_misplaced(cluster),
        claimed=frozenset(claimed),
        gateways=gateways.statuses(),
        deleted_topics=gateways.floors.count(),
        protection=look(client) if client.default_acl else Protection(),
    )


def _misplaced(cluster: ClusterSnapshot) -> dict[str, dict[TopicPartition, str]]:
    """Ask brokers whether a message starts where groups go on within a log; for _MOST_OFFSETS partitions at most."""
    committed = {
        (name, partition.where): partition.committed
        for name in cluster.groups
        for partition in cluster.group_partitions(name)
        if partition.committed is not None
        and partition.earliest is not None
        and partition.end is not None
        and partition.earliest < partition.committed < partition.end
    }
    found: dict[str, dict[TopicPartition, str]] = {}
    by_broker = sorted(islice(committed.items(), _MOST_OFFSETS), key=lambda item: item[0][1].broker_id)
    for number, its in groupby(by_broker, key=lambda item: item[0][1].broker_id):
        with suppress(KafkaError), asking(cluster.brokers[number].broker) as consumer:  # who is away is found as well
            for (name, where), offset in its:
                with suppress(BrokerError):  # such as a partition that was deleted a moment ago
                    check_partition(consumer, where.topic, where.partition)
                    fault = fault_of_offset(consumer, where.topic, where.partition, offset)
                    if fault is not None:
                        found.setdefault(name, {})[where] = fault
    return found


def _pending(registry: RequestRegistry) -> Iterator[PendingRequest]:
    now_ms = SYSTEM_CLOCK.wall_s() * 1000
    for number in sorted(registry.takers()):
        for topic, placed in registry.placed(number).items():
            what = "" if placed.request is None else placed.request.of(topic)
            yield PendingRequest(number, topic, what, placed.refusal, (now_ms - placed.created_ms) / 1000)


def _server(host: str, port: int, tls: ssl.SSLContext | None) -> ZooKeeperServer:
    address = f"{host}:{port}"
    try:
        text = ask(host, port, b"srvr", _ANSWER_TIMEOUT_S, tls)
    except OSError as error:
        return ZooKeeperServer(address, error=f"does not answer: {error}")
    return server_of(address, text)


def server_of(address: str, text: str) -> ZooKeeperServer:
    """Read what a ZooKeeper server answers to `srvr`; servers before 3.5.3 answer it, later ones unless forbidden."""
    if not text or _FORBIDDEN in text:
        return ZooKeeperServer(address)
    fields: Mapping[str, str] = {match[1]: match[2] for line in text.splitlines() if (match := _FIELD.fullmatch(line))}
    if "Mode" not in fields:
        return ZooKeeperServer(address, error=f"does not serve: {text.strip()[:200]}")
    return ZooKeeperServer(address, fields)
