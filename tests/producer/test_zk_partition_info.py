"""Brokers and partitions as a producer follows them in ZooKeeper: here one in memory, whose watches fire at once."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack, closing, nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from kazoo import exceptions as kazoo_errors

from kafka2011.config import ProducerConfig
from kafka2011.producer import zk_partition_info
from kafka2011.producer.errors import BrokersUnreadableError
from kafka2011.producer.zk_partition_info import ZkBrokerPartitionInfo
from tests.support.waiting import eventually, is_waiting
from zk import paths
from zk.cluster import Broker, TopicPartition
from zk.errors import ConnectionLost
from zk.security import Security

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from zk.client import ZkClient

    Watch = Callable[[Any], object]
    Follow = Callable[..., ZkBrokerPartitionInfo]


class Answer:
    """What ZooKeeper has answered already."""

    def __init__(self, outcome: Any) -> None:
        self._outcome = outcome

    def ready(self) -> bool:
        return True

    def get(self) -> Any:
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


class ZooKeeperInMemory:
    """Brokers' znodes, and as much of a `ZkClient` as reading them takes."""

    session_timeout_ms = 1000
    security = Security()

    def __init__(self) -> None:
        self.handler = SimpleNamespace(event_object=threading.Event)
        self.session_id: int | None = 1
        self.nodes: dict[str, bytes] = {}
        self.changes: dict[str, int] = {}  # by path, how often its children were made or deleted
        self.watches: dict[str, set[Watch]] = {}
        self.listeners: set[Watch] = set()
        self.reads: list[str] = []
        self.faults: dict[str, Exception] = {}  # what is raised, once, by reads of a path
        self.on_read: Callable[[str], object] = lambda _: None  # called when an answer was made
        self.is_away = False
        self.shutdowns = 0

    # What a test does ------------------------------------------------------------------------------------------------

    def add_broker(self, broker_id: int, port: int = 9000) -> None:
        self.write(paths.broker(broker_id), broker(broker_id, port).text.encode())

    def add_partitions(self, topic: str, broker_id: int, count: int) -> None:
        self.write(paths.topic_broker(topic, broker_id), b"%d" % count)

    def write(self, path: str, data: bytes) -> None:
        is_new = path not in self.nodes
        self.nodes[path] = data
        self.fire(path)
        if is_new:
            self._change_children(path)

    def delete(self, path: str) -> None:
        del self.nodes[path]
        self.fire(path)
        self._change_children(path)

    def _change_children(self, path: str) -> None:
        parent = paths.parent(path)
        self.changes[parent] = self.changes.get(parent, 0) + 1
        self.fire(parent)

    def fire(self, path: str) -> None:
        for watch in self.watches.pop(path, ()):
            watch(None)

    def change_state(self, session_id: int | None) -> None:
        self.session_id = session_id
        for listener in list(self.listeners):
            listener("state")

    # What the client does --------------------------------------------------------------------------------------------

    def add_listener(self, listener: Watch) -> None:
        self.listeners.add(listener)

    def remove_listener(self, listener: Watch) -> None:
        self.listeners.discard(listener)

    def within_session(self, _session_id: int | None) -> AbstractContextManager[None]:
        return nullcontext()

    def shutdown(self) -> None:
        self.shutdowns += 1

    def get_children_async(self, path: str, watch: Watch | None, include_data: bool = False) -> Answer:
        assert include_data
        names = [child.rpartition("/")[2] for child in list(self.nodes) if paths.parent(child) == path]
        stat = SimpleNamespace(cversion=self.changes.get(path, 0))
        return self._answer(path, (names, stat) if names else None, watch)

    def get_async(self, path: str, watch: Watch | None) -> Answer:
        data = self.nodes.get(path)
        stat = SimpleNamespace(version=0, ephemeralOwner=1, ctime=0, mtime=0, czxid=0, mzxid=0)
        return self._answer(path, None if data is None else (data, stat), watch)

    def exists_async(self, path: str, watch: Watch | None) -> Answer:
        self.watches.setdefault(path, set()).update({watch} if watch else ())
        return Answer(None)

    def _answer(self, path: str, found: object, watch: Watch | None) -> Answer:
        self.reads.append(path)
        if self.is_away:
            return Answer(kazoo_errors.ConnectionLoss())
        if path in self.faults:
            return Answer(self.faults.pop(path))
        if found is None:
            return Answer(kazoo_errors.NoNodeError())
        if watch is not None:
            self.watches.setdefault(path, set()).add(watch)
        self.on_read(path)
        return Answer(found)


def broker(broker_id: int, port: int = 9000) -> Broker:
    return Broker(broker_id, "h", port, f"h-{broker_id}")


def partitions(*numbers: tuple[int, int], topic: str = "views") -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, broker_id, number) for broker_id, number in numbers)


@pytest.fixture
def zookeeper() -> ZooKeeperInMemory:
    """Have two brokers, 0 and 1, and no topics."""
    made = ZooKeeperInMemory()
    for broker_id in (1, 0):
        made.add_broker(broker_id)
    return made


@pytest.fixture
def follow(zookeeper: ZooKeeperInMemory) -> Iterator[Follow]:
    """Begin to follow; the first look after that is over."""
    with ExitStack() as stack:

        def begin() -> ZkBrokerPartitionInfo:
            info = stack.enter_context(closing(ZkBrokerPartitionInfo(cast("ZkClient", zookeeper))))
            eventually(lambda: not info.changed.is_set())
            return info

        yield begin


# What there is -------------------------------------------------------------------------------------------------------


def test_partitions_are_those_that_live_brokers_have_registered(zookeeper: ZooKeeperInMemory, follow: Follow) -> None:
    """In the order that keys are divided by; brokers are known by their ids."""
    zookeeper.add_partitions("views", 1, 2)
    zookeeper.add_partitions("views", 0, 1)
    info = follow()
    assert info.partitions("views") == info.choices("views") == partitions((0, 0), (1, 0), (1, 1))
    assert info.broker(1) == broker(1)
    assert info.broker(7) is None


def test_a_topic_that_nobody_has_is_assumed_to_be_on_every_broker(zookeeper: ZooKeeperInMemory, follow: Follow) -> None:
    """Its first message makes it there; brokers that come meanwhile count too."""
    info = follow()
    assert info.partitions("views") == partitions((0, 0), (1, 0))
    zookeeper.add_broker(2)
    eventually(lambda: info.partitions("views") == partitions((0, 0), (1, 0), (2, 0)))


def test_brokers_that_have_not_registered_a_new_topic_yet_are_still_assumed_to_have_it(
    zookeeper: ZooKeeperInMemory, follow: Follow
) -> None:
    """Or it would stay on the first one, as in 0.7; only those of the beginning, and as long as they live."""
    info = follow()
    info.partitions("views")
    zookeeper.add_partitions("views", 0, 2)
    eventually(lambda: info.partitions("views") == partitions((0, 0), (0, 1), (1, 0)))
    zookeeper.add_broker(2)
    eventually(lambda: info.broker(2) is not None)
    assert info.partitions("views") == partitions((0, 0), (0, 1), (1, 0))
    zookeeper.delete(paths.broker(1))
    eventually(lambda: info.partitions("views") == partitions((0, 0), (0, 1)))
    zookeeper.add_broker(1)
    eventually(lambda: info.broker(1) is not None)
    assert info.partitions("views") == partitions((0, 0), (0, 1))


def test_whoever_wants_to_know_is_told_when_a_broker_has_moved(zookeeper: ZooKeeperInMemory, follow: Follow) -> None:
    """Also when it was away meanwhile; not when it comes for the first time, or back to where it was."""
    info = follow()
    moved: list[tuple[int, Broker | None]] = []
    info.when_moved(lambda broker_id: moved.append((broker_id, info.broker(broker_id))))
    zookeeper.add_broker(2)
    eventually(lambda: info.broker(2) is not None)
    zookeeper.delete(paths.broker(1))
    eventually(lambda: info.broker(1) is None)
    zookeeper.add_broker(1)
    eventually(lambda: info.broker(1) is not None)
    zookeeper.delete(paths.broker(1))
    eventually(lambda: info.broker(1) is None)
    assert moved == []
    zookeeper.add_broker(1, port=9001)
    eventually(lambda: moved == [(1, broker(1, 9001))])


def test_a_topic_is_read_once_until_it_changes(zookeeper: ZooKeeperInMemory, follow: Follow) -> None:
    """Then it alone is read."""
    zookeeper.add_partitions("views", 0, 1)
    zookeeper.add_partitions("clicks", 0, 1)
    info = follow()
    for _ in range(3):
        info.partitions("views")
        info.partitions("clicks")
    assert zookeeper.reads.count(paths.topic("views")) == 1
    zookeeper.reads.clear()
    zookeeper.add_partitions("views", 1, 1)
    eventually(lambda: info.partitions("views") == partitions((0, 0), (1, 0)))
    assert {path for path in zookeeper.reads if not path.startswith(paths.topic("views"))} == set()


def test_a_broker_that_comes_back_elsewhere_is_followed(zookeeper: ZooKeeperInMemory, follow: Follow) -> None:
    """Its znode has the new address."""
    info = follow()
    zookeeper.write(paths.broker(1), broker(1, 9999).text.encode())
    eventually(lambda: info.broker(1) == broker(1, 9999))
    assert not info.stale_brokers


def test_a_topic_has_one_watch_however_often_it_is_read(zookeeper: ZooKeeperInMemory, follow: Follow) -> None:
    """Each different one would be kept until it fires."""
    zookeeper.add_partitions("views", 0, 1)
    info = follow()
    info.partitions("views")
    for _ in range(5):
        info.refresh()
    assert {len(watches) for watches in zookeeper.watches.values()} == {1}


def test_what_changes_while_it_is_read_is_read_again(zookeeper: ZooKeeperInMemory, follow: Follow) -> None:
    """The watch that says so is not forgotten when the read ends."""
    info = follow()

    def add_another(path: str) -> None:
        if path == paths.broker(2):
            zookeeper.on_read = lambda _: None
            zookeeper.add_broker(3)

    zookeeper.on_read = add_another
    zookeeper.add_broker(2)
    eventually(lambda: info.broker(3) is not None)


# Sessions, and ZooKeeper away ----------------------------------------------------------------------------------------


def test_in_a_new_session_everything_is_read_again(zookeeper: ZooKeeperInMemory, follow: Follow) -> None:
    """Watches went with the old one; while there is none, nothing is read."""
    zookeeper.add_partitions("views", 0, 1)
    info = follow()
    info.partitions("views")
    zookeeper.watches.clear()
    zookeeper.add_broker(2)
    zookeeper.add_partitions("views", 2, 1)
    zookeeper.reads.clear()
    zookeeper.change_state(None)
    eventually(lambda: not info.changed.is_set())
    zookeeper.change_state(2)
    eventually(lambda: info.broker(2) is not None)
    eventually(lambda: info.partitions("views") == partitions((0, 0), (2, 0)))
    assert zookeeper.reads.count(paths.BROKER_IDS) == 1
    zookeeper.change_state(2)
    eventually(lambda: not info.changed.is_set())
    assert zookeeper.reads.count(paths.BROKER_IDS) == 1


def test_a_change_of_session_before_the_first_look_is_noticed(zookeeper: ZooKeeperInMemory, follow: Follow) -> None:
    """Even if nobody was told of it."""

    def change_session(_path: str) -> None:
        zookeeper.on_read = lambda _: None
        zookeeper.session_id = 2

    zookeeper.on_read = change_session
    follow()
    eventually(lambda: zookeeper.reads.count(paths.BROKER_IDS) == 2)


def test_while_zookeeper_is_away_what_was_known_last_is_used(
    zookeeper: ZooKeeperInMemory, follow: Follow, caplog: pytest.LogCaptureFixture
) -> None:
    """A topic of which nothing is known is an error; the first answer after that counts."""
    zookeeper.add_partitions("views", 0, 1)
    info = follow()
    info.partitions("views")
    zookeeper.is_away = True
    with caplog.at_level(logging.WARNING):
        info.refresh()
    assert "brokers and partitions stay as last known" in caplog.text
    assert info.partitions("views") == partitions((0, 0))
    assert info.broker(1) == broker(1)
    with pytest.raises(BrokersUnreadableError, match="the partitions of topic clicks cannot be read"):
        info.partitions("clicks")
    zookeeper.is_away = False
    assert info.partitions("clicks") == partitions((0, 0), (1, 0), topic="clicks")


def test_refreshing_reads_everything_at_once(zookeeper: ZooKeeperInMemory, follow: Follow) -> None:
    """Whatever watches say."""
    zookeeper.add_partitions("views", 0, 1)
    info = follow()
    info.partitions("views")
    zookeeper.watches.clear()
    zookeeper.add_broker(2)
    zookeeper.add_partitions("views", 2, 1)
    info.refresh()
    assert info.broker(2) == broker(2)
    assert info.partitions("views") == partitions((0, 0), (2, 0))


@pytest.mark.parametrize("error", [kazoo_errors.ConnectionLoss(), RuntimeError("xids do not match")])
@pytest.mark.parametrize("kind", ["brokers", "topic"])
def test_what_could_not_be_read_is_read_again(
    kind: str,
    error: Exception,
    zookeeper: ZooKeeperInMemory,
    follow: Follow,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No further event may come: perhaps just one answer was lost. It is reported, whatever it was."""
    monkeypatch.setattr(zk_partition_info, "_RETRY_S", 0.001)
    zookeeper.add_partitions("views", 0, 1)
    info = follow()
    info.partitions("views")
    with caplog.at_level(logging.WARNING):
        if kind == "brokers":
            zookeeper.faults[paths.BROKER_IDS] = error
            zookeeper.add_broker(2)
            eventually(lambda: info.broker(2) is not None)
        else:
            zookeeper.faults[paths.topic("views")] = error
            zookeeper.add_partitions("views", 1, 1)
            eventually(lambda: info.partitions("views") == partitions((0, 0), (1, 0)))
    assert "brokers and partitions cannot be read, and stay as last known for now" in caplog.text
    assert ("Traceback" in caplog.text) == isinstance(error, RuntimeError)


def test_after_an_error_there_is_a_pause(
    zookeeper: ZooKeeperInMemory, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ZooKeeper that does not answer is not asked without end; closing does not wait for the pause to end."""
    monkeypatch.setattr(zk_partition_info, "_RETRY_S", 3600)
    info = follow()
    zookeeper.reads.clear()
    zookeeper.is_away = True
    zookeeper.add_broker(2)
    eventually(lambda: zookeeper.reads)
    info.close()
    assert zookeeper.reads == [paths.BROKER_IDS]


# The beginning and the end -------------------------------------------------------------------------------------------


def test_it_connects_as_the_settings_say(zookeeper: ZooKeeperInMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Session and connect timeouts are the producer's."""
    asked: list[object] = []

    def connect(*arguments: object) -> ZooKeeperInMemory:
        asked.extend(arguments)
        return zookeeper

    monkeypatch.setattr(zk_partition_info, "connect", connect)
    config = ProducerConfig.from_properties(
        {"zk.connect": "h:1/root", "zk.sessiontimeout.ms": 2000, "zk.connectiontimeout.ms": 3000}
    )
    with closing(ZkBrokerPartitionInfo.connect(config)) as info:
        assert info.broker(1) == broker(1)
    assert asked == ["h:1/root", 2000, 3000]


def test_without_an_answer_at_the_beginning_the_client_is_shut_down(zookeeper: ZooKeeperInMemory) -> None:
    """Nobody else has it."""
    zookeeper.is_away = True
    with pytest.raises(ConnectionLost):
        ZkBrokerPartitionInfo(cast("ZkClient", zookeeper))
    assert zookeeper.shutdowns == 1
    assert zookeeper.listeners == set()


def test_the_thread_sleeps_while_nothing_changes(follow: Follow) -> None:
    """And holds up the end of no process that does not close its producer."""
    follower = follow().follower

    def sleeps() -> bool:
        for _ in range(20):
            if not is_waiting(follower):
                return False
            time.sleep(0.001)  # let it run, if it would
        return True

    eventually(sleeps)
    assert follower.daemon


def test_closing_ends_the_thread_and_the_session(zookeeper: ZooKeeperInMemory, follow: Follow) -> None:
    """The thread first, which still reads; nobody is left listening."""
    info = follow()
    follower = info.follower
    is_ended: list[bool] = []
    shutdown = zookeeper.shutdown

    def note() -> None:
        is_ended.append(not follower.is_alive())
        shutdown()

    zookeeper.shutdown = note  # type: ignore[method-assign]
    info.close()
    assert is_ended == [True]
    assert zookeeper.listeners == set()


def test_a_partition_is_lacking_only_where_its_broker_has_registered_fewer(
    zookeeper: ZooKeeperInMemory, follow: Follow
) -> None:
    """Nobody knows of a topic that a broker has not registered how many it will have there."""
    zookeeper.add_partitions("views", 0, 2)
    info = follow()
    lacking = {where: info.lacks(where) for where in partitions((0, 0), (0, 1), (0, 2), (0, -1), (1, 5), (2, 0))}
    assert [where for where, is_lacking in lacking.items() if is_lacking] == [*partitions((0, 2))]
    assert not info.lacks(TopicPartition("unborn", 0, 7))
