"""The anchors of a partition's numbers in ZooKeeper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.errors import LogError
from kafka2011.gateway.numbering.stores import AnchorState
from zk.errors import NodeExists, NoNode, VersionConflict

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable

    from zk.cluster import TopicPartition
    from zk.gateways import GatewayRegistry


class ZkAnchors:
    """Reads and writes one partition's anchors. Raises ZkError.

    A write over what somebody else has written raises LogError: this gateway's claim was lost, or ZooKeeper was
    restored to an older copy. If `holds` says that the claim is certain, it is the latter, and the next write succeeds.
    """

    def __init__(
        self, registry: GatewayRegistry, topic_id: uuid.UUID, where: TopicPartition, holds: Callable[[], bool]
    ) -> None:
        self._holds = holds
        self._registry = registry
        self._topic_id = topic_id
        self._where = where
        self._version: int | None = None

    def load(self) -> AnchorState | None:
        """Return what is stored; None if nothing is. Raises AnchorsError if it cannot be read."""
        stored = self._registry.anchor(self._topic_id, self._where)
        if stored is None:
            self._version = None
            return None
        text, self._version = stored
        return AnchorState.of(text)

    def store(self, state: AnchorState) -> None:
        """Write it."""
        try:
            text = state.text().encode()
            self._version = self._registry.store_anchor(self._topic_id, self._where, text, self._version)
        except (VersionConflict, NodeExists, NoNode) as error:
            if self._holds():
                self.load()
            raise LogError(f"{self._where}: its anchors are not what this gateway has written: {error}") from error
