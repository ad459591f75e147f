"""The znodes of schemas: by fingerprint, and by topic, with its level of compatibility and its retired schemas.

All of these are plain text here.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from zk import paths
from zk.cluster import MAX_INT32, decimal_from, text_from
from zk.errors import MalformedNode, NodeExists
from zk.malformed import MalformedNodes
from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zk.client import ZkClient
    from zk.nodes import Node

logger = logging.getLogger(__name__)


class SchemaNodes:
    """Reads and writes /schemas. No schema is ever changed or deleted: a name is taken once, by whoever creates it.

    So each text is read once, and asking again costs a list of names. Every method raises ZkUnavailable when ZooKeeper
    does not answer.
    """

    def __init__(self, client: ZkClient) -> None:
        self._nodes = Nodes(client)
        self.malformed = MalformedNodes(logger)
        self._texts: dict[str, str] = {}  # by path

    def text_of(self, fingerprint: str) -> str | None:
        """Return the schema of a fingerprint; None when there is none. Raises MalformedNode."""
        node = self._nodes.get(paths.schema_fingerprint(fingerprint))
        return None if node is None else text_from(node.path, node.data)

    def texts_of(self, fingerprints: Iterable[str]) -> dict[str, str | MalformedNode]:
        """Return the schemas of those fingerprints that have one, or why the znode is none; asked for all at once."""
        by_path = {paths.schema_fingerprint(fingerprint): fingerprint for fingerprint in fingerprints}
        found: dict[str, str | MalformedNode] = {}
        for path, node in self._nodes.get_many(by_path).items():
            try:
                found[by_path[path]] = text_from(path, node.data)
            except MalformedNode as error:
                found[by_path[path]] = error
        return found

    def keep(self, fingerprint: str, text: str) -> str:
        """Write the schema of a fingerprint, unless it has one. Returns the one it has then. Raises MalformedNode."""
        try:
            self._nodes.create_with_parents(paths.schema_fingerprint(fingerprint), text.encode())
        except NodeExists:
            return self.text_of(fingerprint) or text
        return text

    def fingerprints(self) -> dict[str, str]:
        """Return the schemas of all fingerprints; malformed nodes are left out."""
        texts: dict[str, str] = {}
        for path, node in self._read_new(paths.SCHEMA_FINGERPRINTS).items():
            try:
                texts[path.rpartition("/")[2]] = self._text(path, node)
            except MalformedNode as error:
                self.malformed.skip(error)
        return texts

    def topics(self) -> list[str]:
        """List the topics that have schemas, sorted."""
        return self._nodes.children(paths.SCHEMA_TOPICS)

    def numbered(self, topic: str) -> dict[int, str]:
        """Return a topic's schemas by number, in order. Raises MalformedNode: none of them may be overlooked."""
        texts, malformed = self.readable(topic)
        for error in malformed.values():
            raise error
        return texts

    def readable(self, topic: str) -> tuple[dict[int, str], dict[str, MalformedNode]]:
        """Return those of a topic's schemas that are texts by number, in order; and by name why others are not."""
        texts: dict[int, str] = {}
        malformed: dict[str, MalformedNode] = {}
        for path, node in self._read_new(paths.schema_topic(topic)).items():
            name = path.rpartition("/")[2]
            try:
                texts[decimal_from(path, name.encode(), MAX_INT32, "a number")] = self._text(path, node)
            except MalformedNode as error:
                malformed[name] = error
        return dict(sorted(texts.items())), malformed

    def retired(self, topic: str) -> frozenset[int]:
        """Return the numbers of a topic's retired schemas, as they are now. Raises MalformedNode."""
        parent = paths.retired_schemas(topic)
        names = self._nodes.children(parent)
        return frozenset(decimal_from(f"{parent}/{name}", name.encode(), MAX_INT32, "a number") for name in names)

    def retire(self, topic: str, number: int) -> bool:
        """Mark one of a topic's schemas as retired; return False if it was already."""
        try:
            self._nodes.create_with_parents(paths.retired_schema(topic, number), None)
        except NodeExists:
            return False
        return True

    def restore(self, topic: str, number: int) -> bool:
        """Remove the mark of a retired schema; return False if it had none."""
        return self._nodes.delete(paths.retired_schema(topic, number))

    def add(self, topic: str, number: int, text: str) -> None:
        """Write one of a topic's schemas. Raises NodeExists when the number is taken."""
        self._nodes.create_with_parents(paths.schema_number(topic, number), text.encode())

    def compatibility(self, topic: str) -> str | None:
        """Return the level that was set for a topic, None for the default. Raises MalformedNode."""
        node = self._nodes.get(paths.schema_compatibility(topic))
        return None if node is None else text_from(node.path, node.data)

    def set_compatibility(self, topic: str, level: str | None) -> None:
        """Set a topic's level; None removes what was set."""
        path = paths.schema_compatibility(topic)
        if level is None:
            self._nodes.delete(path)
        else:
            self._nodes.upsert(path, level.encode())

    def _read_new(self, parent: str) -> dict[str, Node | None]:
        """Return the znodes under a path, by path and in order of their names; None for those whose text is known."""
        every = [paths.child(parent, name) for name in self._nodes.children(parent)]
        new = self._nodes.get_many(path for path in every if path not in self._texts)
        return {path: new.get(path) for path in every if path in new or path in self._texts}

    def _text(self, path: str, node: Node | None) -> str:
        if node is not None:
            self._texts[path] = text_from(path, node.data)
        return self._texts[path]
