"""The ownership registry: which stream owns each partition in a group (paper, section 3.2)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zk import ephemeral, paths
from zk.cluster import TopicPartition, text_from
from zk.errors import MalformedNode, raise_first
from zk.malformed import MalformedNodes
from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zk.client import ZkClient
    from zk.errors import NodeHeld
    from zk.known_nodes import KnownNodes
    from zk.nodes import Node, Watch

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Owner:
    """The stream (`{consumer}-{number}`) that owns a partition, the session that wrote so, and when it did."""

    stream_id: str
    session_id: int
    since_ms: int = field(default=0, compare=False)


class OwnerRegistry:
    """Reads and writes /consumers/{group}/owners.

    With `session_id`, every call goes out in that session or raises NotConnected. Nothing is retried, and nothing is
    queued over a reconnect. Every method raises ZkUnavailable when ZooKeeper does not answer. With `consumer_id`, what
    other members have claimed in the same session is theirs.
    """

    def __init__(self, client: ZkClient, session_id: int | None = None, consumer_id: str | None = None) -> None:
        self._nodes = Nodes(client, session_id)
        self._consumer_id = consumer_id
        self.malformed = MalformedNodes(logger)

    def claim(self, group: str, where: TopicPartition, stream_id: str) -> None:
        """Make a stream of this session the owner of a partition. Raises NodeHeld, naming the other owner."""
        raise_first(self.claim_many(group, {where: stream_id}).values())

    def claim_many(self, group: str, streams: Mapping[TopicPartition, str]) -> dict[TopicPartition, NodeHeld]:
        """Make streams of ours the owners of partitions, pipelined, and return those that others own.

        Raises the first error once all were tried: each may be ours by then.
        """
        by_path = {paths.owner(group, where): where for where in streams}
        data_by_path = {path: streams[where].encode() for path, where in by_path.items()}
        held = ephemeral.claim_many(self._nodes, data_by_path, self._is_of_this_member)
        return {by_path[path]: error for path, error in held.items()}

    def release_many(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Give up those of these partitions that are ours, pipelined.

        Raises the first error once all were tried: each may be given up by then.
        """
        every = (paths.owner(group, where) for where in partitions)
        ephemeral.release_many(self._nodes, every, self._is_of_this_member)

    def release(self, group: str, where: TopicPartition) -> bool:
        """Give up a partition; False, and nothing deleted, when it is not ours."""
        return bool(ephemeral.release_many(self._nodes, [paths.owner(group, where)], self._is_of_this_member))

    def are_mine(self, nodes: Iterable[Node]) -> set[str]:
        """Return the paths of those owner nodes that are ours, as they were read."""
        session_id = self._nodes.session_id
        return {node.path for node in nodes if node.owner == session_id and self._is_of_this_member(node)}

    def _is_of_this_member(self, node: Node) -> bool:
        if self._consumer_id is None:
            return True
        consumer_id, _, _ = (node.data or b"").decode(errors="replace").rpartition("-")
        return consumer_id == self._consumer_id

    def owners(self, group: str, topic: str) -> dict[TopicPartition, Owner]:
        """Read who owns each partition of a topic, in numeric order; malformed nodes are skipped and counted."""
        return self._owners(topic, self._nodes.read_children(paths.owners(group, topic)).values())

    def owners_of(self, known: KnownNodes) -> dict[TopicPartition, Owner]:
        """Return the same from a topic's owner nodes as they were read last."""
        return self._owners(known.path.rpartition("/")[2], known.nodes)

    def _owners(self, topic: str, nodes: Iterable[Node]) -> dict[TopicPartition, Owner]:
        owners: dict[TopicPartition, Owner] = {}
        for node in nodes:
            try:
                owners[TopicPartition.of_node(topic, node.path)] = _owner(node)
            except MalformedNode as error:
                self.malformed.skip(error)
        return dict(sorted(owners.items()))

    def topics(self, group: str, watch: Watch | None = None) -> list[str]:
        """List the topics in which a group ever owned partitions, sorted."""
        return self._nodes.children(paths.group_owners(group), watch)


def _owner(node: Node) -> Owner:
    return Owner(text_from(node.path, node.data), node.owner, node.created_ms)
