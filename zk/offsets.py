"""The offset registry: how far each group has consumed each partition (paper, section 3.2)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from zk import paths
from zk.cluster import TopicPartition, decimal_from
from zk.errors import MalformedNode, NodeExists, NoNode, VersionConflict, ZkError
from zk.malformed import MalformedNodes
from zk.nodes import Nodes, Write

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zk.client import ZkClient
    from zk.known_nodes import KnownNodes
    from zk.nodes import Node, Watch

logger = logging.getLogger(__name__)

MAX_INT64 = 2**63 - 1
_MANY = 16


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The next offset to consume of a partition, the version of the znode that said so, and when it was written."""

    offset: int
    version: int
    at_ms: int = field(default=0, compare=False)
    created_zxid: int = field(default=0, compare=False)
    """The number of the write that made the znode, among all writes to ZooKeeper: versions count from there."""


class OffsetCommit(NamedTuple):
    """The next offset to consume of a partition, to be written if its znode is still at a version."""

    where: TopicPartition
    offset: int
    version: int


class OffsetRegistry:
    """Reads and writes /consumers/{group}/offsets.

    With `session_id`, every call goes out in that session or raises NotConnected. Nothing is retried, and nothing is
    queued over a reconnect. Every method raises ZkUnavailable when ZooKeeper does not answer.
    """

    def __init__(self, client: ZkClient, session_id: int | None = None) -> None:
        self._nodes = Nodes(client, session_id)
        self.malformed = MalformedNodes(logger)

    def read(self, group: str, where: TopicPartition) -> CommittedOffset | None:
        """Read a partition's offset; None when the group has none. Raises MalformedNode."""
        node = self._nodes.get(paths.offset(group, where))
        return None if node is None else _committed(node)

    def read_many(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset | MalformedNode]:
        """Read offsets, pipelined; partitions without one are left out, without being asked for if they are many."""
        by_path = {paths.offset(group, where): where for where in partitions}
        if len(by_path) >= _MANY:
            topics = {paths.offsets(group, where.topic) for where in by_path.values()}
            there = {
                paths.child(path, name)
                for path, names in self._nodes.children_of_many(topics).items()
                for name in names
            }
            by_path = {path: where for path, where in by_path.items() if path in there}
        offsets: dict[TopicPartition, CommittedOffset | MalformedNode] = {}
        for path, node in self._nodes.get_many(by_path).items():
            try:
                offsets[by_path[path]] = _committed(node)
            except MalformedNode as error:
                offsets[by_path[path]] = error
        return offsets

    def write(self, group: str, where: TopicPartition, offset: int) -> int:
        """Write an offset whatever is there, and return the new version; commits with earlier versions then fail."""
        return self._nodes.upsert(paths.offset(group, where), _text(offset))

    def create(self, group: str, where: TopicPartition, offset: int) -> int:
        """Write the first offset of a partition, and return its version. Raises VersionConflict when there is one."""
        path = paths.offset(group, where)
        try:
            self._nodes.create_with_parents(path, _text(offset))
        except NodeExists:
            raise VersionConflict(path, None) from None
        return 0

    def create_many(self, group: str, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | ZkError]:
        """Write first offsets, many in a request: the version of each, or the error that `create` would raise."""
        by_path = {paths.offset(group, where): where for where in offsets}
        outcomes = self._nodes.create_many({path: _text(offsets[where]) for path, where in by_path.items()})
        return {
            by_path[path]: 0
            if outcome is None
            else VersionConflict(path, None)
            if isinstance(outcome, NodeExists)
            else outcome
            for path, outcome in outcomes.items()
        }

    def commit(self, group: str, where: TopicPartition, offset: int, version: int) -> int:
        """Write an offset if the znode is still at `version`; return the new version. Raises VersionConflict.

        After ConnectionLost nobody knows whether it was written: read it, or write again as the owner.
        """
        outcome = self.commit_many(group, [OffsetCommit(where, offset, version)])[where]
        if isinstance(outcome, ZkError):
            raise outcome
        return outcome

    def commit_many(self, group: str, commits: Iterable[OffsetCommit]) -> dict[TopicPartition, int | ZkError]:
        """Write offsets, pipelined: the new version of each, or the error that `commit` would raise."""
        by_path = {paths.offset(group, commit.where): commit for commit in commits}
        outcomes = self._nodes.set_many(
            Write(path, _text(commit.offset), commit.version) for path, commit in by_path.items()
        )
        return {
            by_path[path].where: VersionConflict(path, by_path[path].version)
            if isinstance(outcome, NoNode)
            else outcome
            for path, outcome in outcomes.items()
        }

    def offsets(self, group: str, topic: str) -> dict[TopicPartition, CommittedOffset]:
        """Read a group's offsets of one topic, in numeric order; malformed nodes are skipped and counted."""
        return self._offsets(topic, self._nodes.read_children(paths.offsets(group, topic)).values())

    def offsets_of(self, known: KnownNodes) -> dict[TopicPartition, CommittedOffset]:
        """Return the same from a topic's offset nodes as they were read last."""
        return self._offsets(known.path.rpartition("/")[2], known.nodes)

    def _offsets(self, topic: str, nodes: Iterable[Node]) -> dict[TopicPartition, CommittedOffset]:
        offsets: dict[TopicPartition, CommittedOffset] = {}
        for node in nodes:
            try:
                offsets[TopicPartition.of_node(topic, node.path)] = _committed(node)
            except MalformedNode as error:
                self.malformed.skip(error)
        return dict(sorted(offsets.items()))

    def forget(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """Remove the offsets of partitions and what gateways note of them, as if the group had never consumed them."""
        self._nodes.delete_many(
            path(group, where) for where in partitions for path in (paths.offset, paths.gateway_commit)
        )

    def topics(self, group: str, watch: Watch | None = None) -> list[str]:
        """List the topics for which a group has offsets, sorted."""
        return self._nodes.children(paths.group_offsets(group), watch)

    def export_group(self, group: str) -> dict[TopicPartition, int]:
        """Read all offsets of a group, sorted."""
        return {
            where: committed.offset
            for topic in self.topics(group)
            for where, committed in self.offsets(group, topic).items()
        }

    def import_group(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Write offsets as `export_group` returns them; those of other partitions stay."""
        for where, offset in offsets.items():
            self.write(group, where, offset)


def _text(offset: int) -> bytes:
    if not 0 <= offset <= MAX_INT64:
        raise ValueError(f"offset {offset}: must be 0 to {MAX_INT64}")
    return b"%d" % offset


def _committed(node: Node) -> CommittedOffset:
    return CommittedOffset(
        decimal_from(node.path, node.data, MAX_INT64, "an offset"), node.version, node.modified_ms, node.created_zxid
    )
