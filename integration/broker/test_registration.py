"""What a broker writes into ZooKeeper, and how it keeps it there."""

from __future__ import annotations

import re
import threading
import time
from typing import TYPE_CHECKING

from kafka2011.config import BrokerConfig
from kafka2011.producer.sync_producer import SyncProducer
from tests.support.waiting import eventually
from zk import paths
from zk.broker_settings import BrokerSettingsRegistry
from zk.brokers import BrokerRegistry
from zk.cluster import Broker
from zk.connecting import connect
from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from kafka2011.local_cluster import LocalBroker
    from kafka2011.message.message_set import Message
    from zk.client import ZkClient
    from zk.local_zookeeper import LocalZooKeeper
    from zk.nodes import Node

    NewBroker = Callable[..., LocalBroker]
    ReadAll = Callable[..., list[Message]]


def send(broker: LocalBroker, topic: str, *payloads: bytes, partition: int = 0) -> None:
    with SyncProducer(broker.host, broker.port) as producer:
        producer.send(topic, payloads, partition)


def existing(nodes: Nodes, path: str) -> Node:
    node = nodes.get(path)
    assert node is not None, path
    return node


def test_registered_as_0_7_does(new_broker: NewBroker, zk_connect: str, zk_client: ZkClient) -> None:
    """Ids and topics are ephemeral with 0.7's text; what is above them is persistent, with null data.

    A topic appears with its first log, which an empty set is enough for, and carries the number of partitions.
    """
    before_ms = int(time.time() * 1000)
    broker = new_broker(
        {"num.partitions": 2, "topic.partition.count.map": "wide:7"}, broker_id=4, zk_connect=zk_connect
    )
    broker.start()
    nodes = Nodes(zk_client)

    node = existing(nodes, "/brokers/ids/4")
    assert node.ephemeral
    match = re.fullmatch(rb"127\.0\.0\.1-(\d{13}):127\.0\.0\.1:(\d+)", node.data or b"")
    assert match is not None
    assert before_ms <= int(match[1]) <= time.time() * 1000
    assert int(match[2]) == broker.port
    assert nodes.children("/brokers/topics") == []

    send(broker, "views", b"one", partition=1)
    send(broker, "wide")
    eventually(lambda: nodes.exists("/brokers/topics/views/4") and nodes.exists("/brokers/topics/wide/4"))
    assert (broker.log_dir / "wide-0").is_dir()
    assert existing(nodes, "/brokers/topics/views/4").data == b"2"
    assert existing(nodes, "/brokers/topics/wide/4").data == b"7"
    assert existing(nodes, "/brokers/topics/views/4").owner == node.owner
    for path in ("/brokers", "/brokers/ids", "/brokers/topics", "/brokers/topics/views"):
        assert existing(nodes, path).data is None
        assert not existing(nodes, path).ephemeral

    broker.stop()
    assert nodes.get("/brokers/ids/4") is None  # at once, not when the session times out
    assert nodes.get("/brokers/topics/views/4") is None
    assert nodes.children("/brokers/topics") == ["views", "wide"]

    broker.start()
    assert existing(nodes, "/brokers/topics/views/4").data == b"2"  # from the disk, before it is ready
    assert existing(nodes, "/brokers/topics/wide/4").data == b"7"


def test_its_settings_are_published(new_broker: NewBroker, zk_connect: str, zk_client: ZkClient) -> None:
    """A broker publishes its settings before it registers, so that whoever sees the broker sees its settings."""
    settings = {"log.retention.hours": 0.5, "topic.log.file.size": "views:2000"}
    broker = new_broker(settings, broker_id=4, zk_connect=zk_connect)
    broker.start()
    nodes, registry = Nodes(zk_client), BrokerSettingsRegistry(zk_client)
    assert existing(nodes, "/settings/4").owner == existing(nodes, "/brokers/ids/4").owner
    assert existing(nodes, "/settings/4").created_ms <= existing(nodes, "/brokers/ids/4").created_ms
    published = BrokerConfig.from_properties(registry.settings()[4])
    assert (published.log_retention_hours, published.topic_log_file_size) == (0.5, {"views": 2000})
    broker.stop()
    assert registry.settings() == {}


def test_restarted_at_once_waits_for_its_old_node(
    new_broker: NewBroker, zk_connect: str, zk_client: ZkClient, read_all: ReadAll
) -> None:
    """After kill -9 the old node lives until its session ends: the broker serves meanwhile, then registers."""
    broker = new_broker({"log.flush.interval": 1}, zk_connect=zk_connect)
    broker.start()
    nodes = Nodes(zk_client)
    send(broker, "views", b"one")
    eventually(lambda: nodes.exists("/brokers/topics/views/0"))
    broker.kill()
    old = existing(nodes, "/brokers/ids/0")

    broker.launch()
    eventually(lambda: accepts(broker))
    assert [message.payload for message in read_all(broker, "views")] == [b"one"]  # opened and listens
    if existing(nodes, "/brokers/ids/0").owner == old.owner:  # unless this machine was that slow
        assert b"is ready" not in broker.output()
    broker.wait_ready()
    new = existing(nodes, "/brokers/ids/0")
    assert new.owner != old.owner
    assert new.data != old.data
    assert existing(nodes, "/brokers/topics/views/0").owner == new.owner


def accepts(broker: LocalBroker) -> bool:
    try:
        send(broker, "probe")
    except Exception:  # noqa: BLE001 - not yet
        return False
    return True


def test_a_new_address_is_not_hidden_from_0_7_producers(
    new_broker: NewBroker, zk_connect: str, zk_client: ZkClient
) -> None:
    """A broker that died and comes back elsewhere stays away long enough for a client that looks a little late.

    A producer of 0.7.2 is told that /brokers/ids changed, then reads it and compares ids. If it misses that the old
    node was gone, it goes on sending to the old address.
    """
    broker = new_broker(zk_connect=zk_connect)
    broker.start()
    old_port = broker.port
    changed = threading.Event()
    nodes = Nodes(zk_client)
    assert nodes.children("/brokers/ids", lambda _event: changed.set()) == ["0"]
    broker.kill()
    elsewhere = new_broker(zk_connect=zk_connect)  # its port is another free one
    elsewhere.launch()
    assert changed.wait(30)
    time.sleep(0.4)  # the client that looks a little late
    assert nodes.children("/brokers/ids") == []
    elsewhere.wait_ready()
    assert BrokerRegistry(zk_client).brokers()[0].port == elsewhere.port != old_port


def test_a_stop_costs_zookeeper_one_step_however_many_topics_there_are(
    new_broker: NewBroker, zk_connect: str, zk_client: ZkClient
) -> None:
    """Node by node, thousands of topics would take longer than the session, and the restart would wait for its end."""
    broker = new_broker(zk_connect=zk_connect)
    broker.start()
    nodes = Nodes(zk_client)
    topics = [f"t{number}" for number in range(20)]
    for topic in topics:
        send(broker, topic, b"one")
    eventually(lambda: all(nodes.exists(paths.topic_broker(topic, 0)) for topic in topics))

    def step() -> int:
        """Return the number of the change to ZooKeeper that this call makes."""
        zk_client.create("/step", makepath=False)
        number = int(zk_client.exists("/step").czxid)
        zk_client.delete("/step")
        return number

    before = step()
    broker.stop()
    assert step() - before == 3  # its own deletion, the broker's end, the creation
    assert nodes.children("/brokers/ids") == []
    assert not any(nodes.exists(paths.topic_broker(topic, 0)) for topic in topics)


def test_session_expiry(new_broker: NewBroker, zk_connect: str, zk_client: ZkClient, read_all: ReadAll) -> None:
    """A broker that was stopped past its session registers again by itself, with all its topics."""
    broker = new_broker({"log.flush.interval": 1}, zk_connect=zk_connect)
    broker.start()
    nodes = Nodes(zk_client)
    topics = ["clicks", "searches", "views"]
    for topic in topics:
        send(broker, topic, topic.encode())
    eventually(lambda: all(nodes.exists(paths.topic_broker(topic, 0)) for topic in topics))
    old = existing(nodes, "/brokers/ids/0")

    broker.pause()
    eventually(lambda: not nodes.exists("/brokers/ids/0"))
    assert not any(nodes.exists(paths.topic_broker(topic, 0)) for topic in topics)
    broker.resume()

    eventually(lambda: all(nodes.exists(paths.topic_broker(topic, 0)) for topic in topics))
    new = existing(nodes, "/brokers/ids/0")
    assert new.owner != old.owner
    assert new.data == old.data
    for topic in topics:
        assert existing(nodes, paths.topic_broker(topic, 0)).owner == new.owner
        assert [message.payload for message in read_all(broker, topic)] == [topic.encode()]


def test_another_took_the_id_meanwhile(new_broker: NewBroker, zk_connect: str, zk_client: ZkClient) -> None:
    """A broker that comes back after its session and finds its id taken for good stops, and says by whom."""
    broker = new_broker(zk_connect=zk_connect)
    broker.start()
    nodes = Nodes(zk_client)
    send(broker, "views", b"one")
    broker.pause()
    eventually(lambda: not nodes.exists("/brokers/ids/0"))
    BrokerRegistry(zk_client).register(Broker.created(0, "elsewhere", 6667, 1_300_000_000_000))
    broker.resume()
    assert broker.process.wait(30) == 1
    assert last_error(broker).count("elsewhere-1300000000000:elsewhere:6667") == 1
    assert existing(nodes, "/brokers/ids/0").data == b"elsewhere-1300000000000:elsewhere:6667"


def last_error(broker: LocalBroker) -> str:
    """Return the lines that say why a broker ended; there must be no traceback."""
    output = broker.output().decode()
    assert "Traceback" not in output, output
    return "\n".join(line for line in output.splitlines() if "CRITICAL" in line or line.startswith("kafka2011"))


def test_two_brokers_with_one_id(
    new_broker: NewBroker, zk_connect: str, zk_client: ZkClient, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The second gives up after the session timeout and some, with one line naming the first, which goes on."""
    first = new_broker(zk_connect=zk_connect)
    first.start()
    nodes = Nodes(zk_client)
    held = existing(nodes, "/brokers/ids/0")
    assert held.data is not None
    second = new_broker(zk_connect=zk_connect, directory=tmp_path_factory.mktemp("second"))
    second.launch()
    assert second.process.wait(30) == 1
    [line] = last_error(second).splitlines()
    assert held.data.decode() in line
    assert existing(nodes, "/brokers/ids/0") == held
    send(first, "views", b"one")


def test_sigterm_while_waiting_for_an_old_node(new_broker: NewBroker, zk_connect: str, zk_client: ZkClient) -> None:
    """It ends in order at once, and leaves the other's node alone."""
    registry = BrokerRegistry(zk_client)
    registry.register(Broker.created(0, "elsewhere", 6667, 1))
    broker = new_broker({"zk.sessiontimeout.ms": 60_000}, zk_connect=zk_connect)
    broker.launch()
    eventually(lambda: b"registering broker 0" in broker.output())
    broker.process.terminate()
    assert broker.process.wait(20) == 0
    assert b"is ready" not in broker.output()
    assert registry.brokers()[0].host == "elsewhere"
    assert (broker.log_dir / ".kafka_cleanshutdown").exists()


def test_zookeeper_away_and_back(new_broker: NewBroker, own_zookeeper: LocalZooKeeper, read_all: ReadAll) -> None:
    """Without ZooKeeper a broker goes on serving, and registers what is new when it is back."""
    broker = new_broker({"log.flush.interval": 1}, zk_connect=own_zookeeper.connect_string)
    broker.start()
    send(broker, "before", b"1")
    own_zookeeper.kill()
    send(broker, "meanwhile", b"2")
    send(broker, "before", b"3")
    eventually(lambda: [message.payload for message in read_all(broker, "before")] == [b"1", b"3"])
    own_zookeeper.start()
    with connect(own_zookeeper.connect_string, 2000, connection_timeout_ms=20_000) as client:
        registry = BrokerRegistry(client)
        eventually(lambda: registry.partitions_of("meanwhile") == {0: 1} and registry.partitions_of("before") == {0: 1})
        eventually(lambda: registry.brokers()[0].port == broker.port)


def test_sigterm_while_zookeeper_does_not_answer(new_broker: NewBroker, own_zookeeper: LocalZooKeeper) -> None:
    """A broker waits for it no longer than the session, and stops in order."""
    broker = new_broker(zk_connect=own_zookeeper.connect_string)
    broker.start()
    send(broker, "views", b"one")
    own_zookeeper.pause()
    try:
        broker.process.terminate()
        assert broker.process.wait(20) == 0
    finally:
        own_zookeeper.resume()
    assert (broker.log_dir / ".kafka_cleanshutdown").exists()


def test_zookeeper_not_there(new_broker: NewBroker) -> None:
    """A broker does not start without it, and says in one line where it looked."""
    broker = new_broker({"zk.connectiontimeout.ms": 500}, zk_connect="127.0.0.1:1/nowhere")
    broker.launch()
    assert broker.process.wait(30) == 1
    [line] = last_error(broker).splitlines()
    assert "127.0.0.1:1/nowhere" in line
