"""A broker shows numbers about itself to whoever asks at metrics.port."""

from __future__ import annotations

import http.client
import socket
import struct
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from integration.scraping import numbers, shown_port
from kafka2011 import ConsumerConnector, Producer
from kafka2011.metrics import ConsumerCollector
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.local_cluster import LocalBroker
    from zk.local_zookeeper import LocalZooKeeper

    NewBroker = Callable[..., LocalBroker]


def ask(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def check_times(found: dict[tuple[str, ...], float], size: float) -> None:
    """After a produce and a fetch of so many bytes: each took some time, and waits at the end are not in it."""
    assert found["kafka2011_broker_topic_fetched_bytes_total", "0", "views"] >= size
    measured = [value for (name, *_), value in found.items() if name == "kafka2011_broker_request_seconds_count"]
    requests = [value for (name, *_), value in found.items() if name == "kafka2011_broker_requests_total"]
    assert 0 < sum(measured) <= sum(requests)
    assert found["kafka2011_broker_append_to_readable_seconds_count",] == 1
    assert found["kafka2011_broker_zookeeper_sessions_total",] == 1
    assert found["kafka2011_broker_zookeeper_reconnects_total",] == 0


def test_numbers_move(new_broker: NewBroker, own_zookeeper: LocalZooKeeper) -> None:
    """What was produced is seen in the next scrape; without ZooKeeper the broker serves on, but says it is not well."""
    zk_connect = f"{own_zookeeper.connect_string}/metrics"
    broker = new_broker({"metrics.port": 0, "log.flush.interval": 1}, zk_connect=zk_connect)
    broker.start()
    port = shown_port(broker.output().decode())
    before = numbers(port)
    assert before["kafka2011_broker_serving",] == before["kafka2011_broker_zookeeper_connected",] == 1
    assert before["kafka2011_broker_messages_total",] == 0
    assert before["process_open_fds",] > 0
    assert 0 < before["kafka2011_broker_disk_free_bytes",] < before["kafka2011_broker_disk_size_bytes",]
    assert ask(port, "/healthz") == (200, "ok\n")
    assert ask(port, "/healthz", "HEAD") == (200, "")
    assert [ask(port, "/")[0], ask(port, "/metrics", "POST")[0]] == [404, 405]
    with Producer({"zk.connect": zk_connect, "confirm": "true"}) as producer:
        producer.send("views", [b"one", b"two"]).result()
        eventually(lambda: numbers(port)["kafka2011_broker_log_end_offset_bytes", "0", "0", "views"] > 0)
        after = numbers(port)
        assert after["kafka2011_broker_connections",] == 1
    assert after["kafka2011_broker_messages_total",] == 2
    assert after["kafka2011_broker_topic_appended_messages_total", "0", "views"] == 2
    size = after["kafka2011_broker_topic_appended_bytes_total", "0", "views"]
    assert size == after["kafka2011_broker_log_size_bytes", "0", "0", "views"] > 6
    assert after["kafka2011_broker_received_bytes_total",] > size
    settings = {"zk.connect": zk_connect, "groupid": "g", "autooffset.reset": "smallest", "consumer.timeout.ms": 20_000}
    with ConsumerConnector(settings) as consumer:
        registry = CollectorRegistry()
        registry.register(ConsumerCollector(consumer))
        [stream] = consumer.create_message_streams({"views": 1})["views"]
        assert [next(stream).payload for _ in range(2)] == [b"one", b"two"]
        consumer.commit_offsets()
        where = {"topic": "views", "broker": "0", "partition": "0"}
        consumed = registry.get_sample_value("kafka2011_consumer_consumed_offset_bytes", {"group": "g", **where})
        assert consumed == after["kafka2011_broker_log_end_offset_bytes", "0", "0", "views"]
        assert registry.get_sample_value("kafka2011_consumer_messages_total", {"group": "g"}) == 2
        assert registry.get_sample_value("kafka2011_consumer_owned_partitions", {"group": "g"}) == 1
        assert registry.get_sample_value("kafka2011_consumer_rebalance_seconds_count", {"group": "g"}) == 1
        assert registry.get_sample_value("kafka2011_consumer_zookeeper_connected", {"group": "g"}) == 1
        lease_s = registry.get_sample_value("kafka2011_consumer_lease_remaining_seconds", {"group": "g"})
        assert lease_s is not None
        assert 0 < lease_s <= consumer.config.zk_sessiontimeout_ms / 1000
    check_times(numbers(port), size)
    own_zookeeper.pause()
    try:
        eventually(lambda: ask(port, "/healthz") == (503, "not registered in ZooKeeper\n"))
        assert numbers(port)["kafka2011_broker_zookeeper_connected",] == 0
    finally:
        own_zookeeper.resume()
    eventually(lambda: ask(port, "/healthz")[0] == 200)
    assert numbers(port)["kafka2011_broker_zookeeper_reconnects_total",] == 1


def test_strangers_do_no_harm(new_broker: NewBroker) -> None:
    """What is no HTTP, or ends in the middle, is neither answered as if it were nor worth a traceback."""
    broker = new_broker({"metrics.port": 0})
    broker.start()
    port = shown_port(broker.output().decode())
    for data in (b"", b"GET /met", b"\x00\x01\x02\r\n\r\n", b"GET /metrics HTTP/1.1\r\nHost", b"x" * 100_000):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as stranger:
            stranger.sendall(data)
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, not an end
    assert ask(port, "/healthz") == (200, "ok\n")
    assert "kafka2011_broker_zookeeper_connected" not in ask(port, "/metrics")[1]
    assert b"Traceback" not in broker.output()


def test_a_port_that_is_taken_is_named(new_broker: NewBroker) -> None:
    """Before any log is opened."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        broker = new_broker({"metrics.port": port})
        broker.launch()
        assert broker.process.wait(20) == 1
        assert f"cannot listen on 127.0.0.1:{port} for metrics".encode() in broker.output()
        assert b"Traceback" not in broker.output()
