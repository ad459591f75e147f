"""The floors of message numbers: where a topic goes on after it was deleted and created again.

Clients up to Fetch 12 know a topic by its name only, so a number that they have seen must never name another message
of that name. The floors of a deleted topic are kept by its name and by Kafka's numbers of its partitions. A new log
begins at the floor.
"""

from __future__ import annotations

import json
import logging
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

from zk import paths
from zk.cluster import text_from
from zk.conflicts import retry_conflicts
from zk.errors import MalformedNode, NoNode, VersionConflict
from zk.malformed import MalformedNodes
from zk.nodes import Creation, Deletion, Nodes, Write

if TYPE_CHECKING:
    from collections.abc import Collection

    from zk.client import ZkClient
    from zk.nodes import Node

logger = logging.getLogger(__name__)

MOST_TOPICS = 10_000
"""The number of topics whose floors are kept. Those of more are replaced by one floor for all other topics."""
_VERSION = 1


class NumberFloors(NamedTuple):
    """The lowest number that a new message may get in each partition of a topic, by Kafka's number of the partition.

    `others` is the floor of all other partitions. `wrapper_id` is the topic id in the wrappers of this topic; None
    where that is the topic's present id.
    """

    numbers: tuple[int, ...] = ()
    others: int = 0
    wrapper_id: uuid.UUID | None = None

    def of(self, partition: int) -> int:
        """Return the floor of a partition."""
        return self.numbers[partition] if partition < len(self.numbers) else self.others

    def raised(self, other: NumberFloors) -> NumberFloors:
        """Return the higher floor of each partition."""
        most = max(len(self.numbers), len(other.numbers))
        numbers = tuple(max(self.of(partition), other.of(partition)) for partition in range(most))
        return NumberFloors(numbers, max(self.others, other.others), self.wrapper_id or other.wrapper_id)

    def covers(self, other: NumberFloors) -> bool:
        """Say whether no floor that the other has for one partition is higher than here."""
        return all(self.of(partition) >= number for partition, number in enumerate(other.numbers))

    @property
    def document(self) -> dict[str, Any]:
        """The object that JSON keeps of the floors."""
        named = {} if self.wrapper_id is None else {"wrapper_id": self.wrapper_id.hex}
        return {"version": _VERSION, "floors": list(self.numbers), "others": self.others, **named}

    @classmethod
    def of_document(cls, document: dict[str, Any]) -> NumberFloors:
        """Read such a document. Raises ValueError, KeyError, TypeError and AttributeError."""
        if document["version"] != _VERSION:
            raise ValueError(f"floors of version {document['version']}")
        wrapper_id = uuid.UUID(document["wrapper_id"]) if "wrapper_id" in document else None
        return cls(tuple(map(int, document["floors"])), int(document["others"]), wrapper_id)

    @classmethod
    def from_node(cls, path: str, data: bytes | None) -> NumberFloors:
        """Parse the text of a znode. Raises MalformedNode."""
        text = text_from(path, data)
        try:
            return cls.of_document(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise MalformedNode(path, text, "not the floors of a topic's numbers") from error


class FloorRegistry:
    """Reads and writes /gateway/floors. Floors are only ever raised. Methods raise ZkUnavailable."""

    def __init__(self, client: ZkClient, most_topics: int = MOST_TOPICS) -> None:
        self._nodes = Nodes(client)
        self._most_topics = most_topics
        self.malformed = MalformedNodes(logger)

    def floors(self, topics: Collection[str]) -> dict[str, NumberFloors]:
        """Return the floors of each topic."""
        nodes = self._nodes.get_many(map(paths.gateway_floors, topics))
        base = self._base()[0]  # read last: floors that were removed meanwhile are part of it
        return {topic: self._of_node(nodes.get(paths.gateway_floors(topic)), base) for topic in topics}

    def count(self) -> int:
        """Return the number of topics whose floors are kept."""
        return len(self._nodes.children(paths.GATEWAY_FLOORS))

    def _of_node(self, node: Node | None, base: int) -> NumberFloors:
        if node is not None:
            try:
                return NumberFloors.from_node(node.path, node.data)
            except MalformedNode as error:
                self.malformed.skip(error)
        return NumberFloors(others=base)

    def step_to(self, topic: str, floors: NumberFloors) -> Write | Creation | None:
        """Return the step of a transaction that raises a topic's floors to these; None if they are as high."""
        path = paths.gateway_floors(topic)
        node = self._nodes.get(path)
        known = self._of_node(node, self._base()[0])
        if node is not None and known.covers(floors):
            return None
        data = json.dumps(known.raised(floors).document).encode()
        return Creation(path, data) if node is None else Write(path, data, node.version)

    def raise_to(self, topic: str, floors: NumberFloors) -> None:
        """Raise a topic's floors to these. Raises VersionConflict if others write them again and again."""
        self._nodes.ensure_persistent(paths.GATEWAY_FLOORS)

        def write() -> None:
            step = self.step_to(topic, floors)
            if step is not None:
                self._nodes.transact([step])

        retry_conflicts(write)
        self.limit()

    def limit(self) -> None:
        """Replace the floors of the topics that were deleted first by one for all, while there are too many."""
        surplus = self.count() - self._most_topics
        if surplus <= 0:
            return
        nodes = self._nodes.read_children(paths.GATEWAY_FLOORS).values()
        for node in sorted(nodes, key=lambda node: node.modified_zxid)[:surplus]:
            floors = self._of_node(node, 0)
            self._raise_base(max(floors.others, *floors.numbers, 0))
            try:
                self._nodes.transact([Deletion(node.path, node.version)])
            except (NoNode, VersionConflict) as error:  # raised meanwhile: it is not among the oldest any more
                logger.info("floors are kept that were to be replaced: %s", error)

    def _base(self) -> tuple[int, int | None]:
        """Return the floor of all topics without floors of their own, and its znode's version."""
        node = self._nodes.get(paths.GATEWAY_FLOORS_BASE)
        if node is None:
            return 0, None
        text = text_from(node.path, node.data)
        if text.isdecimal():
            return int(text), node.version
        self.malformed.skip(MalformedNode(node.path, text, "not a number"))
        return 0, node.version

    def _raise_base(self, floor: int) -> None:
        def write() -> None:
            base, version = self._base()
            data = str(floor).encode()
            if base >= floor:
                return
            if version is None:
                self._nodes.create_with_parents(paths.GATEWAY_FLOORS_BASE, data)
            else:
                self._nodes.set(paths.GATEWAY_FLOORS_BASE, data, version)

        retry_conflicts(write)
