"""The znodes of the audit: what the cluster is called in reports, which brokers may hold some, which tables report."""

from __future__ import annotations

import json
import logging
import uuid
from typing import TYPE_CHECKING, NamedTuple

from zk import paths
from zk.cluster import broker_id_from, text_from
from zk.errors import MalformedNode, NodeExists, NoNode, VersionConflict
from zk.malformed import MalformedNodes
from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zk.client import ZkClient

logger = logging.getLogger(__name__)


class TierClaim(NamedTuple):
    """Which table reports a topic as a tier, and how far: `sequence` is that of its newest table report.

    `generation` grows when another table takes over. The counts of its commits up to the one of that number and attempt
    were published. `version` is the znode's, at which a next claim takes the place of this one.
    """

    table: str
    generation: int = 1
    sequence: int = 0
    number: int = 0
    attempt: str = ""
    version: int = -1

    def to_json(self) -> bytes:
        """Return what the znode holds."""
        fields = self._asdict()
        del fields["version"]
        return json.dumps(fields).encode()


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

    def claim_of(self, topic: str, tier: str) -> TierClaim | None:
        """Return which table reports a topic as a tier, None before the first. Raises MalformedNode."""
        node = self._nodes.get(paths.audit_table(topic, tier))
        if node is None:
            return None
        try:
            fields = json.loads(text_from(node.path, node.data))
            table, attempt = str(fields["table"]), str(fields["attempt"])
            generation, sequence, number = (int(fields[name]) for name in ("generation", "sequence", "number"))
            return TierClaim(table, generation, sequence, number, attempt, node.version)
        except (ValueError, TypeError, KeyError) as error:
            raise MalformedNode(node.path, node.data, f"it does not say which table reports ({error})") from error

    def claim(self, topic: str, tier: str, claim: TierClaim) -> TierClaim | None:
        """Note a claim in place of the one of its version, -1 for the first. None where another one came first."""
        path = paths.audit_table(topic, tier)
        try:
            if claim.version < 0:
                self._nodes.create_with_parents(path, claim.to_json())
                return claim._replace(version=0)
            return claim._replace(version=self._nodes.set(path, claim.to_json(), claim.version))
        except (NodeExists, NoNode, VersionConflict):
            return None

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
