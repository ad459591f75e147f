"""`kafka2011 registry`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kafka2011.cli.options import examples, zookeeper_option
from kafka2011.cli.output import console, json_option, show_json
from kafka2011.cli.session import open_session
from kafka2011.printable import printable
from zk.tree import walk

if TYPE_CHECKING:
    from zk.nodes import Node


@click.command("registry", epilog=examples("kafka2011 registry", "kafka2011 registry --json"))
@zookeeper_option
@json_option
def command(zk_connect: str, as_json: bool) -> None:
    """Show what ZooKeeper knows of brokers, topics and consumers.

    Prints one line for each znode under /brokers and /consumers, with its text, and marks ephemeral ones. With --json
    it prints a list of objects: path, data, ephemeral, version.
    """
    with open_session(zk_connect) as client:
        nodes = list(walk(client))
    if as_json:
        show_json([_as_object(node) for node in nodes])
    else:
        _show_tree(zk_connect, nodes)


def _text(node: Node) -> str | None:
    return None if node.data is None else node.data.decode("utf-8", "backslashreplace")


def _as_object(node: Node) -> dict[str, Any]:
    return {"path": node.path, "data": _text(node), "ephemeral": node.ephemeral, "version": node.version}


def _show_tree(zk_connect: str, nodes: list[Node]) -> None:
    from rich.text import Text
    from rich.tree import Tree

    root = Tree(Text(zk_connect))
    branches = {"": root}
    for node in nodes:  # parents come before their children
        above, _, name = node.path.rpartition("/")
        label = Text(printable(name), style="bold" if node.ephemeral else "")
        text = _text(node)
        if text is not None:
            label.append(f"  {printable(text)}", style="not bold green")
        if node.ephemeral:
            label.append("  (ephemeral)", style="not bold dim")
        branches[node.path] = branches[above].add(label)
    console().print(root)
