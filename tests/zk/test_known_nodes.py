"""What is known of a topic's brokers, and what of it has to be read again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from kazoo import exceptions as kazoo_errors
from kazoo.protocol.states import EventType

from tests.support.zk_in_memory import ZkClientInMemory
from zk import paths
from zk.brokers import BrokerRegistry
from zk.errors import ZkUnavailable
from zk.known_nodes import KnownTopic, NodeWatch
from zk.nodes import Nodes

if TYPE_CHECKING:
    from zk.client import ZkClient


class Following:
    """Somebody who follows a topic; watches do not tell by themselves."""

    def __init__(self) -> None:
        self.client = ZkClientInMemory()
        self.nodes = Nodes(cast("ZkClient", self.client))
        self.registry = BrokerRegistry(self.nodes.client)
        self.woken = 0
        self.known = KnownTopic("t", self._wake)
        for broker_id in range(3):
            self.set(broker_id, 1)

    def _wake(self) -> None:
        self.woken += 1

    def set(self, broker_id: int, partitions: int) -> None:
        self.nodes.upsert(paths.topic_broker("t", broker_id), b"%d" % partitions)

    def remove(self, broker_id: int) -> None:
        self.client.delete_async(paths.topic_broker("t", broker_id))

    def look(self) -> tuple[dict[int, int], list[str]]:
        """Return what is known after another look, and the names of what it has read."""
        self.client.calls.clear()
        self.registry.follow([self.known])
        return self.registry.counts_of(self.known), [path.rpartition("/")[2] for _, path in self.client.calls]


@pytest.fixture
def following() -> Following:
    """Follow a topic of three brokers, all of which is known."""
    found = Following()
    assert found.look() == ({0: 1, 1: 1, 2: 1}, ["t", "0", "1", "2"])
    assert found.look() == ({0: 1, 1: 1, 2: 1}, [])
    return found


def test_a_broker_that_has_gone_is_noticed_by_the_list_alone(following: Following) -> None:
    """And one that has come costs one more request."""
    following.remove(1)
    following.known(None)
    assert following.woken == 1
    assert following.look() == ({0: 1, 2: 1}, ["t"])
    following.set(7, 2)
    following.known(None)
    assert following.look() == ({0: 1, 2: 1, 7: 2}, ["t", "7"])


def test_a_broker_that_went_and_came_back_between_two_looks_is_read_again(following: Following) -> None:
    """With all others, as the list does not tell which it was."""
    following.remove(1)
    following.set(1, 4)
    following.known(None)
    assert following.look() == ({0: 1, 1: 4, 2: 1}, ["t", "0", "1", "2"])


def test_what_a_watch_of_a_node_tells_is_read_again(following: Following) -> None:
    """That one alone."""
    following.client.set_async(paths.topic_broker("t", 2), b"9")
    following.known.forget("2")
    assert following.look() == ({0: 1, 1: 1, 2: 1}, []), "before it is read, it is as it was"
    following.known(None)
    assert following.look() == ({0: 1, 1: 1, 2: 9}, ["t", "2"])


def test_a_node_that_changes_while_it_is_read_is_read_again(following: Following) -> None:
    """What came before the change is not kept."""
    following.known.forget("2")
    following.known(None)

    def change(call: str, path: str) -> None:
        if (call, path) == ("get", paths.topic_broker("t", 2)):
            following.client.before = lambda _call, _path: None
            following.known.forget("2")
            following.known(None)

    following.client.before = change
    following.look()
    assert following.look() == ({0: 1, 1: 1, 2: 1}, ["t", "2"])


def test_what_could_not_be_read_is_read_the_next_time(following: Following) -> None:
    """The list, and of the nodes those that were not answered."""
    following.set(3, 1)
    following.known(None)

    def refuse(call: str, _path: str) -> None:
        if call == "get":
            raise kazoo_errors.ConnectionLoss

    following.client.before = refuse
    with pytest.raises(ZkUnavailable):
        following.look()
    following.client.before = lambda _call, _path: None
    assert following.look() == ({0: 1, 1: 1, 2: 1, 3: 1}, ["t", "3"])


def test_a_comparison_finds_what_no_watch_has_told(following: Following) -> None:
    """As long as nothing has changed, nothing is read."""
    following.registry.count_changes([following.known])
    assert following.look()[1] == []
    following.remove(0)
    following.registry.count_changes([following.known])
    assert following.look() == ({1: 1, 2: 1}, ["t"])


def test_a_topic_that_is_deleted_and_made_anew(following: Following) -> None:
    """Nothing of before is known of it."""
    for broker_id in range(3):
        following.remove(broker_id)
    following.client.delete_async(paths.topic("t"))
    following.known(None)
    assert following.look()[0] == {}
    following.set(1, 8)
    following.known(None)
    assert following.look()[0] == {1: 8}


def test_a_node_that_has_gone_leaves_it_to_the_list_to_tell(following: Following) -> None:
    """Both are watched: to read for each of them would be to read twice."""
    watch = NodeWatch(following.known, "1")
    watch(SimpleNamespace(type=EventType.DELETED))
    assert following.woken == 0
    assert following.look()[1] == []
    watch(SimpleNamespace(type=EventType.CHANGED))
    assert following.woken == 1
    assert following.look() == ({0: 1, 1: 1, 2: 1}, ["t", "1"])
