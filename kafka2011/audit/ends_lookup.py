"""Looks up where the partitions of a topic begin and end, for a reader's progress reports."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from kafka2011.admin.topics import describe_topic
from kafka2011.audit.report import AUDIT_TOPIC
from kafka2011.errors import KafkaError
from kafka2011.outages import Outages
from zk.audit import AuditNodes
from zk.cluster import TopicPartition
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zk.client import ZkClient

logger = logging.getLogger(__name__)


def cluster_id(zk_connect: str) -> str:
    """Return the id by which reports name a cluster. Raises ZkError."""
    with connect(zk_connect) as client:
        return AuditNodes(client).cluster_id()


class ClusterEndsLookup:
    """Looks up partitions in one cluster, as often as asked; connects the first time. Not thread-safe."""

    def __init__(self, zk_connect: str) -> None:
        self._zk_connect = zk_connect
        self._client: ZkClient | None = None
        self._pid = os.getpid()
        self._outages = Outages(logger)

    def look_up(self, topic: str) -> Mapping[TopicPartition, tuple[int, int] | None] | None:
        """Return each partition's bounds, None if its broker is away; None altogether if nothing can be looked up."""
        try:
            ends = self._ends(topic)
        except KafkaError as error:
            self._outages.failed("where partitions of topic %s end is not known now: %s", topic, error)
            return None
        self._outages.over()
        return ends

    def clock_ms(self) -> int | None:
        """Return the time of the cluster's ZooKeeper, in ms since 1970; None if it does not answer."""
        try:
            now_ms = AuditNodes(self._connected()).clock_ms()
        except KafkaError as error:
            self._outages.failed("ZooKeeper's time is not known now: %s", error)
            return None
        self._outages.over()
        return now_ms

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None and self._pid == os.getpid():
            self._client.shutdown()
        self._client = None

    def _ends(self, topic: str) -> dict[TopicPartition, tuple[int, int] | None]:
        client = self._connected()
        ends: dict[TopicPartition, tuple[int, int] | None] = {}
        for partition in describe_topic(client, topic):
            is_known = partition.earliest is not None and partition.latest is not None
            ends[partition.where] = (partition.earliest or 0, partition.latest or 0) if is_known else None
        if topic == AUDIT_TOPIC:
            away = AuditNodes(client).brokers() - {where.broker_id for where in ends}
            ends.update(dict.fromkeys(TopicPartition(topic, broker_id, 0) for broker_id in away))
        return ends

    def _connected(self) -> ZkClient:
        if self._client is None or self._pid != os.getpid():  # a forked child has no connection of its own
            self._client = connect(self._zk_connect)
            self._pid = os.getpid()
        return self._client
