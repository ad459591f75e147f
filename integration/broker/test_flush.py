"""Readable means flushed, and a slow disk holds up nobody who does not need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafka2011.errors import OffsetOutOfRangeError
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet
from kafka2011.wire.protocol import EARLIEST, LATEST, MultiFetchRequest, ProduceRequest, encode_request
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafka2011.consumer.simple_consumer import SimpleConsumer
    from kafka2011.local_cluster import LocalBroker
    from kafka2011.wire.connection import BrokerConnection

    NewBroker = Callable[..., LocalBroker]
    OpenConnection = Callable[[LocalBroker], BrokerConnection]
    OpenConsumer = Callable[[LocalBroker], SimpleConsumer]
    AwaitEnd = Callable[..., None]

BARRIER = encode_request(MultiFetchRequest(()))
ONE = bytes(MessageSet([b"one"]))
NEVER = 1_000_000_000


def produce(topic: str, messages: bytes) -> bytes:
    return encode_request(ProduceRequest(topic, 0, messages))


def test_by_count(
    new_broker: NewBroker, open_connection: OpenConnection, open_consumer: OpenConsumer, await_end: AwaitEnd
) -> None:
    """Messages can be read once log.flush.interval of them came, those inside compressed sets counted; not before."""
    broker = new_broker({"log.flush.interval": 10, "log.default.flush.scheduler.interval.ms": NEVER})
    broker.start()
    connection, consumer = open_connection(broker), open_consumer(broker)
    wrapper = bytes(MessageSet([b"one"] * 5, Codec.GZIP))
    connection.send(produce("views", ONE * 4) + produce("views", wrapper))
    connection.request(BARRIER)
    assert consumer.get_offsets_before("views", 0, LATEST, 10) == [0]
    assert list(consumer.fetch("views", 0, 0)) == []
    with pytest.raises(OffsetOutOfRangeError):
        consumer.fetch("views", 0, len(ONE))
    connection.send(produce("views", ONE))
    await_end(broker, "views", 5 * len(ONE) + len(wrapper))
    connection.send(produce("views", ONE))
    connection.request(BARRIER)
    assert len(list(consumer.fetch("views", 0, 0))) == 10


def test_by_time(new_broker: NewBroker, open_connection: OpenConnection, await_end: AwaitEnd) -> None:
    """Messages that stay alone can be read after a while; topics may have intervals of their own."""
    broker = new_broker(
        {
            "log.flush.interval": NEVER,
            "log.default.flush.scheduler.interval.ms": 50,
            "log.default.flush.interval.ms": NEVER,
            "topic.flush.intervals.ms": "views:200",
        }
    )
    broker.start()
    connection = open_connection(broker)
    connection.send(produce("never", ONE) + produce("views", ONE))
    await_end(broker, "views", len(ONE))
    connection.send(produce("views", ONE))
    await_end(broker, "views", 2 * len(ONE))
    await_end(broker, "never", 0)


def test_slow_disk(
    new_broker: NewBroker,
    open_connection: OpenConnection,
    open_consumer: OpenConsumer,
    await_end: AwaitEnd,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While an fsync hangs, other connections and further appends to the same log go on; nothing new can be read."""
    gate = tmp_path / "gate"
    monkeypatch.setenv("FSYNC_GATE", str(gate))
    broker = new_broker({"log.flush.interval": 1}, program="gated_fsync.py")
    broker.start()
    connection, other, consumer = open_connection(broker), open_connection(broker), open_consumer(broker)
    connection.send(produce("views", ONE))
    other.send(produce("clicks", ONE))
    await_end(broker, "views", len(ONE))
    await_end(broker, "clicks", len(ONE))

    gate.touch()
    for _ in range(20):
        connection.send(produce("views", ONE))
        connection.request(BARRIER)
        other.send(produce("clicks", ONE) + produce("views", ONE))
        other.request(BARRIER)
    for topic in ("views", "clicks"):
        assert consumer.get_offsets_before(topic, 0, LATEST) == [len(ONE)]
        assert consumer.get_offsets_before(topic, 0, EARLIEST) == [0]
        assert len(list(consumer.fetch(topic, 0, 0))) == 1
    segment = broker.log_dir / "views-0" / f"{0:020}.kafka"
    assert segment.stat().st_size == 41 * len(ONE)

    gate.unlink()
    await_end(broker, "views", 41 * len(ONE))
    await_end(broker, "clicks", 21 * len(ONE))


def test_slow_writes(
    new_broker: NewBroker,
    open_connection: OpenConnection,
    await_end: AwaitEnd,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the write of a large set hangs, others are served; the set then stands whole where it came."""
    gate = tmp_path / "gate"
    monkeypatch.setenv("WRITE_GATE", str(gate))
    broker = new_broker({"log.flush.interval": 1}, program="gated_write.py")
    broker.start()
    connection, other = open_connection(broker), open_connection(broker)
    gate.touch()
    large = bytes(MessageSet([bytes([number]) * 600_000 for number in range(2)]))
    connection.send(produce("views", large) + produce("views", ONE))
    for number in range(1, 21):
        other.send(produce("clicks", ONE))
        other.request(BARRIER)
        await_end(broker, "clicks", number * len(ONE))
    segment = broker.log_dir / "views-0" / f"{0:020}.kafka"
    eventually(segment.exists)
    assert segment.stat().st_size == 0
    gate.unlink()
    connection.request(BARRIER)
    assert segment.read_bytes() == large + ONE


def test_by_count_while_segments_roll(
    new_broker: NewBroker, open_connection: OpenConnection, await_end: AwaitEnd
) -> None:
    """A flush that was asked for before a roll covers what was appended behind it."""
    broker = new_broker(
        {"log.flush.interval": 1, "log.default.flush.scheduler.interval.ms": NEVER, "log.file.size": len(ONE) - 1}
    )
    broker.start()
    connection = open_connection(broker)
    for rolls in range(1, 51):
        connection.send(produce("views", ONE) * 3)
        await_end(broker, "views", 3 * rolls * len(ONE))
