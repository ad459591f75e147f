"""The broker registry on a real ZooKeeper."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from tests.support.sessions import expire_session
from zk import ephemeral, paths, tree
from zk.brokers import BrokerRegistry
from zk.cluster import Broker, TopicPartition
from zk.consumers import ConsumerRegistry
from zk.errors import NodeHeld, session_name
from zk.nodes import Nodes
from zk.offsets import OffsetRegistry
from zk.owners import OwnerRegistry
from zk.sessions import SessionEvents

if TYPE_CHECKING:
    from collections.abc import Callable

    from zk.client import ZkClient

BROKER = Broker.created(0, "127.0.0.1", 19092, 1795209775990)

BROKER_PROCESS = """
import sys
from zk import Broker, BrokerRegistry, connect
registry = BrokerRegistry(connect(sys.argv[1], 2000, 20_000))
registry.register(Broker.created(0, "127.0.0.1", 19092, 1795209775990))
registry.register_topics(0, {"views": 3})
print("registered", flush=True)
sys.stdin.read()
"""

DUMP_OF_07 = """\
/brokers persistent v=0 <null>
/brokers/ids persistent v=0 <null>
/brokers/ids/0 EPHEMERAL v=0 [127.0.0.1-1795209775990:127.0.0.1:19092]
/brokers/topics persistent v=0 <null>
/brokers/topics/multi persistent v=0 <null>
/brokers/topics/multi/0 EPHEMERAL v=0 [3]
/consumers persistent v=0 <null>
/consumers/gstatic persistent v=0 <null>
/consumers/gstatic/ids persistent v=0 <null>
/consumers/gstatic/ids/gstatic_vm-1795210051718-c8f2b5a0 EPHEMERAL v=0 [{ "multi": 2,"cap": 1 }]
/consumers/gstatic/offsets persistent v=0 <null>
/consumers/gstatic/offsets/multi persistent v=0 <null>
/consumers/gstatic/offsets/multi/0-1 persistent v=1 [52]
/consumers/gstatic/owners persistent v=0 <null>
/consumers/gstatic/owners/multi persistent v=0 <null>
/consumers/gstatic/owners/multi/0-1 EPHEMERAL v=0 [gstatic_vm-1795210051718-c8f2b5a0-1]
"""


@pytest.fixture
def registry(client: ZkClient) -> BrokerRegistry:
    """Give a registry in the test's chroot."""
    return BrokerRegistry(client)


def test_what_is_registered_is_read_back(registry: BrokerRegistry) -> None:
    """Brokers, topics and numbers of partitions, in numeric order of brokers."""
    brokers = [Broker.created(number, "h", 9000 + number, 1) for number in (10, 2, 0)]
    for broker in brokers:
        registry.register(broker)
    registry.register_topics(10, {"views": 4})
    registry.register_topics(2, {"views": 3})
    registry.register_topics(0, {"clicks": 1})
    assert list(registry.brokers().items()) == [(0, brokers[2]), (2, brokers[1]), (10, brokers[0])]
    assert registry.topics() == ["clicks", "views"]
    assert list(registry.partitions_of("views").items()) == [(2, 3), (10, 4)]
    assert registry.partitions_of("never") == {}


def test_an_empty_zookeeper_has_no_brokers_and_no_topics(registry: BrokerRegistry) -> None:
    """Reading creates nothing and is no error."""
    assert (registry.brokers(), registry.topics()) == ({}, [])


def test_the_znodes_are_those_of_07(client: ZkClient, registry: BrokerRegistry) -> None:
    """Kinds, null data, texts and versions, of the broker's and the consumer's side."""
    registry.register(BROKER)
    registry.register_topics(0, {"multi": 3})
    group, member, where = "gstatic", "gstatic_vm-1795210051718-c8f2b5a0", TopicPartition("multi", 0, 1)
    consumers, owners, offsets = ConsumerRegistry(client), OwnerRegistry(client), OffsetRegistry(client)
    consumers.ensure_group(group)
    consumers.register(group, member, '{ "multi": 2,"cap": 1 }')
    owners.claim(group, where, f"{member}-1")
    version = offsets.write(group, where, 0)
    assert offsets.commit(group, where, 52, version) == 1
    dump = "".join(" ".join(tree.line(node).split(maxsplit=3)) + "\n" for node in tree.walk(client))
    assert dump == DUMP_OF_07


def test_registering_twice_changes_nothing(client: ZkClient, registry: BrokerRegistry) -> None:
    """A create whose answer was lost has happened, and the second try finds the node of its own session."""
    for _ in range(2):
        registry.register(BROKER)
        registry.register_topics(0, {"views": 1})
    assert [node.version for node in tree.walk(client) if node.ephemeral] == [0, 0]
    registry.register_topics(0, {"views": 2})
    assert registry.partitions_of("views") == {0: 2}


def test_a_killed_brokers_nodes_are_waited_for(zk_connect: str, client: ZkClient, registry: BrokerRegistry) -> None:
    """A broker restarted at once meets its own old nodes, with its own text, until that session has timed out."""
    old = subprocess.Popen(
        [sys.executable, "-c", BROKER_PROCESS, zk_connect], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert old.stdout is not None
    assert old.stdout.readline() == "registered\n"
    old.kill()
    old.communicate()
    with pytest.raises(NodeHeld):
        registry.register(BROKER)
    registry.register(BROKER, wait_ms=20_000)
    registry.register_topics(0, {"views": 3}, wait_ms=20_000)
    assert {node.owner for node in tree.walk(client) if node.ephemeral} == {client.session_id}


def test_a_broker_that_lives_on_is_named(new_client: Callable[[], ZkClient], registry: BrokerRegistry) -> None:
    """In one line: the path, the session and the text, which is another's even if it is the same."""
    other = new_client()
    BrokerRegistry(other).register(BROKER)
    BrokerRegistry(other).register_topics(0, {"views": 3})
    with pytest.raises(NodeHeld) as caught:
        registry.register(BROKER, wait_ms=300)
    assert other.session_id is not None
    assert str(caught.value) == (f"/brokers/ids/0 is held by session {session_name(other.session_id)}: {BROKER.text}")
    with pytest.raises(NodeHeld, match="/brokers/topics/views/0 is held by session"):
        registry.register_topics(0, {"views": 3}, wait_ms=300)
    assert BrokerRegistry(other).brokers() == {0: BROKER}


def test_a_persistent_node_in_the_way_is_named(client: ZkClient, registry: BrokerRegistry) -> None:
    """Somebody made it by hand; it is not deleted."""
    Nodes(client).create_with_parents(paths.broker(0), None)
    with pytest.raises(NodeHeld, match=r"/brokers/ids/0 is held by a persistent znode: <null>"):
        registry.register(BROKER)


def test_after_expiry_the_broker_is_told_and_registers_again(client: ZkClient, registry: BrokerRegistry) -> None:
    """By comparing session ids, whatever states went unseen."""
    events = SessionEvents(client)
    woken = threading.Event()
    events.wake(woken.set)
    registry.register(BROKER)
    registered_in = client.session_id
    assert expire_session(client) == registered_in
    while events.session_id in (None, registered_in):
        assert events.wait(20)
    assert woken.is_set()
    assert registry.brokers() == {}
    registry.register(BROKER, wait_ms=20_000)
    assert registry.brokers() == {0: BROKER}


def test_malformed_nodes_are_left_out_and_counted(
    client: ZkClient, registry: BrokerRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    """One bad znode does not hide the others."""
    registry.register(BROKER)
    registry.register_topics(0, {"views": 2})
    nodes = Nodes(client)
    for path, data in {
        "ids/1": b"nonsense",
        "ids/x": b"h-1:h:1",
        "topics/views/1": b"-3",
        "topics/views/2": None,
    }.items():
        nodes.create(f"/brokers/{path}", data)
    assert registry.brokers() == {0: BROKER}
    assert registry.partitions_of("views") == {0: 2}
    assert registry.malformed.count == 4
    assert "/brokers/topics/views/1: not a number of partitions: -3" in caplog.text


def test_a_watch_tells_of_a_new_broker(new_client: Callable[[], ZkClient], registry: BrokerRegistry) -> None:
    """And of one that goes."""
    changed = threading.Event()
    registry.ensure_parents()
    other = new_client()
    assert registry.brokers(lambda _: changed.set()) == {}
    BrokerRegistry(other).register(BROKER)
    assert changed.wait(20)
    changed.clear()
    assert registry.brokers(lambda _: changed.set()) == {0: BROKER}
    other.shutdown()
    assert changed.wait(20)


def test_a_text_that_07_could_not_read_is_refused(registry: BrokerRegistry) -> None:
    """Zero partitions would stall every 0.7 consumer."""
    with pytest.raises(ValueError, match="views"):
        registry.register_topics(0, {"views": 0})


def test_a_release_never_deletes_anothers_node(client: ZkClient, new_client: Callable[[], ZkClient]) -> None:
    """Not even one with the same text."""
    ephemeral.claim(Nodes(new_client()), "/n", b"same")
    assert ephemeral.release(Nodes(client), "/n") is False
    assert Nodes(client).exists("/n")
