"""How a broker comes to be registered while ZooKeeper comes and goes, and which error it ends with if it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import gevent
import pytest
from gevent.event import Event

from kafka2011.broker import registrar
from kafka2011.broker.registrar import BrokerRegistrar
from kafka2011.broker.server import KafkaServer
from kafka2011.config import BrokerConfig
from kafka2011.errors import LogError
from zk.cluster import Broker
from zk.connecting import SessionSettings
from zk.errors import ConnectionLost, NodeHeld
from zk.security import Security

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BROKER = Broker.created(0, "here", 9092, 1)
TIMEOUT_S = 20.0


class Client:
    """A client that is always connected, and says when something of its session changed."""

    def __init__(self) -> None:
        self.handler = self
        self.security = Security()
        self.session_id = 7
        self.listeners: list[Callable[[object], None]] = []

    def event_object(self) -> Event:
        return Event()

    def add_listener(self, listener: Callable[[object], None]) -> None:
        self.listeners.append(listener)

    def remove_listener(self, listener: Callable[[object], None]) -> None:
        self.listeners.remove(listener)

    def change(self) -> None:
        for listener in self.listeners:
            listener("CONNECTED")

    def shutdown(self) -> None:
        pass


class Registry:
    """A registry that does what its script says at each registration; nothing once that has ended."""

    def __init__(self) -> None:
        self.script: list[Callable[[], object]] = []
        self.registered: list[int] = []
        self.topics: list[list[str]] = []  # those that were registered together
        self.topic_script: list[Callable[[], object]] = []

    def brokers(self, _watch: object) -> dict[int, Broker]:
        return {}

    def register(self, broker: Broker, _wait_ms: int, _tls: object, _check: object) -> None:
        if self.script:
            self.script.pop(0)()
        self.registered.append(broker.id)

    def register_topics(self, _broker_id: int, counts: dict[str, int], _wait_ms: int) -> None:
        if self.topic_script:
            self.topic_script.pop(0)()
        self.topics.append(list(counts))


class Cluster:
    """A broker's registrar, with all that it meets in memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client = Client()
        self.registry = Registry()
        self.failures: list[BaseException] = []
        self.topics: dict[str, int] = {}
        self.looks = 0  # at all topics
        monkeypatch.setattr(registrar, "connect", lambda *_: self.client)
        monkeypatch.setattr(registrar, "BrokerRegistry", lambda _client, **_: self.registry)
        monkeypatch.setattr(registrar, "RETRY_S", 0.001)

    def registrar(self, connection_timeout_ms: int = 60_000) -> BrokerRegistrar:
        return BrokerRegistrar(
            SessionSettings("zookeeper:2181", 1000, connection_timeout_ms),
            BROKER,
            self.look,
            on_failure=self.failures.append,
        )

    def look(self) -> dict[str, int]:
        self.looks += 1
        return dict(self.topics)

    def add(self, topic: str) -> tuple[str, int]:
        self.topics[topic] = 1
        return topic, 1

    def goes_away(self) -> NoReturn:
        raise ConnectionLost("/brokers/ids/0: no answer")

    def is_held(self) -> NoReturn:
        raise NodeHeld("/brokers/ids/0", b"here-1:here:9092", 5)

    def goes_and_is_held(self) -> None:
        self.client.change()
        self.is_held()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    with gevent.Timeout(TIMEOUT_S):
        yield Cluster(monkeypatch)


def test_zookeeper_goes_away_during_the_start(cluster: Cluster) -> None:
    """The start goes on for as long as ZooKeeper may take to be connected, however often it goes away."""
    cluster.registry.script = [cluster.goes_away] * 3
    starting = cluster.registrar()
    starting.start()
    assert cluster.registry.registered == [0]
    starting.stop()


def test_zookeeper_stays_away_during_the_start(cluster: Cluster) -> None:
    """After that time the start ends with what was in the way."""
    tries = 1_000_000
    cluster.registry.script = [cluster.goes_away] * tries
    starting = cluster.registrar(connection_timeout_ms=50)
    with pytest.raises(ConnectionLost, match="no answer"):
        starting.start()
    assert len(cluster.registry.script) < tries - 1
    starting.stop()


def test_the_id_is_taken(cluster: Cluster) -> None:
    """A node that stayed while ZooKeeper answered all the time belongs to another: that ends the start at once."""
    cluster.registry.script = [cluster.is_held]
    starting = cluster.registrar()
    with pytest.raises(NodeHeld):
        starting.start()
    starting.stop()


def test_the_old_node_outlives_an_absence_of_zookeeper(cluster: Cluster) -> None:
    """A new leader gives the old session its whole time once more, so that its node is waited for once more."""
    cluster.registry.script = [cluster.goes_and_is_held, cluster.goes_away]
    starting = cluster.registrar()
    starting.start()
    assert cluster.registry.registered == [0]

    done = Event()
    cluster.registry.script = [cluster.goes_and_is_held, done.set]
    cluster.client.session_id = 8
    cluster.client.change()
    assert done.wait(TIMEOUT_S)
    assert not cluster.failures

    cluster.registry.script = [cluster.is_held]
    cluster.client.session_id = 9
    cluster.client.change()
    while not cluster.failures:
        gevent.sleep(0.001)
    starting.stop()


def test_topics_are_registered_together(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some at a time; what was registered before ZooKeeper went is not registered again."""
    monkeypatch.setattr(registrar, "TOPICS_AT_ONCE", 2)
    for number in range(5):
        cluster.add(f"t{number}")
    cluster.registry.topic_script = [lambda: None, cluster.goes_away]
    starting = cluster.registrar()
    starting.start()
    assert cluster.registry.topics == [["t0", "t1"], ["t2", "t3"], ["t4"]]
    starting.stop()


def test_a_new_topic_is_not_looked_for_among_all(cluster: Cluster) -> None:
    """Unless something went wrong, or the session is a new one."""
    cluster.add("first")
    starting = cluster.registrar()
    starting.start()
    looks = cluster.looks

    def registered(*topics: str) -> None:
        wanted = [*cluster.registry.topics, list(topics)]
        while cluster.registry.topics != wanted:
            gevent.sleep(0.001)

    starting.topic_added(*cluster.add("second"))
    registered("second")
    assert cluster.looks == looks
    cluster.registry.topic_script = [cluster.goes_away]
    starting.topic_added(*cluster.add("third"))
    registered("third")
    assert cluster.looks == looks + 1
    cluster.client.session_id = 8
    cluster.client.change()
    registered("first", "second", "third")
    starting.stop()


def test_the_first_error_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that does not close raises only where nothing else has failed before."""
    for failure, expected in ((None, "full"), (LogError("first"), "")):
        with KafkaServer(BrokerConfig(brokerid=0, log_dir=tmp_path, enable_zookeeper=False, port=0)) as server:
            close = server.parts.logs.close

            def fail_to_close(close: Callable[[], None] = close) -> None:
                close()
                raise LogError("full")

            monkeypatch.setattr(server.parts.logs, "close", fail_to_close)
            server.failure = failure
            if expected:
                with pytest.raises(LogError, match=expected):
                    server.stop()
            else:
                server.stop()
