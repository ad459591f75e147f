"""Brokers behind TLS: all that clients do goes on, nothing is in plain text, and who may not is refused, and named."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

import pytest

from kafka2011 import local_security
from kafka2011.admin.topics import create_topic
from kafka2011.certificates import Authority
from kafka2011.config import SyncProducerConfig
from kafka2011.consumer.connector import ConsumerConnector
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.errors import BrokerConnectionError, NotAllowedError
from kafka2011.local_cluster import LocalCluster
from kafka2011.message.message_set import MessageSet
from kafka2011.producer.producer import Producer
from kafka2011.producer.producer_connection import ProducerConnection
from kafka2011.wire.protocol import EARLIEST, LATEST, FetchRequest, ProduceRequest, encode_request
from tests.support.waiting import eventually
from zk.brokers import BrokerRegistry
from zk.cluster import UNKNOWN_ID, Broker
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafka2011.local_cluster import LocalBroker

    NewBroker = Callable[..., LocalBroker]
    CountsOf = Callable[[LocalBroker], dict[str, int]]

WAIT_MS = 10_000
LARGE = [bytes([number % 256]) * 50_000 for number in range(100)]


def consumer_of(broker: LocalBroker, security: str = "") -> SimpleConsumer:
    """Return a consumer of a broker."""
    return SimpleConsumer("127.0.0.1", broker.port, {"socket.timeout.ms": 20_000}, security=security)


def publish(broker: LocalBroker, security: str, topic: str, *sets: list[bytes]) -> None:
    """Publish sets to partition 0, and wait until the broker has handled them."""
    entry = Broker(UNKNOWN_ID, "127.0.0.1", broker.port, security=security)
    with ProducerConnection(entry, SyncProducerConfig.of(None)) as connection:
        for payloads in sets:
            connection.write(encode_request(ProduceRequest(topic, 0, bytes(MessageSet(payloads)))))
        connection.prove()


def read_all(consumer: SimpleConsumer, topic: str, wanted: int) -> list[bytes]:
    """Return the payloads of a topic's partition 0, once so many can be read: a flush may still be under way."""
    found: list[bytes] = []
    (offset,) = consumer.get_offsets_before(topic, 0, EARLIEST, 1)
    while messages := list(consumer.fetch(topic, 0, offset, wait_ms=WAIT_MS if len(found) < wanted else 0)):
        found += [bytes(message.payload) for message in messages]
        offset = messages[-1].next_offset
    return found


def test_a_secure_cluster_does_all_that_an_open_one_does(tmp_path: Path) -> None:
    """Topics, confirmed sends, a group with its offsets, and a restart, all by TLS and with a password at ZooKeeper."""
    with LocalCluster(2, directory=tmp_path, properties={"log.flush.interval": 1}, secure=True) as cluster:
        with connect(cluster.zk_connect, connection_timeout_ms=20_000) as client:
            assert [each.broker.id for each in create_topic(client, "views")] == [0, 1]
        sent = [b"%d" % number for number in range(2000)]
        with Producer({"zk.connect": cluster.zk_connect, "producer.type": "async", "confirm": "true"}) as producer:
            futures = [producer.send("views", payload) for payload in sent]
            assert len([future.result(60) for future in futures]) == len(sent)
        cluster.brokers[0].stop()
        cluster.brokers[0].start()
        read: list[bytes] = []
        for _ in range(2):  # the second time there is nothing more
            settings = {
                "zk.connect": cluster.zk_connect,
                "groupid": "g",
                "autooffset.reset": "smallest",
                "consumer.timeout.ms": 3000,
            }
            with ConsumerConnector(settings) as consumer:
                (stream,) = consumer.create_message_streams({"views": 1})["views"]
                read += [bytes(message.payload) for message in stream]
        assert sorted(read) == sorted(sent)


def test_large_sets_travel_both_ways_and_none_of_it_by_sendfile(
    new_broker: NewBroker, by_tls: dict[str, object], security_of: Callable[..., str], counts_of: CountsOf
) -> None:
    """Sets of many TLS records, several requests at once, and no byte of a file that sendfile sends in plain text."""
    with new_broker(by_tls) as broker, consumer_of(broker, security_of()) as consumer:
        publish(broker, security_of(), "large", *(LARGE[start : start + 10] for start in range(0, 100, 10)))
        assert read_all(consumer, "large", len(LARGE)) == LARGE
        found = consumer.multifetch([("large", 0, 0, 1_000_000), ("large", 0, 50_010, 1_000_000)])
        assert [bytes(next(iter(each)).payload) for each in found] == LARGE[:2]
        assert "sendfile_bytes" not in counts_of(broker)


def test_both_doors_lead_to_the_same_logs(
    new_broker: NewBroker,
    by_tls: dict[str, object],
    security_of: Callable[..., str],
    zk_connect: str,
) -> None:
    """0.7's clients find the plain port where they look for it, ours the other beside it."""
    both = {**by_tls, "tls.only": "false", "tls.port": 0}
    with (
        new_broker(both, zk_connect=zk_connect) as broker,
        connect(zk_connect, connection_timeout_ms=20_000) as plain,
        connect(f"{zk_connect}?security={security_of()}", connection_timeout_ms=20_000) as secured,
    ):
        by_07, secure = BrokerRegistry(plain).brokers()[0], BrokerRegistry(secured).brokers()[0]
        assert (by_07.port, by_07.security) == (broker.port, "")
        assert secure.port != broker.port
        with SimpleConsumer.of(by_07) as one, SimpleConsumer.of(secure) as other:
            publish(broker, "", "t", [b"plain"])
            assert read_all(other, "t", 1) == read_all(one, "t", 1) == [b"plain"]


def test_who_speaks_plainly_at_a_tls_port_is_closed(
    new_broker: NewBroker, by_tls: dict[str, object], security_of: Callable[..., str], counts_of: CountsOf
) -> None:
    """It is counted, gets no answer, and nobody else notices; so is who never shakes hands when the broker stops."""
    with new_broker(by_tls) as broker:
        with socket.create_connection(("127.0.0.1", broker.port), 20) as plain:
            plain.sendall(encode_request(FetchRequest("t", 0, 0, 1000)))
            plain.shutdown(socket.SHUT_WR)
            answer = b""
            while part := plain.recv(1000):
                answer += part
            assert answer[:1] in {b"", b"\x15"}  # nothing, or an alert of TLS
        eventually(lambda: counts_of(broker).get("failed_handshakes") == 1)
        with socket.create_connection(("127.0.0.1", broker.port), 20), consumer_of(broker, security_of()) as consumer:
            assert consumer.get_offsets_before("t", 0, LATEST, 1) == [0]
        with consumer_of(broker) as without, pytest.raises(BrokerConnectionError):
            without.get_offsets_before("t", 0, LATEST, 1)


def test_a_broker_of_another_authority_is_not_trusted(
    new_broker: NewBroker, by_tls: dict[str, object], tmp_path: Path
) -> None:
    """Neither a stranger's certificate, nor a plain port in place of TLS."""
    other = tmp_path / "other.toml"
    other.write_text(f'[brokers]\ntls = true\nca = "{Authority(tmp_path / "others").ca}"\n')
    with (
        new_broker(by_tls) as broker,
        consumer_of(broker, str(other)) as consumer,
        pytest.raises(BrokerConnectionError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        consumer.get_offsets_before("t", 0, LATEST, 1)


def test_what_is_not_allowed_is_refused_counted_and_named(
    new_broker: NewBroker,
    by_tls: dict[str, object],
    security_of: Callable[..., str],
    counts_of: CountsOf,
    tmp_path: Path,
) -> None:
    """By topic and by who it is, whole multifetches in part; and another rule counts without a restart."""
    allow = tmp_path / "allow.toml"
    allow.write_text('[produce]\n"views|clicks" = ["front"]\n[consume]\n"views" = ["reports"]\n"clicks" = ["*"]\n')
    front, reports = security_of("front"), security_of("reports")
    with new_broker({**by_tls, "allow.file": allow}) as broker:
        for topic in ("views", "clicks"):
            publish(broker, front, topic, [b"seen"])
        with pytest.raises(BrokerConnectionError):
            publish(broker, reports, "views", [b"forged"])
        with consumer_of(broker, reports) as consumer:
            assert read_all(consumer, "views", 1) == read_all(consumer, "clicks", 1) == [b"seen"]
        with consumer_of(broker, front) as consumer:
            views, clicks = consumer.multifetch([("views", 0, 0, 1000), ("clicks", 0, 0, 1000)])
            words = f"front at 127.0.0.1:.* may not consume topic 'views': see {allow} of the broker at .*"
            assert re.fullmatch(words, str(views.error))
            assert [bytes(each.payload) for each in clicks] == [b"seen"]
            with pytest.raises(NotAllowedError, match=words):
                consumer.fetch("views", 0, 0)
            with pytest.raises(NotAllowedError, match=words):
                consumer.get_offsets_before("views", 0, LATEST, 1)
        with consumer_of(broker, security_of()) as nobody:
            assert read_all(nobody, "clicks", 1) == [b"seen"]
        counts = counts_of(broker)
        assert (counts["not_allowed_produce"], counts["not_allowed_consume"]) == (1, 3)
        assert b"front at 127.0.0.1:" in broker.output()
        assert b"may not consume topic 'views'" in broker.output()
        allow.write_text('[consume]\n".*" = ["front"]\n')
        with consumer_of(broker, front) as consumer:
            eventually(lambda: consumer.fetch("views", 0, 0).error is None if _may(consumer) else False)
        with consumer_of(broker, reports) as consumer, pytest.raises(NotAllowedError):
            consumer.fetch("views", 0, 0)
        allow.write_text("[consume\n")
        eventually(lambda: b"the old rules stay" in broker.output() if _ask(broker, front) else False)


def _may(consumer: SimpleConsumer) -> bool:
    try:
        return bool(consumer.fetch("views", 0, 0).data)
    except NotAllowedError:
        return False


def _ask(broker: LocalBroker, security: str) -> bool:
    with consumer_of(broker, security) as consumer:
        return _may(consumer)


def test_certificates_are_read_again(
    new_broker: NewBroker, by_tls: dict[str, object], authority: Authority, security_of: Callable[..., str]
) -> None:
    """A new one is shown without a restart, and one that cannot be read leaves the old one."""
    with new_broker(by_tls) as broker:
        security = security_of()
        with consumer_of(broker, security) as consumer:
            assert consumer.get_offsets_before("t", 0, LATEST, 1) == [0]
        certificate = authority.directory / "broker.pem"
        good = certificate.read_text()
        certificate.write_text("not one")
        eventually(lambda: _offsets(broker, security) and b"the old ones stay" in broker.output())
        certificate.write_text(good)
        authority.issue("broker", ["elsewhere.example"])
        eventually(lambda: "not valid for" in _offsets_error(broker, security))
    authority.issue("broker", ["127.0.0.1"])


def _offsets(broker: LocalBroker, security: str) -> bool:
    return _offsets_error(broker, security) == ""


def _offsets_error(broker: LocalBroker, security: str) -> str:
    with consumer_of(broker, security) as consumer:
        try:
            consumer.get_offsets_before("t", 0, LATEST, 1)
        except BrokerConnectionError as error:
            return str(error)
    return ""


def test_what_has_arrived_is_answered_when_the_broker_stops(
    new_broker: NewBroker, by_tls: dict[str, object], security_of: Callable[..., str]
) -> None:
    """A produce that was sent before the stop is in the log after it."""
    with new_broker(by_tls) as broker:
        publish(broker, security_of(), "t", [b"first"])
        entry = Broker(UNKNOWN_ID, "127.0.0.1", broker.port, security=security_of())
        with ProducerConnection(entry, SyncProducerConfig.of(None)) as connection:
            connection.prove()
            connection.write(encode_request(ProduceRequest("t", 0, bytes(MessageSet(LARGE[:20])))))
            broker.stop()
        broker.start()
        with consumer_of(broker, security_of()) as consumer:
            assert read_all(consumer, "t", 21) == [b"first", *LARGE[:20]]


def test_the_files_of_a_secure_cluster_are_made_once(tmp_path: Path) -> None:
    """Its clients' password and certificate stay when it is started again."""
    first = local_security.secure(tmp_path, ["127.0.0.1"])
    text = first.security.read_text()
    assert local_security.secure(tmp_path, ["127.0.0.1"]).security.read_text() == text
    assert first.security.stat().st_mode & 0o077 == 0
