"""The registries of a group in ZooKeeper: what a member asks for, and what wakes it."""

from __future__ import annotations

import math
import socket
import threading
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.consumer import zk_group
from kafka2011.consumer.zk_group import ZkGroup, ZkGroupSession
from tests.support.waiting import eventually
from zk import paths
from zk.brokers import BrokerRegistry
from zk.cluster import Broker, TopicPartition
from zk.connecting import connect
from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zk.client import ZkClient

EVERY = [TopicPartition("t", 0, number) for number in range(300)]
OURS = EVERY[:299]


class Asking:
    """A member that reads its group's registries, and the requests that this takes."""

    def __init__(self, client: ZkClient, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client = client
        self.session = session_of(client, "g_a")
        self.woken = threading.Event()
        self.requests: Counter[str] = Counter()
        call = client._call

        def counted(request: Any, result: Any) -> Any:
            self.requests[type(request).__name__] += 1
            return call(request, result)

        monkeypatch.setattr(client, "_call", counted)

    def read(self) -> set[TopicPartition]:
        """Read all that a rebalance reads, and return which of our partitions are ours."""
        self.woken.clear()
        self.requests.clear()
        self.session.refresh()
        self.session.subscriptions(self.woken.set)
        self.session.topics(self.woken.set)
        self.session.partitions_of(["t"], self.woken.set)
        self.session.brokers(self.woken.set)
        return self.session.mine(OURS, self.woken.set)


def session_of(client: ZkClient, consumer_id: str = "g_b") -> ZkGroupSession:
    session = ZkGroup(client, "g", consumer_id).current()
    assert session is not None
    return session


@pytest.fixture
def clients(zk_connect: str) -> Iterator[list[ZkClient]]:
    """Connect a member and a stranger."""
    with ExitStack() as stack:
        yield [stack.enter_context(connect(zk_connect, 10_000)) for _ in range(2)]


@pytest.fixture
def stranger(clients: list[ZkClient]) -> ZkClient:
    return clients[1]


@pytest.fixture
def asking(clients: list[ZkClient], monkeypatch: pytest.MonkeyPatch) -> Asking:
    """Make a member of a group that owns 299 of a topic's 300 partitions and has read everything."""
    monkeypatch.setattr(zk_group, "COMPARE_TOPICS_S", math.inf)
    asking = Asking(clients[0], monkeypatch)
    registry = BrokerRegistry(clients[1])
    registry.register(Broker.created(0, "h", 9092, 1))
    registry.register_topics(0, {"t": len(EVERY)})
    asking.session.register("g_a", "*1*t")
    assert asking.session.claim(dict.fromkeys(OURS, "g_a-0")) == {}
    for _ in range(2):  # what is read the first time has not been compared before
        assert asking.read() == set(OURS)
    return asking


def test_while_nothing_changes_nothing_is_read(asking: Asking) -> None:
    """One question for each registry asks whether it has changed, however much is in it."""
    assert asking.read() == set(OURS)
    assert asking.requests == {"Exists": 4}
    assert not asking.woken.is_set()


def test_what_has_changed_is_read(asking: Asking, stranger: ZkClient) -> None:
    """And nothing else."""
    session_of(stranger).register("g_b", "*1*t")
    assert asking.woken.wait(20)
    asking.read()
    assert asking.session.subscriptions(asking.woken.set) == {"g_a": "*1*t", "g_b": "*1*t"}
    assert asking.requests == {"Exists": 4, "GetChildren2": 1, "GetData": 1}
    BrokerRegistry(stranger).register(Broker.created(1, "h", 9093, 1))
    assert asking.woken.wait(20)
    asking.read()
    assert list(asking.session.brokers(asking.woken.set)) == [0, 1]


def test_a_member_that_comes_back_with_another_subscription_is_read_again(asking: Asking, stranger: ZkClient) -> None:
    """Its name is the same, and what was known of it is not."""
    theirs = session_of(stranger)
    theirs.register("g_b", "*1*t")
    eventually(lambda: asking.read() and "g_b" in asking.session.subscriptions(asking.woken.set))
    theirs.deregister("g_b")
    theirs.register("g_b", "*2*t")
    eventually(lambda: asking.read() and asking.session.subscriptions(asking.woken.set)["g_b"] == "*2*t")
    eventually(lambda: asking.read() and asking.requests == {"Exists": 4})


def test_a_registered_number_that_changes_in_place_is_read(asking: Asking, stranger: ZkClient) -> None:
    """The list of brokers is the same then."""
    BrokerRegistry(stranger).register_topics(0, {"t": len(EVERY) + 1})
    assert asking.woken.wait(20)
    asking.read()
    assert asking.session.partitions_of(["t"], asking.woken.set) == {"t": {0: len(EVERY) + 1}}


def test_topics_are_read_together_and_only_those_that_changed(asking: Asking, stranger: ZkClient) -> None:
    """Also those that do not exist yet."""
    topics = [f"t{number}" for number in range(20)]
    assert asking.session.partitions_of(topics, asking.woken.set) == {topic: {} for topic in topics}
    BrokerRegistry(stranger).register_topics(0, {"t7": 3})
    assert asking.woken.wait(20)
    asking.requests.clear()
    assert asking.session.partitions_of(topics, asking.woken.set) == {**{topic: {} for topic in topics}, "t7": {0: 3}}
    assert asking.requests == {"GetChildren2": 1, "GetData": 1}


def test_a_broker_that_goes_costs_one_request_for_each_topic(asking: Asking, stranger: ZkClient) -> None:
    """The nodes of the others are as they were."""
    registry = BrokerRegistry(stranger)
    topics = [f"t{number}" for number in range(20)]
    for topic in topics:
        for broker_id in range(3):
            registry.register_topics(broker_id, {topic: 1 + broker_id})
    asking.session.partitions_of(topics, asking.woken.set)
    asking.woken.clear()
    asking.requests.clear()
    for topic in topics:
        registry.unregister_topic(1, topic)
    wanted = {topic: {0: 1, 2: 3} for topic in topics}
    eventually(lambda: asking.session.partitions_of(topics, asking.woken.set) == wanted)
    assert asking.requests == {"GetChildren2": len(topics)}
    registry.register_topics(1, {topics[0]: 5})
    eventually(lambda: asking.session.partitions_of(topics, asking.woken.set)[topics[0]] == {0: 1, 1: 5, 2: 3})
    assert asking.requests == {"GetChildren2": len(topics) + 1, "GetData": 1}


def test_what_has_changed_of_topics_is_read_though_no_watch_said_so(
    asking: Asking, stranger: ZkClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later look finds it: not each, as there may be very many topics."""
    asking.client._child_watchers.clear()
    asking.client._data_watchers.clear()
    registry = BrokerRegistry(stranger)
    registry.register_topics(1, {"t": 7})
    asking.read()
    assert asking.session.partitions_of(["t"], asking.woken.set) == {"t": {0: len(EVERY)}}
    monkeypatch.setattr(zk_group, "COMPARE_TOPICS_S", 0)
    asking.read()
    assert asking.session.partitions_of(["t"], asking.woken.set) == {"t": {0: len(EVERY), 1: 7}}


def test_what_has_changed_is_read_though_no_watch_said_so(asking: Asking, stranger: ZkClient) -> None:
    """The next look finds it."""
    theirs = session_of(stranger)
    theirs.register("g_c", "*1*t")
    eventually(lambda: asking.read() and "g_c" in asking.session.subscriptions(asking.woken.set))
    asking.client._child_watchers.clear()
    asking.client._data_watchers.clear()
    theirs.register("g_b", "*1*t")
    theirs.deregister("g_c")
    theirs.register("g_c", "*2*t")
    Nodes(stranger).delete(paths.owner("g", EVERY[7]))
    assert asking.read() == set(OURS) - {EVERY[7]}
    assert asking.session.subscriptions(asking.woken.set) == {"g_a": "*1*t", "g_b": "*1*t", "g_c": "*2*t"}
    assert not asking.woken.is_set()


def test_a_deleted_owner_node_wakes_its_owner(asking: Asking, stranger: ZkClient) -> None:
    """It alone is read again; another's claim of what is not ours is no reason to wake."""
    session_of(stranger).claim({EVERY[299]: "g_b-0"})
    assert asking.read() == set(OURS)
    assert not asking.woken.is_set()
    Nodes(stranger).delete(paths.owner("g", EVERY[7]))
    assert asking.woken.wait(20)
    assert asking.read() == set(OURS) - {EVERY[7]}
    assert asking.requests["GetData"] == 1
    assert asking.session.claim({EVERY[7]: "g_a-0"}) == {}
    assert asking.read() == set(OURS)


def test_an_owner_node_of_ours_that_we_delete_wakes_nobody(asking: Asking, stranger: ZkClient) -> None:
    """The next rebalance knows of it."""
    asking.session.release(OURS[:10])
    Nodes(stranger).delete(paths.owner("g", EVERY[20]))  # the last event, which wakes
    assert asking.woken.wait(20)
    asking.woken.clear()
    assert asking.session.mine(OURS, asking.woken.set) == set(OURS[10:]) - {EVERY[20]}
    assert not asking.woken.is_set()


def test_another_owners_going_wakes_who_waits_for_it(asking: Asking, stranger: ZkClient) -> None:
    """And whoever comes too late to wait is told so."""
    theirs = session_of(stranger)
    assert theirs.claim({EVERY[299]: "g_b-0"}) == {}
    held = asking.session.claim({EVERY[299]: "g_a-0"})
    assert list(held) == [EVERY[299]]
    assert asking.session.watch_owners(held, asking.woken.set)
    theirs.release([EVERY[299]])
    assert asking.woken.wait(20)
    assert not asking.session.watch_owners(held, asking.woken.set)


def test_members_that_share_a_session_own_each_their_own(asking: Asking) -> None:
    """As those that a gateway registers: neither takes, gives up or counts what another has claimed."""
    other = session_of(asking.client, "g_a-1")
    assert list(other.claim({EVERY[7]: "g_a-1-0", EVERY[299]: "g_a-1-0"})) == [EVERY[7]]
    assert other.still_mine([EVERY[7], EVERY[299]]) == {EVERY[299]}
    assert asking.session.mine([EVERY[7], EVERY[299]], asking.woken.set) == {EVERY[7]}
    other.release([EVERY[7]])
    assert asking.session.is_mine(EVERY[7])


def test_everything_is_read_again_after_the_connection_was_lost(asking: Asking) -> None:
    """Its watches went with it."""
    asking.client._connection._socket.shutdown(socket.SHUT_RDWR)
    assert asking.woken.wait(20)
    eventually(lambda: asking.client.session_id == asking.session.session_id)
    # The watches of all registries and owner nodes fire one after another.
    eventually(lambda: asking.read() == set(OURS) and not asking.woken.wait(0.1))
    asking.requests.clear()
    assert asking.read() == set(OURS)
    assert asking.requests == {"Exists": 4}
