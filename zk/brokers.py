"""The broker registry: which brokers live, and which partitions they store (paper, section 3.2)."""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from zk import ephemeral, paths
from zk.cluster import MAX_INT32, Broker, TlsListener, broker_id_from, decimal_from
from zk.errors import HasReplicas, MalformedNode, NodeNotEmpty
from zk.known_nodes import read_again
from zk.malformed import MalformedNodes
from zk.nodes import Nodes
from zk.security import Security

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zk.client import ZkClient
    from zk.known_nodes import KnownTopic
    from zk.nodes import Check, Node, Watch

logger = logging.getLogger(__name__)

_MOST_NAMED = 20
"""A line of the log names so many topics."""


class Registration(NamedTuple):
    """A live broker, and when it registered, by ZooKeeper's clock."""

    broker: Broker
    since_ms: int


class BrokerRegistry:
    """Reads and writes /brokers. Keeps no state: after a new session the broker registers all it has again.

    Readers leave out others' malformed znodes, log each once, and count them in `malformed.count`.
    Every method raises ZkUnavailable when ZooKeeper does not answer. `as_registered` gives brokers the addresses of
    their own znodes, whatever the client's security says. With `session_id`, all calls are of that session.
    """

    def __init__(self, client: ZkClient, *, as_registered: bool = False, session_id: int | None = None) -> None:
        self._nodes = Nodes(client, session_id)
        self._security = Security() if as_registered else client.security
        self.malformed = MalformedNodes(logger)

    def ensure_parents(self) -> None:
        """Create the persistent parents, so that they can be watched."""
        self._nodes.ensure_persistent(paths.BROKER_IDS)
        self._nodes.ensure_persistent(paths.BROKER_TOPICS)

    def register(
        self, broker: Broker, wait_ms: int = 0, tls: TlsListener | None = None, check: Check | None = None
    ) -> None:
        """Register a broker, waiting up to `wait_ms` for an old node of its id to go.

        Where it listens by `tls` is there first: whoever sees the broker sees that too.

        A broker that is restarted at once meets its own old node until that session times out, so wait a little longer
        than a session timeout. Raises NodeHeld, naming the holder, when the node stays. With a `check` it
        registers in one step with that, and waits for no node of its id; raises VersionConflict when that one fails.
        Without one it is no replica: raises HasReplicas when its id has some.
        """
        if check is None and self._nodes.exists(state := paths.replica_state(broker.id)):
            raise HasReplicas(state, broker.id)
        self.ensure_parents()
        if tls is not None:
            self._nodes.ensure_persistent(paths.BROKER_LISTENERS)
            ephemeral.hold(self._nodes, paths.listeners(broker.id), tls.text.encode(), wait_ms)
        if check is None:
            ephemeral.hold(self._nodes, paths.broker(broker.id), broker.text.encode(), wait_ms)
        else:
            ephemeral.claim_while(self._nodes, paths.broker(broker.id), broker.text.encode(), check)
        logger.info("Registered broker %d as %s", broker.id, broker.text)

    def register_topics(self, broker_id: int, counts: Mapping[str, int], wait_ms: int = 0) -> None:
        """Register how many partitions of topics a broker stores; waits and raises as `register` does."""
        for topic, count in counts.items():
            if not 0 < count <= MAX_INT32:
                raise ValueError(f"topic {topic}: {count} partitions cannot be registered")
        data_by_path = {paths.topic_broker(topic, broker_id): b"%d" % count for topic, count in counts.items()}
        for path in ephemeral.claim_many(self._nodes, data_by_path):
            ephemeral.hold(self._nodes, path, data_by_path[path], wait_ms)
        logger.info("Registered %d topics on broker %d: %s", len(counts), broker_id, _some(counts))

    def change_topic(self, broker_id: int, topic: str, partitions: int) -> None:
        """Register another number of partitions of a topic that this session has registered.

        The node is made anew, not only written: consumers and producers of 0.7 watch for children alone.
        """
        self._nodes.replace_ephemeral(paths.topic_broker(topic, broker_id), b"%d" % partitions)
        logger.info("Registered %d partitions of topic %s on broker %d now", partitions, topic, broker_id)

    def unregister_topic(self, broker_id: int, topic: str) -> None:
        """Say that a broker stores nothing of a topic any more."""
        ephemeral.release(self._nodes, paths.topic_broker(topic, broker_id))

    def withdraw(self, broker_id: int) -> dict[str, int]:
        """Remove all znodes of a broker that runs on, and return how many partitions it has of each topic.

        Its topics go first: consumers of 0.7 that saw a topic on a broker without an address would not rebalance.
        """
        topics = self.partitions_of_many(self.topics())
        counts = {topic: on[broker_id] for topic, on in topics.items() if broker_id in on}
        self._nodes.delete_many(paths.topic_broker(topic, broker_id) for topic in counts)
        self._nodes.delete(paths.broker(broker_id))
        logger.info("Deregistered broker %d with %d topics", broker_id, len(counts))
        return counts

    def forget_topic(self, topic: str) -> bool:
        """Remove a topic that no broker has registered; False, with nothing removed, when one has."""
        try:
            self._nodes.delete(paths.topic(topic))
        except NodeNotEmpty:
            return False
        return True

    def brokers(self, watch: Watch | None = None) -> dict[int, Broker]:
        """Return the live brokers by id, where they listen by TLS if that is how they are to be met."""
        return {broker_id: broker for broker_id, (broker, _) in self.registrations(watch).items()}

    def registrations(self, watch: Watch | None = None) -> dict[int, Registration]:
        """Return the same, each with when it registered."""
        brokers: dict[int, Broker] = {}
        since_ms: dict[int, int] = {}
        for name, node in self._nodes.read_children(paths.BROKER_IDS, watch, watch_data=True).items():
            try:
                broker_id = broker_id_from(node.path, name)
                brokers[broker_id] = Broker.from_node(node.path, broker_id, node.data)
            except MalformedNode as error:
                self.malformed.skip(error)
            else:
                since_ms[broker_id] = node.created_ms
        brokers = dict(sorted(brokers.items()))
        if self._security.brokers is not None:
            brokers = self._by_tls(brokers)
        return {broker_id: Registration(broker, since_ms[broker_id]) for broker_id, broker in brokers.items()}

    def _by_tls(self, brokers: dict[int, Broker]) -> dict[int, Broker]:
        """Return brokers to be met by TLS: one that listens plainly alone will fail to shake hands."""
        path_of = {paths.listeners(number): number for number in brokers}
        for path, node in self._nodes.get_many(path_of).items():
            broker = brokers[path_of[path]]
            try:
                listener = TlsListener.from_node(path, node.data)
            except MalformedNode as error:
                self.malformed.skip(error)
            else:
                brokers[broker.id] = replace(broker, host=listener.host, port=listener.port)
        return {number: replace(broker, security=self._security.path) for number, broker in brokers.items()}

    def topics(self, watch: Watch | None = None) -> list[str]:
        """List all topics that were ever registered, sorted; their nodes stay when their brokers go."""
        return self._nodes.children(paths.BROKER_TOPICS, watch)

    def partitions_of(self, topic: str, watch: Watch | None = None) -> dict[int, int]:
        """Return how many partitions of a topic each live broker stores, by broker id; empty for an unknown topic."""
        return self.partitions_of_many([topic], watch)[topic]

    def partitions_of_many(self, topics: Iterable[str], watch: Watch | None = None) -> dict[str, dict[int, int]]:
        """Return the same for many topics, read together."""
        topic_at = {paths.topic(topic): topic for topic in topics}
        read = self._nodes.read_children_of_many(topic_at, lambda _: watch, watch_data=True)
        return {topic_at[path]: self._counts(nodes.values()) for path, nodes in read.items()}

    def follow(self, topics: Iterable[KnownTopic]) -> None:
        """Read what has changed of topics since they were read last: one request for each that has.

        And one for each broker that is new there. When brokers come or go, all readers of all their topics read.
        """
        read_again(self._nodes, topics)

    def counts_of(self, known: KnownTopic) -> dict[int, int]:
        """Return how many partitions of a topic each live broker stores, as it was read last."""
        return self._counts(known.nodes)

    def count_changes(self, topics: Iterable[KnownTopic]) -> None:
        """Ask how often topics have changed, so that `follow` reads those of which no watch has told."""
        known_at = {known.path: known for known in topics}
        for path, changes in self._nodes.count_changes(known_at).items():
            known_at[path].compare(changes)

    def _counts(self, nodes: Iterable[Node]) -> dict[int, int]:
        counts: dict[int, int] = {}
        for node in nodes:
            name = node.path.rpartition("/")[2]
            try:
                broker_id = broker_id_from(node.path, name)
                counts[broker_id] = decimal_from(node.path, node.data, MAX_INT32, "a number of partitions")
            except MalformedNode as error:
                self.malformed.skip(error)
        return dict(sorted(counts.items()))


def _some(counts: Mapping[str, int]) -> str:
    first = [f"{topic} with {count} partitions" for topic, count in islice(counts.items(), _MOST_NAMED)]
    return ", ".join(first) + (", ..." if len(counts) > _MOST_NAMED else "")
