"""Who may do what through a gateway: certificates and the brokers' allow.file count for today's clients too."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from kafka2011.certificates import Authority
from kafka2011.local_cluster import LocalCluster, LocalClusterError, LocalGateway

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TIMEOUT_S = 20
ALLOW = """
[produce]
"orders|new-.*" = ["client", "writer"]
".*" = ["client"]
[consume]
"orders" = ["client", "reader"]
"[^h].*" = ["client"]
"hidden" = ["reader"]
[groups]
"reports" = ["reader"]
"unused" = ["*"]
[topics.create]
"new-.*" = ["writer", "creator"]
[topics.delete]
"new-.*" = ["writer"]
"""
"""`client` is the gateway at the brokers."""
REFUSED = "TOPIC_AUTHORIZATION_FAILED"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Start a broker and a gateway behind TLS, with rules, and a topic that nobody else may use."""
    directory: Path = tmp_path_factory.mktemp("secured")
    cluster = LocalCluster(1, directory=directory, properties={"log.flush.interval": 1}, secure=True, gateway=True)
    (directory / "security" / "allow.toml").write_text(ALLOW)
    for name in ("writer", "reader", "creator"):
        Authority(directory / "security").issue(name)
    with cluster:
        for topic in ("orders", "secrets"):
            assert produce(cluster, "client", topic) == "ok"
        make = [sys.executable, "-m", "kafka2011", "topics", "create", "hidden", "--zookeeper", cluster.zk_connect]
        subprocess.run(make, check=True, timeout=TIMEOUT_S)
        yield cluster


def settings(cluster: LocalCluster, principal: str | None) -> dict[str, Any]:
    """Return what a client with a certificate of this name is given."""
    security = cluster.directory / "security"
    shown = {
        "ssl.certificate.location": str(security / f"{principal}.pem"),
        "ssl.key.location": str(security / f"{principal}.key"),
    }
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "ssl",
        "ssl.ca.location": str(security / "ca.pem"),
        **({} if principal is None else shown),
    }


def name_of(error: KafkaError | None) -> str:
    return "ok" if error is None else error.name()


def produce(cluster: LocalCluster, principal: str, topic: str) -> str:
    told: list[str] = []
    producer = confluent_kafka.Producer(settings(cluster, principal))
    producer.produce(topic, b"one", partition=0, on_delivery=lambda error, _: told.append(name_of(error)))
    producer.flush(TIMEOUT_S)
    return told[0]


def fetch(cluster: LocalCluster, principal: str, topic: str) -> str:
    consumer = confluent_kafka.Consumer({**settings(cluster, principal), "group.id": "unused"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    message = consumer.poll(TIMEOUT_S)
    consumer.close()
    assert message is not None, "neither a message nor an error"
    return name_of(message.error())


def list_offsets(cluster: LocalCluster, principal: str, topic: str) -> str:
    consumer = confluent_kafka.Consumer({**settings(cluster, principal), "group.id": "unused"})
    try:
        consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), timeout=TIMEOUT_S)
    except KafkaException as error:
        return str(error.args[0].name())
    finally:
        consumer.close()
    return "ok"


def see(cluster: LocalCluster, principal: str, topic: str) -> str:
    topics = AdminClient(settings(cluster, principal)).list_topics(timeout=TIMEOUT_S).topics
    return "ok" if topic in topics else REFUSED


def outcome_of(future: Any) -> str:
    try:
        future.result(TIMEOUT_S)
    except KafkaException as error:
        return str(error.args[0].name())
    return "ok"


def create_and_delete(cluster: LocalCluster, principal: str, topic: str) -> str:
    admin = AdminClient(settings(cluster, principal))
    name = f"new-{topic}" if topic == "orders" else topic
    created = outcome_of(admin.create_topics([NewTopic(name, 1, 1)])[name])
    deleted = outcome_of(admin.delete_topics([name])[name])
    return created if created == deleted else f"{created}, {deleted}"


ALLOWED = {"writer": {produce, see, create_and_delete}, "reader": {fetch, list_offsets, see}}
"""What each may do with orders; all else is refused. tests/gateway/test_access.py tries all requests."""


@pytest.mark.parametrize("principal", ALLOWED)
@pytest.mark.parametrize("do", [produce, fetch, list_offsets, see, create_and_delete])
def test_a_principal_may_do_what_the_file_allows_and_nothing_else(
    secured: LocalCluster, principal: str, do: Callable[[LocalCluster, str, str], str]
) -> None:
    assert do(secured, principal, "orders") == ("ok" if do in ALLOWED[principal] else REFUSED)


@pytest.mark.parametrize("principal", ALLOWED)
@pytest.mark.parametrize("do", [produce, see, create_and_delete])
def test_a_topic_that_a_principal_may_not_use_is_not_shown(
    secured: LocalCluster, principal: str, do: Callable[[LocalCluster, str, str], str]
) -> None:
    assert do(secured, principal, "secrets") == REFUSED


def test_who_may_create_topics_may_not_delete_them(secured: LocalCluster) -> None:
    """Deleting loses messages, so it has a section of its own; where the protocol has texts, they name the section."""
    admin = AdminClient(settings(secured, "creator"))
    assert outcome_of(admin.create_topics([NewTopic("new-kept", 1, 1)])["new-kept"]) == "ok"
    assert outcome_of(admin.delete_topics(["new-kept"])["new-kept"]) == REFUSED
    with pytest.raises(KafkaException, match=r"no line of \[topics.grow\] in allow.file"):
        admin.create_partitions([NewPartitions("new-kept", 2)])["new-kept"].result(TIMEOUT_S)


@pytest.mark.parametrize(
    ("principal", "group", "answer"),
    [
        ("reader", "reports", "ok"),
        ("reader", "others", "GROUP_AUTHORIZATION_FAILED"),
        ("writer", "reports", "GROUP_AUTHORIZATION_FAILED"),
    ],
)
def test_a_group_is_for_those_whom_the_file_allows_it(
    secured: LocalCluster, principal: str, group: str, answer: str
) -> None:
    settings_of_group = {"group.id": group, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**settings(secured, principal), **settings_of_group})
    consumer.assign([confluent_kafka.TopicPartition("orders", 0, confluent_kafka.OFFSET_STORED)])
    message = consumer.poll(TIMEOUT_S)
    consumer.close()
    assert message is not None, "neither a message nor an error"
    assert name_of(message.error()) == answer


def errors_of(config: dict[str, Any], is_enough: Callable[[KafkaError], bool]) -> list[str]:
    """Connect, and return what the client says of it."""
    errors: list[KafkaError] = []
    client = confluent_kafka.Producer({**config, "error_cb": errors.append})
    ends_s = time.monotonic() + TIMEOUT_S
    while not any(map(is_enough, errors)) and time.monotonic() < ends_s:
        client.poll(0.1)
    return [f"{error.name()}: {error.str()}" for error in errors]


def test_a_client_without_a_certificate_is_refused(secured: LocalCluster) -> None:
    errors = errors_of(settings(secured, None), lambda error: "certificate required" in error.str())
    assert any("certificate required" in error for error in errors), errors


def test_a_client_is_told_if_brokers_refuse_the_gateway(secured: LocalCluster) -> None:
    """It would look for another leader without end; the gateway's log names the certificate."""
    assert fetch(secured, "reader", "hidden") == REFUSED
    assert secured.gateway is not None
    assert b"the broker knows this gateway by" in secured.gateway.output()


def test_a_gateway_lets_nobody_in_whom_brokers_keep_out(secured: LocalCluster, tmp_path: Path) -> None:
    gateway = LocalGateway(tmp_path, {"zk.connect": secured.zk_connect, "port": "0"})
    with pytest.raises(
        LocalClusterError, match=r"set tls.only and allow.file at the gateway, or serve.guarded.brokers"
    ):
        gateway.start()


def test_sasl_is_refused_by_a_clear_error(cluster: LocalCluster) -> None:
    config = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "somebody",
        "sasl.password": "secret",
    }
    errors = errors_of(config, lambda error: "SASL" in error.str())
    assert any("SASL Handshake not supported by broker" in error for error in errors), errors


def test_a_client_that_begins_with_sasl_all_the_same_is_cut_off(cluster: LocalCluster) -> None:
    assert cluster.gateway is not None
    body = struct.pack(">hhih4s", 17, 1, 1, 4, b"self") + struct.pack(">h5s", 5, b"PLAIN")
    with socket.create_connection((cluster.gateway.host, cluster.gateway.port), TIMEOUT_S) as client:
        client.sendall(struct.pack(">i", len(body)) + body)
        assert client.recv(1) == b""
    ends_s = time.monotonic() + TIMEOUT_S
    while b"SASL" not in cluster.gateway.output() and time.monotonic() < ends_s:
        time.sleep(0.01)
    assert b"SASL" in cluster.gateway.output()
