"""How long messages take from when they were due to when a stream hands them out: a sender at a rate, and a reader.

Both run on one machine, so the sender's monotonic clock, which each message carries, is the reader's too. The time
counts from when a message was due: a sender that is held up does not make the messages that wait for it look quick.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011 import ConsumerConnector, Producer, SyncProducer
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import PAYLOAD_BYTES
from paper_benchmarks.measuring.worker import work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from paper_benchmarks.measuring.worker import Work

    Prepared = Iterator[tuple[Mapping[str, Any], Work]]

QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 1.0)
_STAMP_BYTES = 8
_NEVER = bytes(_STAMP_BYTES)
"""The stamp of what only warms up."""


def quantiles(values: Sequence[float]) -> list[tuple[float, float]]:
    """Return the value below which each share of the sorted values lies, the next higher one where none lies there."""
    ordered = sorted(values)
    return [(share, ordered[min(int(share * len(ordered)), len(ordered) - 1)]) for share in QUANTILES]


class _Sender(NamedTuple):
    """Sends a message; and has the server handle all of them."""

    send: Callable[[bytes], object]
    close: Callable[[], object]


def _sender(job: Mapping[str, Any]) -> _Sender:
    topic, server = job["topic"], job["server"]
    if job["client"] == "kafka":
        from confluent_kafka import Producer as KafkaProducer  # noqa: PLC0415 (only where a Kafka is measured)

        of_kafka = KafkaProducer({"bootstrap.servers": f"{server['host']}:{server['port']}", **job["settings"]})

        def send(message: bytes) -> None:
            of_kafka.produce(topic, message)
            of_kafka.poll(0)

        return _Sender(send, lambda: of_kafka.flush(60.0))
    if job["client"] == "producer":
        producer = Producer({"zk.connect": server["zk_connect"], **job["settings"]})
        return _Sender(lambda message: producer.send(topic, message), producer.close)
    plain = SyncProducer(server["host"], server["port"])
    return _Sender(lambda message: plain.send(topic, message, 0), plain.close)


@contextmanager
def _sending(job: Mapping[str, Any]) -> Prepared:
    filling = os.urandom(PAYLOAD_BYTES - _STAMP_BYTES)
    sender = _sender(job)
    send = sender.send
    send(_NEVER + filling)

    def run() -> Mapping[str, Any]:
        step_ns = 1e9 / job["rate"]
        began_ns = time.monotonic_ns()
        warm = job["warm_messages"]
        for number in range(warm + job["messages"]):
            due_ns = began_ns + int(number * step_ns)
            while (early_ns := due_ns - time.monotonic_ns()) > 0:
                time.sleep(early_ns / 1e9)
            send((due_ns.to_bytes(_STAMP_BYTES) if number >= warm else _NEVER) + filling)
        late_ms = (time.monotonic_ns() - due_ns) / 1e6
        sender.close()
        return {"late_ms": late_ms}

    yield {}, run
    sender.close()


def _payloads_of_kafka(job: Mapping[str, Any]) -> Iterator[bytes]:
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415

    server = job["server"]
    config = {"bootstrap.servers": f"{server['host']}:{server['port']}", "group.id": secrets.token_hex(4)}
    consumer = Consumer({**config, "enable.auto.commit": False})
    consumer.assign([TopicPartition(job["topic"], 0, 0)])
    while True:
        message = consumer.poll(60.0)
        if message is None or message.error():
            raise BenchmarkError(f"{job['topic']}: {message and message.error()}")
        yield message.value()


@contextmanager
def _payloads(job: Mapping[str, Any]) -> Iterator[Iterator[bytes]]:
    if job["client"] == "kafka":
        yield _payloads_of_kafka(job)
        return
    config = {"zk.connect": job["server"]["zk_connect"], "groupid": secrets.token_hex(4)}
    if job["backoff_ms"]:
        config["fetcher.backoff.ms"] = job["backoff_ms"]
    with ConsumerConnector(config) as consumer:
        [stream] = consumer.create_message_streams({job["topic"]: 1})[job["topic"]]
        yield (message.payload for message in stream)


@contextmanager
def _delivering(job: Mapping[str, Any]) -> Prepared:
    with _payloads(job) as payloads:
        next(payloads)

        def run() -> Mapping[str, Any]:
            found: list[float] = []
            for payload in payloads:
                stamp = payload[:_STAMP_BYTES]
                if stamp != _NEVER:
                    found.append((time.monotonic_ns() - int.from_bytes(stamp)) / 1e6)
                    if len(found) == job["messages"]:
                        break
            return {"latencies_ms": quantiles(found)}

        yield {}, run


def prepare(job: Mapping[str, Any]) -> Any:
    """Send `messages` to `topic` at `rate` a second, or take as many of it."""
    return _sending(job) if job["do"] == "send" else _delivering(job)


if __name__ == "__main__":
    work(prepare)
