"""The znodes of schemas: one for each fingerprint, and a numbered list for each topic. Schemas are plain text here."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from zk import paths
from zk.cluster import MAX_INT32, decimal_from, text_from
from zk.errors import MalformedNode, NodeExists
from zk.malformed import MalformedNodes
from zk.nodes import Nodes

if TYPE_CHECKING:
    from zk.client import ZkClient

logger = logging.getLogger(__name__)


class SchemaNodes:
    """Reads and writes /schemas. Nothing there is ever changed or deleted: a name is taken once, by whoever creates it.

    Every method raises ZkUnavailable when ZooKeeper does not answer.
    """

    def __init__(self, client: ZkClient) -> None:
        self._nodes = Nodes(client)
        self.malformed = MalformedNodes(logger)

    def text_of(self, fingerprint: str) -> str | None:
        """Return the schema of a fingerprint; None when there is none. Raises MalformedNode."""
        node = self._nodes.get(paths.schema_fingerprint(fingerprint))
        return None if node is None else text_from(node.path, node.data)

    def keep(self, fingerprint: str, text: str) -> str:
        """Write the schema of a fingerprint, unless it has one. Returns the one it has then. Raises MalformedNode."""
        try:
            self._nodes.create_with_parents(paths.schema_fingerprint(fingerprint), text.encode())
        except NodeExists:
            return self.text_of(fingerprint) or text
        return text

    def fingerprints(self) -> dict[str, str]:
        """Return the schemas of all fingerprints; malformed nodes are left out."""
        found: dict[str, str] = {}
        for name, node in self._nodes.read_children(paths.SCHEMA_FINGERPRINTS).items():
            try:
                found[name] = text_from(node.path, node.data)
            except MalformedNode as error:
                self.malformed.skip(error)
        return found

    def topics(self) -> list[str]:
        """List the topics that have schemas, sorted."""
        return self._nodes.children(paths.SCHEMA_TOPICS)

    def numbered(self, topic: str) -> dict[int, str]:
        """Return a topic's schemas by number, in order. Raises MalformedNode: none of them may be overlooked."""
        nodes = self._nodes.read_children(paths.schema_topic(topic))
        return dict(
            sorted(
                (decimal_from(node.path, name.encode(), MAX_INT32, "a number"), text_from(node.path, node.data))
                for name, node in nodes.items()
            )
        )

    def add(self, topic: str, number: int, text: str) -> None:
        """Write one of a topic's schemas. Raises NodeExists when the number is taken."""
        self._nodes.create_with_parents(paths.schema_number(topic, number), text.encode())
