"""What gateways for today's clients keep: who serves which broker, the order of partitions, and numbers of messages."""

from __future__ import annotations

import base64
import json
import logging
import uuid
from typing import TYPE_CHECKING, NamedTuple

from zk import ephemeral, paths
from zk.cluster import TopicPartition, broker_id_from, text_from
from zk.conflicts import retry_conflicts
from zk.errors import MalformedNode, NodeExists, NodeHeld, NoNode, VersionConflict
from zk.malformed import MalformedNodes
from zk.nodes import Check, Creation, Deletion, Nodes, Write
from zk.number_floors import FloorRegistry, NumberFloors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zk.client import ZkClient
    from zk.nodes import Node, Watch

logger = logging.getLogger(__name__)


class GatewayAddress(NamedTuple):
    """Where today's clients reach a gateway, and a node id there; `tls_port` is None without one.

    A gateway has a node id of its own and one for each broker that it serves, so that clients open a connection for
    each broker: a slow one then delays only what is sent to it. For a broker's, `gateway_id` is the gateway's own.
    """

    node_id: int
    host: str
    port: int
    tls_port: int | None = None
    gateway_id: int | None = None

    @property
    def of_gateway(self) -> GatewayAddress:
        """The same address with the gateway's own node id."""
        return self if self.gateway_id is None else self._replace(node_id=self.gateway_id, gateway_id=None)

    @property
    def text(self) -> str:
        """The text of a claim's znode."""
        return json.dumps(self._asdict())

    @classmethod
    def from_node(cls, path: str, data: bytes | None) -> GatewayAddress:
        """Parse that text. Raises MalformedNode."""
        text = text_from(path, data)
        try:
            document = json.loads(text)
            node_id, host, port = int(document["node_id"]), str(document["host"]), int(document["port"])
            tls_port, gateway_id = (
                None if (number := document.get(name)) is None else int(number) for name in ("tls_port", "gateway_id")
            )
            address = cls(node_id, host, port, tls_port, gateway_id)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise MalformedNode(path, text, "not the address of a gateway") from error
        return address


class BrokerFault(NamedTuple):
    """A broker's fault as a gateway sees it, and its remedy."""

    text: str
    remedy: str


class GatewayStatus(NamedTuple):
    """The faults at a gateway: why it cannot use its directory ("" if it can), and brokers that trouble it."""

    directory: str = ""
    brokers: Mapping[int, BrokerFault] = {}

    @property
    def text(self) -> str:
        """The text of the znode that says that the gateway lives; empty if all is well."""
        faults = {broker_id: list(fault) for broker_id, fault in sorted(self.brokers.items())}
        return json.dumps({"directory": self.directory, "brokers": faults}) if self.directory or faults else ""

    @classmethod
    def from_node(cls, path: str, data: bytes | None) -> GatewayStatus:
        """Parse that text. Raises MalformedNode."""
        text = text_from(path, data)
        if not text:
            return cls()
        try:
            document = json.loads(text)
            faults = {int(number): BrokerFault(*map(str, fault)) for number, fault in document["brokers"].items()}
            return cls(str(document["directory"]), faults)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise MalformedNode(path, text, "not the status of a gateway") from error


class PartitionList(NamedTuple):
    """A topic as today's clients see it: its id, and its partitions, whose place in the list is their number.

    Nothing is ever removed from a list or moved in it. `version` is the znode's, -1 before it was written. A list of a
    deleted topic says so: a topic of that name will be another one.
    """

    topic: str
    topic_id: uuid.UUID
    partitions: tuple[TopicPartition, ...]
    version: int = -1
    is_deleted: bool = False

    @property
    def document(self) -> dict[str, object]:
        """The object that JSON keeps of the list."""
        document: dict[str, object] = {
            "id": self.topic_id.hex,
            "partitions": [where.znode_name for where in self.partitions],
        }
        return {**document, "deleted": True} if self.is_deleted else document

    @property
    def text(self) -> str:
        """The text of a list's znode."""
        return json.dumps(self.document)

    @classmethod
    def from_node(cls, path: str, topic: str, data: bytes | None, version: int) -> PartitionList:
        """Parse the text of a list's znode. Raises MalformedNode."""
        text = text_from(path, data)
        try:
            document = json.loads(text)
            topic_id = uuid.UUID(document["id"])
            names = list(map(str, document["partitions"]))
            is_deleted = bool(document.get("deleted"))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise MalformedNode(path, text, "not a list of partitions") from error
        partitions = tuple(TopicPartition.from_znode_name(topic, name, path) for name in names)
        if len(set(partitions)) != len(partitions):
            raise MalformedNode(path, text, "it names a partition twice")
        return cls(topic, topic_id, partitions, version, is_deleted)


class GatewayRegistry:
    """Reads and writes /gateway. Every method raises ZkUnavailable when ZooKeeper does not answer.

    Malformed znodes are left out, logged once each, and counted in `malformed.count`.
    """

    def __init__(self, client: ZkClient) -> None:
        self._nodes = Nodes(client)
        self.floors = FloorRegistry(client)
        self.malformed = MalformedNodes(logger)

    def ensure_parents(self) -> None:
        """Create the persistent parents, so that they can be watched."""
        for path in (
            paths.GATEWAY_IDS,
            paths.GATEWAY_CLAIMS,
            paths.GATEWAY_GROUPS,
            paths.GATEWAY_TOPICS,
            paths.GATEWAY_ANCHORS,
            paths.GATEWAY_FLOORS,
        ):
            self._nodes.ensure_persistent(path)

    def cluster_id(self) -> str:
        """Return the id of this cluster; the first one to ask makes it."""
        new = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=")
        try:
            self._nodes.create_with_parents(paths.GATEWAY_CLUSTER, new)
        except NodeExists:
            node = self._nodes.get(paths.GATEWAY_CLUSTER)
            return text_from(paths.GATEWAY_CLUSTER, None if node is None else node.data)
        return new.decode()

    def node_id(self, host: str, port: int, broker_id: int | None = None) -> int:
        """Return the node id of the gateway at an address, or that of a broker there.

        It is the place in the list of all that there ever were.
        """
        name = f"{host}:{port}" if broker_id is None else f"{host}:{port}/{broker_id}"
        while True:
            node = self._nodes.get(paths.GATEWAY_NODES)
            names = [] if node is None else text_from(paths.GATEWAY_NODES, node.data).split("\n")
            if name in names:
                return names.index(name)
            text = "\n".join([*names, name]).encode()
            try:
                if node is None:
                    self._nodes.create_with_parents(paths.GATEWAY_NODES, text)
                else:
                    self._nodes.set(paths.GATEWAY_NODES, text, node.version)
            except (NodeExists, VersionConflict) as error:
                logger.info("another gateway has got a node id: %s", error)

    def announce(self, number: int, status: GatewayStatus | None = None) -> None:
        """Say that a gateway lives, in this session, and what is wrong with it. Raises NodeHeld.

        That happens while an older session of it lives.
        """
        ephemeral.claim(self._nodes, paths.gateway_id(number), (status or GatewayStatus()).text.encode())

    def statuses(self) -> dict[int, GatewayStatus]:
        """Return what is wrong at each gateway that lives, by its number."""
        statuses: dict[int, GatewayStatus] = {}
        for name, node in self._nodes.read_children(paths.GATEWAY_IDS).items():
            try:
                if name.isdecimal():
                    statuses[int(name)] = GatewayStatus.from_node(node.path, node.data)
            except MalformedNode as error:
                self.malformed.skip(error)
        return statuses

    def retire(self, number: int) -> None:
        """Say so no more."""
        ephemeral.release(self._nodes, paths.gateway_id(number))

    def live(self) -> list[int]:
        """Return the numbers of the gateways that live, sorted."""
        names = self._nodes.children(paths.GATEWAY_IDS)
        return sorted(int(name) for name in names if name.isdecimal())

    def claim(self, broker_id: int, address: GatewayAddress) -> None:
        """Serve a broker's partitions from now on, in this session. Raises NodeHeld when another gateway does."""
        ephemeral.claim(self._nodes, paths.gateway_claim(broker_id), address.text.encode())

    def release(self, broker_id: int) -> None:
        """Let another gateway serve a broker's partitions."""
        ephemeral.release(self._nodes, paths.gateway_claim(broker_id))

    def claims(self, watch: Watch | None = None) -> dict[int, GatewayAddress]:
        """Return which gateway serves each broker's partitions, by broker id."""
        addresses: dict[int, GatewayAddress] = {}
        for name, node in self._nodes.read_children(paths.GATEWAY_CLAIMS, watch, watch_data=True).items():
            try:
                addresses[broker_id_from(node.path, name)] = GatewayAddress.from_node(node.path, node.data)
            except MalformedNode as error:
                self.malformed.skip(error)
        return addresses

    def claim_group(self, group: str, address: GatewayAddress) -> GatewayAddress | None:
        """Be the gateway of a group's members from now on, in this session; return the one that is if another is.

        That may be this one in an older session. Raises MalformedNode when nobody can tell which it is.
        """
        path = paths.gateway_group(group)
        try:
            ephemeral.claim(self._nodes, path, address.text.encode())
        except NodeHeld as error:
            return GatewayAddress.from_node(path, error.data)
        return None

    def release_group(self, group: str) -> None:
        """Let another gateway have a group's members."""
        ephemeral.release(self._nodes, paths.gateway_group(group))

    def lists(
        self, topics: Iterable[str], watch_of: Callable[[str], Watch | None] = lambda _topic: None
    ) -> dict[str, PartitionList | None]:
        """Return the lists of those topics that have one; None for one that cannot be read.

        The watch of a topic that has one fires when it changes.
        """
        topic_at = {paths.gateway_topic(topic): topic for topic in topics}
        lists: dict[str, PartitionList | None] = {}
        for path, node in self._nodes.get_many(topic_at, lambda path: watch_of(topic_at[path])).items():
            topic = topic_at[path]
            try:
                lists[topic] = PartitionList.from_node(path, topic, node.data, node.version)
            except MalformedNode as error:
                self.malformed.skip(error)
                lists[topic] = None
        return lists

    def store_list(self, wanted: PartitionList) -> PartitionList:
        """Write a list over its version, -1 for a new one, and return it with the version that it has now.

        Raises VersionConflict, NodeExists and NoNode when another gateway has written meanwhile.
        """
        path = paths.gateway_topic(wanted.topic)
        if wanted.version < 0:
            self._nodes.create_with_parents(path, wanted.text.encode())
            return wanted._replace(version=0)
        return wanted._replace(version=self._nodes.set(path, wanted.text.encode(), wanted.version))

    def forget(self, topic: str) -> None:
        """Say that a topic was deleted, if it has a list, and replace its anchors by floors, all in one step.

        So its numbers go on above all that were given when a topic of this name is created again. Raises
        VersionConflict, NodeExists, NoNode or NodeNotEmpty if gateways write the anchors again and again.
        """
        retry_conflicts(lambda: self._forget(topic))
        self.floors.limit()

    def _forget(self, topic: str) -> None:
        known = self.lists([topic]).get(topic)
        if known is None:
            return
        parent = paths.gateway_anchors(known.topic_id.hex)
        is_parent_there = self._nodes.exists(parent)
        anchors = self._nodes.read_children(parent)
        if known.is_deleted and not is_parent_there:
            return
        steps: list[Write | Creation | Check | Deletion] = []
        if anchors:
            self._nodes.ensure_persistent(paths.GATEWAY_FLOORS)
            reserved = [self._reserved(anchors.get(where.znode_name)) for where in known.partitions]
            step = self.floors.step_to(known.topic, NumberFloors(tuple(reserved), 0, known.topic_id))
            steps += [] if step is None else [step]
        steps += [Deletion(node.path, node.version) for node in anchors.values()]
        # No anchor may be created between the reading and this: the parent is deleted too, or must still be missing.
        steps += [] if is_parent_there else [Creation(parent, b"")]
        steps.append(Deletion(parent))
        if not known.is_deleted:
            text = known._replace(is_deleted=True).text.encode()
            steps.append(Write(paths.gateway_topic(known.topic), text, known.version))
        self._nodes.transact(steps)

    def _reserved(self, anchor: Node | None) -> int:
        """Return the number that no message of a partition has reached; 0 without anchors."""
        if anchor is None:
            return 0
        text = text_from(anchor.path, anchor.data)
        try:
            return int(json.loads(text)["reserved"])
        except (ValueError, KeyError, TypeError, RecursionError):
            self.malformed.skip(MalformedNode(anchor.path, text, "not the anchors of a partition"))
            return 0

    def anchor(self, topic_id: uuid.UUID, where: TopicPartition) -> tuple[bytes, int] | None:
        """Return the text of a partition's anchors, and its version; None when it has none."""
        node = self._nodes.get(paths.gateway_anchor(topic_id.hex, where))
        return None if node is None else (node.data or b"", node.version)

    def store_anchor(self, topic_id: uuid.UUID, where: TopicPartition, text: bytes, version: int | None) -> int:
        """Write a partition's anchors over that version, None for new ones, and return the version now.

        Raises VersionConflict, NodeExists and NoNode when another gateway has written meanwhile, or the topic was
        deleted.
        """
        path = paths.gateway_anchor(topic_id.hex, where)
        if version is not None:
            return self._nodes.set(path, text, version)
        listed = paths.gateway_topic(where.topic)
        node = self._nodes.get(listed)
        known = None if node is None else PartitionList.from_node(listed, where.topic, node.data, node.version)
        if known is None or known.is_deleted or known.topic_id != topic_id:
            raise NoNode(listed)
        self._nodes.ensure_persistent(paths.parent(path))
        self._nodes.transact([Check(listed, known.version), Creation(path, text)])
        return 0
