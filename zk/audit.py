"""The znodes of the audit: what the cluster is called in its reports, and which brokers may hold some."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

from zk import paths
from zk.cluster import broker_id_from, text_from
from zk.errors import MalformedNode, NodeExists, NoNode
from zk.malformed import MalformedNodes
from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zk.client import ZkClient

logger = logging.getLogger(__name__)


class AuditNodes:
    """Reads and writes /audit. A broker stays known there when it goes, whereas its registration does not.

    Every method raises ZkUnavailable when ZooKeeper does not answer.
    """

    def __init__(self, client: ZkClient) -> None:
        self._nodes = Nodes(client)
        self.malformed = MalformedNodes(logger)

    def cluster_id(self) -> str:
        """Return the id of the cluster, which is made up when it is first asked for. Raises MalformedNode."""
        known = self.known_cluster_id()
        if known is not None:
            return known
        try:
            made = str(uuid.uuid4())
            self._nodes.create_with_parents(paths.AUDIT_CLUSTER, made.encode())
        except NodeExists:
            return self.cluster_id()
        return made

    def known_cluster_id(self) -> str | None:
        """Return the id of the cluster; None if nobody has asked for it yet. Raises MalformedNode."""
        node = self._nodes.get(paths.AUDIT_CLUSTER)
        return None if node is None else text_from(node.path, node.data)

    def clock_ms(self) -> int:
        """Return ZooKeeper's time now, in ms since 1970. It takes a write, since only that has a time."""
        while True:
            try:
                return self._nodes.write(paths.AUDIT_CLOCK, b"").modified_ms
            except NoNode:
                self._nodes.ensure_persistent(paths.AUDIT_CLOCK)

    def note_brokers(self, broker_ids: Iterable[int]) -> None:
        """Note brokers that may hold reports."""
        for broker_id in broker_ids:
            self._nodes.ensure_persistent(paths.audit_broker(broker_id))

    def forget_broker(self, broker_id: int) -> None:
        """Note that a broker holds no reports any more."""
        self._nodes.delete(paths.audit_broker(broker_id))

    def brokers(self) -> set[int]:
        """Return the brokers that may hold reports."""
        brokers: set[int] = set()
        for name in self._nodes.children(paths.AUDIT_BROKERS):
            try:
                brokers.add(broker_id_from(paths.child(paths.AUDIT_BROKERS, name), name))
            except MalformedNode as error:
                self.malformed.skip(error)
        return brokers
