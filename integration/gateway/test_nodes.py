"""Each broker is a node of its own for today's clients, though one gateway serves them all."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import confluent_kafka

from integration.gateway.test_clients import first_broker, produced
from integration.gateway.today import silent

if TYPE_CHECKING:
    from kafka2011.local_cluster import LocalCluster

TIMEOUT_S = 60


def test_a_broker_that_hangs_delays_nothing_that_is_sent_to_another(cluster: LocalCluster, topic: str) -> None:
    """Answers on one connection come in order, so the client has one for each broker."""
    produced(cluster, topic, [{"value": b"first", "partition": number} for number in (0, 1)])
    frozen = first_broker(cluster, topic)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0, "retries": 0, "logger": silent()}
    )
    reported: list[int] = []

    def send(partition: int) -> None:
        producer.produce(topic, b"x", partition=partition, on_delivery=lambda _, message: note(message.partition()))
        producer.poll(0)

    def note(partition: int | None) -> None:
        reported.append(-1 if partition is None else partition)

    for partition in (0, 1):  # so that it has connected to both
        send(partition)
    assert producer.flush(TIMEOUT_S) == 0
    reported.clear()
    frozen.pause()
    try:
        send(0)
        producer.poll(0.2)
        send(1)
        ends_s = time.monotonic() + TIMEOUT_S
        while not reported and time.monotonic() < ends_s:
            producer.poll(0.1)
        assert reported == [1]
    finally:
        frozen.resume()
    assert producer.flush(TIMEOUT_S) == 0
