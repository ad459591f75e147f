"""Requests of operators to brokers: create, grow or delete a topic. Kafka 0.7's protocol has none for that.

A broker that takes requests has a znode, `/requests/{id}`, and each request is a node below it, named after its topic.
The broker deletes the node when the request is done, or writes there why it refuses. A broker that was down carries
requests out when it starts. Brokers of 0.2.0 and before know only `grow` and `delete`, so the data of `/requests/{id}`
tells which others the running broker takes.
"""

from __future__ import annotations

import json
import logging
import re
import time
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from zk import paths
from zk.cluster import MAX_INT32, broker_id_from, text_from
from zk.errors import MalformedNode, NodeExists, NoNode, VersionConflict
from zk.malformed import MalformedNodes
from zk.nodes import ANY_VERSION, Creation, Nodes, Write

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zk.client import ZkClient
    from zk.cluster import Broker
    from zk.nodes import Node, Watch

logger = logging.getLogger(__name__)

ANNOUNCE_S = 1.0
"""The time within which a broker that is registered says that it takes requests."""
_NUMBERED = re.compile(r"(grow|grow exactly|create) ([1-9][0-9]{0,9})")
_REFUSED = "refused: "


class RequestKind(Enum):
    """A kind of request, by its word in the znode."""

    GROW = "grow"
    """Have at least this number of partitions."""
    GROW_EXACTLY = "grow exactly"
    """Have this number of partitions, and keep it whatever the broker's settings say later. Refused if it has more."""
    CREATE = "create"
    """Make a new topic with exactly this number of partitions, whatever the broker's settings say."""
    DELETE = "delete"
    """Delete the topic with its messages."""
    UNDO = "delete if empty"
    """Delete the topic if this broker has created it, since others have not. Refused if it has messages by now."""


class TopicRequest(NamedTuple):
    """A request about a topic. `partitions` is 0 for kinds that have no number."""

    kind: RequestKind
    partitions: int = 0

    @property
    def text(self) -> str:
        """The text of the znode."""
        return f"{self.kind.value} {self.partitions}" if self.partitions else self.kind.value

    @property
    def deletes(self) -> bool:
        """Whether the topic is gone afterwards."""
        return self.kind in {RequestKind.DELETE, RequestKind.UNDO}

    def of(self, topic: str) -> str:
        """Describe the request for logs and errors."""
        if self.kind is RequestKind.UNDO:
            return f"delete topic {topic} if it is empty"
        if self.kind is RequestKind.CREATE:
            return f"create topic {topic} with {self.partitions} partitions"
        return f"grow topic {topic} to {self.partitions} partitions" if self.partitions else f"delete topic {topic}"


DELETE, UNDO = TopicRequest(RequestKind.DELETE), TopicRequest(RequestKind.UNDO)
_BY_TEXT = {request.text: request for request in (DELETE, UNDO)}


class PlacedRequest(NamedTuple):
    """A request as it was read: with the version of its znode, and the broker's word if it refuses."""

    request: TopicRequest | None
    version: int
    refusal: str | None = None
    created_ms: int = 0
    """When this broker was asked for something with this topic first, by ZooKeeper's clock."""

    @property
    def name(self) -> str:
        """What tells it from every other request with this topic."""
        return f"{self.created_ms}-{self.version}"


class RequestRegistry:
    """Reads and writes /requests. Every method raises ZkUnavailable when ZooKeeper does not answer."""

    def __init__(self, client: ZkClient) -> None:
        self._nodes = Nodes(client)
        self.malformed = MalformedNodes(logger)

    def announce(self, broker: Broker) -> None:
        """Say that a broker takes requests, and that the process which has registered it takes those to create."""
        self._nodes.upsert(paths.requests(broker.id), json.dumps({"creates": broker.creator}).encode())

    def takers_beside(self, living: Mapping[int, Broker]) -> set[int]:
        """Return the `takers` without live brokers that run Kafka 0.7 again, on the directory of one of ours.

        The znode names another process then. It does so for a moment, too, while a broker starts: hence a second look.
        For replicas it may be one of 0.2.0 that leads, which takes requests to grow and delete.
        """
        takers = self.takers()
        if self._replaced(takers, living):
            time.sleep(ANNOUNCE_S)
            takers -= self._replaced(takers, living)
        return takers

    def _replaced(self, takers: set[int], living: Mapping[int, Broker]) -> set[int]:
        there = {number: living[number] for number in takers & living.keys()}
        noted = self._nodes.get_many(paths.requests(number) for number in there)
        have_replicas = self._nodes.exist(paths.replica_state(number) for number in there)
        suspects = {
            number: broker
            for number, broker in there.items()
            if (node := noted.get(paths.requests(number))) is not None
            and node.data
            and not have_replicas[paths.replica_state(number)]
        }
        return suspects.keys() - self.creators(suspects)

    def takers(self) -> set[int]:
        """Return the brokers that take requests, or did when they last lived."""
        brokers: set[int] = set()
        for name in self._nodes.children(paths.REQUESTS):
            try:
                brokers.add(broker_id_from(paths.child(paths.REQUESTS, name), name))
            except MalformedNode as error:
                self.malformed.skip(error)
        return brokers

    def creators(self, brokers: Mapping[int, Broker]) -> set[int]:
        """Return which of these registered brokers take requests to create a topic.

        The znode outlives the process that wrote it, and a broker of an older release leaves its data as it is. So it
        names the process, which must be the one that is registered now.
        """
        id_at = {paths.requests(number): number for number in brokers}
        creators: set[int] = set()
        for path, node in self._nodes.get_many(id_at).items():
            try:
                creator = json.loads(node.data or b"{}").get("creates")
            except (ValueError, AttributeError, RecursionError):
                self.malformed.skip(MalformedNode(path, node.data, "not what a broker says of requests"))
                continue
            if creator and creator == brokers[id_at[path]].creator:
                creators.add(id_at[path])
        return creators

    def begin_creation(
        self, topic: str, counts: Mapping[int, int], living: Collection[int], *, extends: bool = False
    ) -> None:
        """Request brokers to create a topic, each with its number of partitions: all of them or none.

        With `extends` other brokers may have it already. What a broker that is not among the living was requested to
        create is to be undone when it starts. Raises NodeExists or VersionConflict when others create or change the
        topic now.
        """
        self._nodes.ensure_persistent(paths.PARTITION_COUNTS)
        where = paths.partition_counts(topic)
        parent = self._nodes.get(where)
        steps: list[Creation | Write] = [Creation(where, b"") if parent is None else Write(where, b"", parent.version)]
        placed = self._nodes.get_many(paths.request(number, topic) for number in {*self.takers(), *counts})
        # Read last: a broker that has just done another one's request notes its number before the request goes.
        if parent is not None and not extends and self._nodes.children(where):
            raise NodeExists(where)
        for number, count in counts.items():
            path, text = paths.request(number, topic), TopicRequest(RequestKind.CREATE, count).text.encode()
            node = placed.pop(path, None)
            if node is None:
                steps.append(Creation(path, text))
            elif placed_request(node).request is None:  # whoever has requested that has not read the refusal
                steps.append(Write(path, text, node.version))
            else:
                raise NodeExists(path)
        alive = {paths.request(number, topic) for number in living}
        for path, node in placed.items():
            if (node.data or b"").startswith(RequestKind.CREATE.value.encode()):
                if path in alive:
                    raise NodeExists(path)
                steps.append(Write(path, UNDO.text.encode(), node.version))
        self._nodes.transact(steps)

    def place(self, broker_id: int, topic: str, request: TopicRequest) -> None:
        """Ask a broker for something; it takes the place of what it was asked for with this topic before."""
        self._nodes.upsert(paths.request(broker_id, topic), request.text.encode())

    def placed(self, broker_id: int, watch: Watch | None = None) -> dict[str, PlacedRequest]:
        """Return what a broker is asked for, by topic."""
        requests: dict[str, PlacedRequest] = {}
        for topic, node in self._nodes.read_children(paths.requests(broker_id), watch, watch_data=True).items():
            try:
                requests[topic] = placed_request(node)
            except MalformedNode as error:
                self.malformed.skip(error)
        return requests

    def done(self, broker_id: int, topic: str, version: int = ANY_VERSION) -> None:
        """Take a request away, unless another has taken its place."""
        with suppress(VersionConflict):
            self._nodes.delete(paths.request(broker_id, topic), version)

    def refuse(self, broker_id: int, topic: str, version: int, why: str) -> None:
        """Say that a request cannot be done, unless another has taken its place."""
        with suppress(VersionConflict, NoNode):
            self._nodes.set(paths.request(broker_id, topic), (_REFUSED + why).encode(), version)


def placed_request(node: Node) -> PlacedRequest:
    """Parse the request that a node holds."""
    text = text_from(node.path, node.data)
    if text.startswith(_REFUSED):
        return PlacedRequest(None, node.version, text.removeprefix(_REFUSED), node.created_ms)
    request = _BY_TEXT.get(text)
    if request is None:
        match = _NUMBERED.fullmatch(text)
        if match is None or int(match[2]) > MAX_INT32:
            raise MalformedNode(node.path, text, "not a request")
        request = TopicRequest(RequestKind(match[1]), int(match[2]))
    return PlacedRequest(request, node.version, None, node.created_ms)
