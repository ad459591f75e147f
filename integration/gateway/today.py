"""A client of today that produces and reads as those who account for a gateway need it."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import confluent_kafka

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

READ_S = 120.0
CLIENT_TIMEOUT_MS = 4000
_AT_ONCE = 1000


def silent() -> logging.Logger:
    """Return a logger that says nothing: clients complain of every server that is away."""
    logger = logging.getLogger("silent")
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    return logger


def idempotent_producer(bootstrap_servers: str) -> confluent_kafka.Producer:
    """Return a producer that gives nothing up for as long as a run may last."""
    return confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "message.timeout.ms": 3_600_000,
            "request.timeout.ms": CLIENT_TIMEOUT_MS,
            "socket.timeout.ms": CLIENT_TIMEOUT_MS,
            "reconnect.backoff.max.ms": 1000,
            "linger.ms": 2,
            "logger": silent(),
        }
    )


def told_offset(message: confluent_kafka.Message) -> int:
    """Return the offset that a producer was told for a record; -1 if it was told none."""
    offset = message.offset()
    return -1 if offset is None else offset


def read_partition(bootstrap_servers: str, topic: str, partition: int) -> list[tuple[int, bytes]]:
    """Return the offsets and values of all that can be read now. Raises TimeoutError."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "account",
            "enable.auto.commit": False,
            "logger": silent(),
        }
    )
    try:
        return _read(consumer, confluent_kafka.TopicPartition(topic, partition, confluent_kafka.OFFSET_BEGINNING))
    finally:
        consumer.close()


def _read(consumer: confluent_kafka.Consumer, where: confluent_kafka.TopicPartition) -> list[tuple[int, bytes]]:
    ends_s = time.monotonic() + READ_S
    position, end = 0, -1
    consumer.assign([where])  # else librdkafka stays with a leader that has died before the first connection to it
    while end < 0 and time.monotonic() < ends_s:
        with suppress(confluent_kafka.KafkaException):
            _, end = consumer.get_watermark_offsets(where, timeout=10)
    read: list[tuple[int, bytes]] = []
    while not 0 <= end <= position:
        if time.monotonic() >= ends_s:
            raise TimeoutError(f"{where.topic} {where.partition} is read up to {position} only, and ends at {end}")
        messages: list[Any] = consumer.consume(_AT_ONCE, 0.5)
        read += [(message.offset(), message.value() or b"") for message in messages if message.error() is None]
        [reached] = consumer.position([where])
        position = max(position, reached.offset)
    return read


def wrong_offsets(read: Iterable[tuple[int, bytes]], told: Mapping[bytes, int]) -> Iterator[str]:
    """Yield what is read twice, or elsewhere than its producer was told; -1 stands for an offset that was not told."""
    seen: dict[bytes, int] = {}
    for offset, value in read:
        if value in seen and value in told:
            yield f"{value[:40]!r} is at {seen[value]} and at {offset}"
        seen[value] = offset
        if told.get(value, -1) not in {-1, offset}:
            yield f"{value[:40]!r} is at {offset}, its producer was told {told[value]}"
