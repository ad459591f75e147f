"""Requests of operators to brokers, which Kafka 0.7's protocol has none for: a topic is to grow, or to be deleted.

A broker that takes requests has a znode, and each request is a node below it, named after its topic. The broker deletes
it once that is done, or writes there why it cannot be. What a broker could not do before it ended it does when it
starts.
"""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from zk import paths
from zk.cluster import MAX_INT32, broker_id_from, text_from
from zk.errors import MalformedNode, NoNode, VersionConflict
from zk.malformed import MalformedNodes
from zk.nodes import Nodes

if TYPE_CHECKING:
    from zk.client import ZkClient
    from zk.nodes import Node, Watch

logger = logging.getLogger(__name__)

_DELETE = "delete"
_GROW = re.compile(r"grow ([1-9][0-9]{0,9})")
_REFUSED = "refused: "


class TopicRequest(NamedTuple):
    """What a broker is to do with a topic: have so many partitions of it, or with None, delete it."""

    partitions: int | None

    @property
    def text(self) -> str:
        """What stands in the znode."""
        return _DELETE if self.partitions is None else f"grow {self.partitions}"

    def of(self, topic: str) -> str:
        """Say it of a topic, for people."""
        return f"delete topic {topic}" if self.partitions is None else f"grow topic {topic} to {self.partitions}"


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

    def announce(self, broker_id: int) -> None:
        """Say that a broker takes requests."""
        self._nodes.ensure_persistent(paths.requests(broker_id))

    def takers(self) -> set[int]:
        """Return the brokers that take requests, or did when they last lived."""
        brokers: set[int] = set()
        for name in self._nodes.children(paths.REQUESTS):
            try:
                brokers.add(broker_id_from(paths.child(paths.REQUESTS, name), name))
            except MalformedNode as error:
                self.malformed.skip(error)
        return brokers

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

    def done(self, broker_id: int, topic: str, version: int) -> None:
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
    if text == _DELETE:
        return PlacedRequest(TopicRequest(None), node.version, None, node.created_ms)
    if text.startswith(_REFUSED):
        return PlacedRequest(None, node.version, text.removeprefix(_REFUSED), node.created_ms)
    match = _GROW.fullmatch(text)
    if match is None or int(match[1]) > MAX_INT32:
        raise MalformedNode(node.path, text, "not a request")
    return PlacedRequest(TopicRequest(int(match[1])), node.version, None, node.created_ms)
