"""Puts the messages of a case into both systems, and waits until all of them can be read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafka2011 import SimpleConsumer, SyncProducer
from kafka2011.audit.publishing import open_counter
from kafka2011.events.codec import read_stamps
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.wire.protocol import LATEST
from paper_benchmarks.loads.messages import Form, events, lines, schema_of
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import stored_bytes
from zk.connecting import connect

if TYPE_CHECKING:
    from kafka2011.audit.counter import AuditCounter
    from paper_benchmarks.loads.messages import Case
    from paper_benchmarks.systems.system import System

PARTITIONS = 4
_AT_ONCE = 10_000
_SET = 200
_TIMEOUT_S = 60.0
_POLL_S = 0.05


def fill_ours(system: System, case: Case, topic: str, messages: int) -> None:
    """Publish events to a broker of ours; the audit's tier `producer` counts them. Raises BenchmarkError."""
    zk_connect = str(system.server()["zk_connect"])
    with connect(zk_connect) as client:
        SchemaRegistry(client).register(topic, schema_of(case.form))
    stored = 0
    with SyncProducer(system.host, system.port) as producer, open_counter("producer", zk_connect) as counter:
        for first in range(0, messages, _AT_ONCE):
            stored += _send(producer, counter, topic, events(case, first, min(_AT_ONCE, messages - first)))
    counted = counter.counts()["counted"]
    if counted != messages:
        raise BenchmarkError(f"{topic}: the audit has counted {counted} of {messages} events")
    _await_flush(system, topic, stored)


def _send(producer: SyncProducer, counter: AuditCounter, topic: str, payloads: list[bytes]) -> int:
    """Send messages to all partitions in turn; return what they take in the logs."""
    for place, first in enumerate(range(0, len(payloads), _SET)):
        producer.send(topic, payloads[first : first + _SET], place % PARTITIONS)
    counter.count(topic, [stamp for stamp in read_stamps(payloads) if stamp is not None])
    around = stored_bytes(0)
    return sum(len(payload) + around for payload in payloads)


def _await_flush(system: System, topic: str, stored: int) -> None:
    deadline_s = time.monotonic() + _TIMEOUT_S
    with SimpleConsumer(system.host, system.port) as consumer:
        while True:
            ends = [consumer.get_offsets_before(topic, partition, LATEST)[0] for partition in range(PARTITIONS)]
            if sum(ends) == stored:
                return
            if time.monotonic() >= deadline_s:
                raise BenchmarkError(f"{topic} ends at {ends}: {stored} bytes were sent")
            time.sleep(_POLL_S)


def fill_kafka(system: System, case: Case, topic: str, messages: int) -> None:
    """Send the same events, or lines of text as they are, to a Kafka of today. Raises BenchmarkError."""
    from confluent_kafka import Producer  # noqa: PLC0415 (only where a Kafka is measured)
    from confluent_kafka.admin import AdminClient, NewTopic  # noqa: PLC0415

    make = events if case.form is Form.EVENT else lines
    address = {"bootstrap.servers": f"{system.host}:{system.port}"}
    admin = AdminClient(address)
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(_TIMEOUT_S)
    producer = Producer({**address, "acks": "all", "queue.buffering.max.messages": 4 * _AT_ONCE})
    for first in range(0, messages, _AT_ONCE):
        payloads = make(case, first, min(_AT_ONCE, messages - first))
        for place, begin in enumerate(range(0, len(payloads), _SET)):
            values = [{"value": payload} for payload in payloads[begin : begin + _SET]]
            producer.produce_batch(topic, values, partition=place % PARTITIONS)
        if unsent := producer.flush(_TIMEOUT_S):
            raise BenchmarkError(f"{unsent} messages of {topic} could not be sent")
