"""All registries as a list of znodes, for people to read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zk import paths
from zk.errors import data_text
from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zk.client import ZkClient
    from zk.nodes import Node


def walk(client: ZkClient, roots: Iterable[str] = paths.ROOTS) -> Iterator[Node]:
    """Read the znodes at and under the roots that exist: parents before children, children sorted by name."""
    nodes = Nodes(client)
    for root in roots:
        node = nodes.get(root)
        if node is not None:
            yield node
            yield from _under(nodes, root)


def _under(nodes: Nodes, path: str) -> Iterator[Node]:
    for child in nodes.read_children(path).values():
        yield child
        if not child.ephemeral:  # an ephemeral node has no children
            yield from _under(nodes, child.path)


def line(node: Node) -> str:
    """Write one znode in a line: path, kind, version, data."""
    kind = "EPHEMERAL " if node.ephemeral else "persistent"
    data = "<null>" if node.data is None else f"[{data_text(node.data)}]"
    return f"{node.path:<75} {kind} v={node.version} {data}"
