"""The znodes of a running Kafka 0.7.2, read and reproduced."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from zk import paths
from zk.cluster import MAX_INT32, Broker, Partition, decimal_from
from zk.nodes import Node
from zk.tree import line

VECTORS = Path(__file__).parents[3] / "shared" / "vectors"
DUMPS = sorted(VECTORS.glob("zk_*.txt"))
_LINE = re.compile(r"(?P<path>\S+) +(?P<kind>persistent|EPHEMERAL) +v=(?P<version>\d+) (?P<data><null>|\[.*\])")

OWN_DUMP = """\
/brokers                                                                    persistent v=0 <null>
/brokers/ids                                                                persistent v=0 <null>
/brokers/ids/0                                                              EPHEMERAL  v=1 [h-1:h:19100]
/brokers/topics                                                             persistent v=0 <null>
/brokers/topics/t                                                           persistent v=0 <null>
/brokers/topics/t/0                                                         EPHEMERAL  v=0 [3]
/consumers/g/ids/g_vm-1-c8f2b5a0                                            EPHEMERAL  v=0 [{ "t": 2,"u": 1 }]
/consumers/g/offsets/t/0-10                                                 persistent v=7 [198]
/consumers/g/owners/t/0-10                                                  EPHEMERAL  v=0 [g_vm-1-c8f2b5a0-0]
"""


@dataclass(frozen=True)
class Read:
    """What was understood of one znode, and what we would have written."""

    path: str
    data: bytes | None


def parsed(text: str) -> list[Node]:
    nodes = []
    for each in text.splitlines():
        match = _LINE.fullmatch(each)
        assert match, each
        data = None if match["data"] == "<null>" else match["data"][1:-1].encode()
        nodes.append(Node(match["path"], data, int(match["version"]), int(match["kind"] == "EPHEMERAL")))
    return nodes


def rewritten(node: Node) -> Read:  # noqa: PLR0911 - one for each kind of znode
    """Read a znode with our code, and write it again."""
    match node.path.strip("/").split("/"):
        case ["brokers", "ids", broker_id]:
            broker = Broker.from_node(int(broker_id), node.data)
            return Read(paths.broker(broker.id), broker.text.encode())
        case ["brokers", "topics", topic, broker_id]:
            count = decimal_from(node.path, node.data, MAX_INT32, "a count")
            return Read(paths.topic_broker(topic, int(broker_id)), b"%d" % count)
        case ["brokers", "topics", topic]:
            return Read(paths.topic(topic), None)
        case ["consumers", group, "ids", consumer]:
            return Read(paths.consumer(group, consumer), node.data)
        case ["consumers", group, "owners", topic, name]:
            return Read(paths.owner(group, topic, Partition.from_name(name)), node.data)
        case ["consumers", group, "offsets", topic, name]:
            offset = decimal_from(node.path, node.data, 2**63 - 1, "an offset")
            return Read(paths.offset(group, topic, Partition.from_name(name)), b"%d" % offset)
        case ["consumers", group, "owners" | "offsets" as kind, topic]:
            return Read({"owners": paths.owners, "offsets": paths.offsets}[kind](group, topic), None)
        case _:
            return Read(node.path, b"" if node.path == "/" else None)


def check(text: str) -> int:
    nodes = parsed(text)
    for node in nodes:
        assert rewritten(node) == Read(node.path, node.data)
    assert [line(node) for node in nodes] == text.splitlines()
    return len(nodes)


def test_znodes_in_the_form_of_07_are_read_and_reproduced() -> None:
    """Every path, text and kind is what our code would have written, and the dump looks the same."""
    assert check(OWN_DUMP) == 9


@pytest.mark.skipif(not DUMPS, reason="the dumps of a running 0.7.2 (../shared/vectors) are not here")
def test_dumps_of_07_are_read_and_reproduced() -> None:
    """The same for all that a real 0.7.2 wrote."""
    assert sum(check(dump.read_text()) for dump in DUMPS) > 100
