"""Old segments go by age and by size, and take nothing from those who are reading them."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from kafka2011.errors import OffsetOutOfRangeError
from kafka2011.message.message_set import MessageSet
from kafka2011.producer.sync_producer import SyncProducer
from kafka2011.wire.protocol import EARLIEST, LATEST, FetchRequest, decode_response, encode_request
from tests.support.waiting import eventually
from zk.broker_clocks import BrokerClockRegistry

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.consumer.simple_consumer import SimpleConsumer
    from kafka2011.local_cluster import LocalBroker
    from kafka2011.wire.connection import BrokerConnection
    from zk.client import ZkClient

    NewBroker = Callable[..., LocalBroker]
    OpenConnection = Callable[[LocalBroker], BrokerConnection]
    OpenConsumer = Callable[[LocalBroker], SimpleConsumer]
    AwaitEnd = Callable[..., None]
    Counts = Callable[[LocalBroker], dict[str, int]]

OFTEN = {"log.flush.interval": 1, "log.default.flush.scheduler.interval.ms": 50, "log.cleanup.interval.mins": 0.002}
"""A retention pass every 120 ms."""
DAY_MS = 86_400_000


def send(broker: LocalBroker, topic: str, *payloads: bytes) -> None:
    """Send each payload in a set of its own: a set is never split over two segments."""
    with SyncProducer(broker.host, broker.port) as producer:
        for payload in payloads:
            producer.send(topic, payload, 0)


def segments(broker: LocalBroker, topic: str) -> list[int]:
    return sorted(int(path.stem) for path in (broker.log_dir / f"{topic}-0").glob("*.kafka"))


def test_by_age(new_broker: NewBroker, open_consumer: OpenConsumer, await_end: AwaitEnd, counts_of: Counts) -> None:
    """Segments go when they were last written too long ago, the topic's own setting first; offsets never restart."""
    broker = new_broker({**OFTEN, "log.file.size": 1000, "topic.log.retention.hours": "brief:0.0003"})
    broker.start()
    size = len(bytes(MessageSet([bytes(600)])))
    for topic in ("brief", "kept"):
        send(broker, topic, *[bytes(600)] * 5)
        await_end(broker, topic, 5 * size)
    eventually(lambda: segments(broker, "brief") == [5 * size])
    consumer = open_consumer(broker)
    assert consumer.get_offsets_before("brief", 0, EARLIEST) == [5 * size]
    assert consumer.get_offsets_before("brief", 0, LATEST) == [5 * size]
    with pytest.raises(OffsetOutOfRangeError):
        consumer.fetch("brief", 0, 0)
    assert segments(broker, "kept") == [0, 2 * size, 4 * size]
    counts = counts_of(broker)
    assert (counts["deleted_segments"], counts["clock_jumps"]) == (3, 0)
    assert broker.output().count(b"last written more than 1080 ms ago") == 3

    os.utime(broker.log_dir / "brief-0" / f"{5 * size:020}.kafka")
    send(broker, "brief", b"again")
    await_end(broker, "brief", 5 * size + len(bytes(MessageSet([b"again"]))))


def test_by_age_only_while_the_clock_is_right(
    new_broker: NewBroker, zk_connect: str, zk_client: ZkClient, counts_of: Counts
) -> None:
    """A clock that is 400 days ahead makes everything old: nothing goes until it agrees with ZooKeeper's again."""
    settings = {**OFTEN, "log.file.size": 100, "log.retention.hours": 0.0003}
    ahead = new_broker(settings, zk_connect=zk_connect, program="clock_ahead.py")
    ahead.start()
    size = len(bytes(MessageSet([bytes(600)])))
    send(ahead, "views", *[bytes(600)] * 3)
    eventually(lambda: b"s ahead of ZooKeeper's" in ahead.output())
    passes = counts_of(ahead)["clock_jumps"]
    eventually(lambda: counts_of(ahead)["clock_jumps"] > passes + 2)
    assert segments(ahead, "views") == [0, size, 2 * size]
    assert BrokerClockRegistry(zk_client).clocks()[0].ahead_ms > 399 * DAY_MS
    ahead.stop()

    right = new_broker(settings, zk_connect=zk_connect)
    right.start()
    eventually(lambda: segments(right, "views") == [3 * size])
    assert abs(BrokerClockRegistry(zk_client).clocks()[0].ahead_ms) < DAY_MS


def test_by_size(new_broker: NewBroker, open_consumer: OpenConsumer, await_end: AwaitEnd) -> None:
    """The oldest segments go while what remains is at least the size; a broker that starts again finds the rest."""
    size = len(bytes(MessageSet([bytes(600)])))
    broker = new_broker({**OFTEN, "log.file.size": size - 1, "log.retention.size": 3 * size})
    broker.start()
    send(broker, "views", *[bytes(600)] * 10)
    await_end(broker, "views", 10 * size)
    eventually(lambda: segments(broker, "views") == [7 * size, 8 * size, 9 * size])
    consumer = open_consumer(broker)
    assert consumer.get_offsets_before("views", 0, LATEST, 10) == [10 * size, 9 * size, 8 * size, 7 * size]
    broker.stop()
    broker.start()
    assert consumer.get_offsets_before("views", 0, LATEST, 10) == [10 * size, 9 * size, 8 * size, 7 * size]
    [message] = consumer.fetch("views", 0, 7 * size)
    assert message.payload == bytes(600)


def test_deleted_during_a_slow_fetch(
    new_broker: NewBroker,
    open_connection: OpenConnection,
    await_end: AwaitEnd,
    counts_of: Counts,
    deleted_files_of: Callable[[LocalBroker], list[str]],
) -> None:
    """A reader in the middle of a segment still gets every byte after it was deleted; then its file is closed."""
    payloads = [os.urandom(900_000) for _ in range(20)]
    first = bytes(MessageSet(payloads))
    broker = new_broker({**OFTEN, "log.file.size": len(first) - 1, "log.retention.size": 500_000})
    broker.start()
    send(broker, "views", *payloads)
    await_end(broker, "views", len(first))
    slow = [open_connection(broker) for _ in range(2)]
    for connection in slow:
        connection.send(encode_request(FetchRequest("views", 0, 0, 100_000_000)))
    gone = open_connection(broker)
    gone.send(encode_request(FetchRequest("views", 0, 0, 100_000_000)))
    eventually(lambda: counts_of(broker).get("fetch") == len(slow) + 1)

    send(broker, "views", os.urandom(600_000))
    path = broker.log_dir / "views-0" / f"{0:020}.kafka"
    eventually(lambda: not path.exists())
    assert deleted_files_of(broker) == [f"{path} (deleted)"]
    gone.close()
    for connection in slow:
        assert decode_response(connection.receive(), "a fetch") == first
    eventually(lambda: deleted_files_of(broker) == [])
    with pytest.raises(OffsetOutOfRangeError):
        decode_response(slow[0].request(encode_request(FetchRequest("views", 0, 0, 100))), "a fetch")


def test_a_chain_of_segments_stays_whole_under_deletion(new_broker: NewBroker, await_end: AwaitEnd) -> None:
    """A broker killed while it deletes starts again: no gap is left between the segments."""
    broker = new_broker({**OFTEN, "log.file.size": 100, "log.retention.size": 1000})
    broker.start()
    size = len(bytes(MessageSet([bytes(150)])))
    for killed in range(1, 4):
        send(broker, "views", *[bytes(150)] * 200)
        eventually(lambda: segments(broker, "views")[0] > 0)
        broker.kill()
        broker.start()
        await_end(broker, "views", killed * 200 * size)
        starts = segments(broker, "views")
        assert all(right - left == size for left, right in pairwise(starts))
