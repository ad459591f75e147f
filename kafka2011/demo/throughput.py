"""How fast the lines go in and come out when nothing delays them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING

from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.demo.records import numbered
from kafka2011.errors import KafkaError
from kafka2011.producer.sync_producer import SyncProducer
from kafka2011.wire.protocol import LATEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.local_cluster import LocalCluster

BATCH = 50
MIN_LINES = 200_000
MAX_BYTES = 64 * 1024 * 1024
"""The most that goes in, however long the lines are: it stays on disk afterwards."""
FLUSH_TIMEOUT_S = 20.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Throughput:
    """Messages and megabytes a second of one producer and one consumer, one after the other."""

    messages: int
    megabytes: float
    produce_s: float
    fetch_s: float


def measure_throughput(cluster: LocalCluster, topic: str, lines: Sequence[bytes]) -> Throughput:
    """Produce the lines, repeatedly if they are few, in sets of 50 to one partition per broker; fetch them back.

    Lines beyond MAX_BYTES are left out.
    Producing ends when the brokers have handled everything; the wait for the flush counts for neither.
    """
    payloads = within([numbered(number, line) for number, line in enumerate(lines, start=1)], MAX_BYTES)
    batches = [payloads[start : start + BATCH] for start in range(0, len(payloads), BATCH)]
    once_bytes = sum(map(len, payloads))
    batches *= max(1, min(-(-MIN_LINES // len(payloads)), MAX_BYTES // max(1, once_bytes)))
    messages = sum(map(len, batches))
    brokers = list(cluster.brokers.values())
    producers = [SyncProducer(broker.host, broker.port) for broker in brokers]
    started_s = time.monotonic()
    for number, batch in enumerate(batches):
        producers[number % len(producers)].send(topic, batch, 0)
    for producer in producers:
        producer.close()
    produce_s = time.monotonic() - started_s
    consumers = [SimpleConsumer(broker.host, broker.port) for broker in brokers]
    set_bytes = sum(len(payload) + 10 for batch in batches for payload in batch)
    _wait_for_flush(consumers, topic, set_bytes)
    started_s = time.monotonic()
    fetched = sum(_fetch_all(consumer, topic) for consumer in consumers)
    fetch_s = time.monotonic() - started_s
    for consumer in consumers:
        consumer.close()
    if fetched != messages:
        raise KafkaError(f"{messages} messages were produced to {topic}, but {fetched} fetched")
    return Throughput(messages, set_bytes / 1e6, produce_s, fetch_s)


def within(payloads: list[bytes], max_bytes: int) -> list[bytes]:
    """Return the first payloads that fit, one at least."""
    ends = accumulate(map(len, payloads))
    return payloads[: max(1, sum(1 for _ in takewhile(lambda end: end <= max_bytes, ends)))]


def _wait_for_flush(consumers: Sequence[SimpleConsumer], topic: str, expected_bytes: int) -> None:
    deadline_s = time.monotonic() + FLUSH_TIMEOUT_S
    while True:
        flushed_bytes = sum(consumer.get_offsets_before(topic, 0, LATEST)[0] for consumer in consumers)
        if flushed_bytes >= expected_bytes:
            return
        if time.monotonic() > deadline_s:
            raise KafkaError(f"only {flushed_bytes} of {expected_bytes} bytes of {topic} are readable")
        time.sleep(_POLL_S)


def _fetch_all(consumer: SimpleConsumer, topic: str) -> int:
    offset = messages = 0
    while True:
        fetched = list(consumer.fetch(topic, 0, offset))
        if not fetched:
            return messages
        messages += len(fetched)
        offset = fetched[-1].next_offset
