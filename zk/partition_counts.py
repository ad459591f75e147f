"""Topics with an exact number of partitions, in ZooKeeper: the number that each broker keeps, also while it is down.

Brokers write `/partition_counts/{topic}/{id}` before they register such a topic. So a broker with `join.topics` knows
which topics it must not extend, and a topic can grow to a number that includes partitions of brokers that are down.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from zk import paths
from zk.cluster import MAX_INT32, broker_id_from, decimal_from
from zk.errors import MalformedNode, NodeNotEmpty
from zk.malformed import MalformedNodes
from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from zk.client import ZkClient

logger = logging.getLogger(__name__)


class PartitionCountRegistry:
    """Reads and writes /partition_counts. Every method raises ZkUnavailable when ZooKeeper does not answer.

    Malformed znodes are left out, logged once each, and counted in `malformed.count`.
    """

    def __init__(self, client: ZkClient, session_id: int | None = None) -> None:
        self._nodes = Nodes(client, session_id)
        self.malformed = MalformedNodes(logger)

    def note(self, broker_id: int, counts: Mapping[str, int]) -> None:
        """Note the exact number of partitions that a broker keeps of each topic."""
        path_of = {topic: paths.partition_count(topic, broker_id) for topic in counts}
        noted = self._nodes.get_many(path_of.values())
        for topic, path in path_of.items():
            text = b"%d" % counts[topic]
            if path not in noted or noted[path].data != text:
                self._nodes.upsert(path, text)

    def forget(self, broker_id: int, topic: str) -> None:
        """Note that a broker keeps no exact number of a topic."""
        self._nodes.delete(paths.partition_count(topic, broker_id))

    def keep_only(self, broker_id: int, topics: Collection[str]) -> None:
        """Note that a broker keeps exact numbers of these topics alone: its disk may have been replaced."""
        others = [topic for topic in self._nodes.children(paths.PARTITION_COUNTS) if topic not in topics]
        self._nodes.delete_many(paths.partition_count(topic, broker_id) for topic in others)

    def forget_topic(self, topic: str) -> None:
        """Let the topic have any number of partitions, unless a broker still keeps an exact one."""
        with suppress(NodeNotEmpty):
            self._nodes.delete(paths.partition_counts(topic))

    def counts(self, topic: str) -> dict[int, int]:
        """Return the exact number of partitions that each broker keeps of a topic, by broker id."""
        return self.counts_of_many([topic])[topic]

    def counts_of_many(self, topics: Iterable[str]) -> dict[str, dict[int, int]]:
        """Return the same for many topics, read together."""
        topic_at = {paths.partition_counts(topic): topic for topic in topics}
        counts: dict[str, dict[int, int]] = {}
        for path, nodes in self._nodes.read_children_of_many(topic_at).items():
            of_topic = counts.setdefault(topic_at[path], {})
            for name, node in nodes.items():
                try:
                    count = decimal_from(node.path, node.data, MAX_INT32, "a number of partitions")
                    of_topic[broker_id_from(node.path, name)] = count
                except MalformedNode as error:
                    self.malformed.skip(error)
        return counts
