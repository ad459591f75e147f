"""The znodes of a running Kafka 0.7.2, read and reproduced."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.support.znodes_of_07 import DUMPS
from zk import paths
from zk.cluster import MAX_INT32, Broker, TopicPartition, decimal_from
from zk.nodes import Node
from zk.tree import line


@dataclass(frozen=True)
class Read:
    """What was understood of one znode, and what we would have written."""

    path: str
    data: bytes | None


def rewritten(node: Node) -> Read:  # noqa: PLR0911 - one for each kind of znode
    """Read a znode with our code, and write it again."""
    match node.path.strip("/").split("/"):
        case ["brokers", "ids", broker_id]:
            broker = Broker.from_node(node.path, int(broker_id), node.data)
            return Read(paths.broker(broker.id), broker.text.encode())
        case ["brokers", "topics", topic, broker_id]:
            count = decimal_from(node.path, node.data, MAX_INT32, "a count")
            return Read(paths.topic_broker(topic, int(broker_id)), b"%d" % count)
        case ["brokers", "topics", topic]:
            return Read(paths.topic(topic), None)
        case ["consumers", group, "ids", consumer]:
            return Read(paths.consumer(group, consumer), node.data)
        case ["consumers", group, "owners", topic, name]:
            return Read(paths.owner(group, TopicPartition.from_znode_name(topic, name)), node.data)
        case ["consumers", group, "offsets", topic, name]:
            offset = decimal_from(node.path, node.data, 2**63 - 1, "an offset")
            return Read(paths.offset(group, TopicPartition.from_znode_name(topic, name)), b"%d" % offset)
        case ["consumers", group, "owners" | "offsets" as kind, topic]:
            return Read({"owners": paths.owners, "offsets": paths.offsets}[kind](group, topic), None)
        case _:
            return Read(node.path, b"" if node.path == "/" else None)


@pytest.mark.parametrize("name", DUMPS)
def test_znodes_of_07_are_read_and_reproduced(name: str) -> None:
    """Every path, text and kind is what our code would have written, and our dump of them looks the same."""
    for znode in DUMPS[name]:
        data = None if znode.data is None else znode.data.encode()
        node = Node(znode.path, data, znode.version, int(znode.is_ephemeral))
        assert rewritten(node) == Read(znode.path, data)
        assert line(node) == znode.line
