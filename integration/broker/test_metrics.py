"""A broker shows numbers about itself to whoever asks at metrics.port."""

from __future__ import annotations

import http.client
import re
import socket
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from kafka2011 import Producer
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.local_cluster import LocalBroker
    from zk.local_zookeeper import LocalZooKeeper

    NewBroker = Callable[..., LocalBroker]

SHOWN = re.compile(rb"shows its metrics at http://127\.0\.0\.1:(\d+)/metrics")


def port_of(broker: LocalBroker) -> int:
    found = SHOWN.search(broker.output())
    assert found is not None
    return int(found[1])


def ask(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def numbers(port: int) -> dict[tuple[str, ...], float]:
    """Scrape as Prometheus does: by name and values of labels."""
    status, text = ask(port, "/metrics")
    assert status == 200
    return {
        (sample.name, *(sample.labels[label] for label in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_numbers_move(new_broker: NewBroker, own_zookeeper: LocalZooKeeper) -> None:
    """What was produced is seen in the next scrape; without ZooKeeper the broker serves on, but says it is not well."""
    zk_connect = f"{own_zookeeper.connect_string}/metrics"
    broker = new_broker({"metrics.port": 0, "log.flush.interval": 1}, zk_connect=zk_connect)
    broker.start()
    port = port_of(broker)
    before = numbers(port)
    assert before["kafka2011_broker_serving",] == before["kafka2011_broker_zookeeper_connected",] == 1
    assert before["kafka2011_broker_messages_total",] == 0
    assert before["process_open_fds",] > 0
    assert 0 < before["kafka2011_broker_disk_free_bytes",] < before["kafka2011_broker_disk_size_bytes",]
    assert ask(port, "/healthz") == (200, "ok\n")
    assert ask(port, "/healthz", "HEAD") == (200, "")
    assert ask(port, "/")[0] == 404
    assert ask(port, "/metrics", "POST")[0] == 405
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
    own_zookeeper.pause()
    try:
        eventually(lambda: ask(port, "/healthz") == (503, "not registered in ZooKeeper\n"))
        assert numbers(port)["kafka2011_broker_zookeeper_connected",] == 0
    finally:
        own_zookeeper.resume()
    eventually(lambda: ask(port, "/healthz")[0] == 200)


def test_strangers_do_no_harm(new_broker: NewBroker) -> None:
    """What is no HTTP, or ends in the middle, is neither answered as if it were nor worth a traceback."""
    broker = new_broker({"metrics.port": 0})
    broker.start()
    port = port_of(broker)
    for data in (b"", b"GET /met", b"\x00\x01\x02\r\n\r\n", b"GET /metrics HTTP/1.1\r\nHost", b"x" * 100_000):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as stranger:
            stranger.sendall(data)
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
