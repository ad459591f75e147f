"""What is left after kill -9, a torn write and a damaged file."""

from __future__ import annotations

import threading
from contextlib import suppress
from itertools import count, pairwise
from typing import TYPE_CHECKING

from kafka2011.errors import BrokerConnectionError, KafkaError
from kafka2011.message.message_set import MessageSet
from kafka2011.producer.sync_producer import SyncProducer
from kafka2011.wire.protocol import MultiFetchRequest, ProduceRequest, encode_request
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.consumer.simple_consumer import SimpleConsumer
    from kafka2011.local_cluster import LocalBroker
    from kafka2011.message.message_set import Message
    from kafka2011.wire.connection import BrokerConnection

    OpenConnection = Callable[[LocalBroker], BrokerConnection]
    OpenConsumer = Callable[[LocalBroker], SimpleConsumer]
    AwaitEnd = Callable[..., None]
    ReadAll = Callable[..., list[Message]]

BARRIER = encode_request(MultiFetchRequest(()))


class Stream:
    """A thread that produces numbered messages, and knows up to which one the broker has handled them."""

    def __init__(self, connection: BrokerConnection) -> None:
        self.handled = 0
        self._connection = connection
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with suppress(BrokerConnectionError):
            for first in count(step=100):
                for number in range(first, first + 100, 2):
                    two = MessageSet([b"%d" % number, b"%d" % (number + 1) * 50])
                    self._connection.send(encode_request(ProduceRequest("views", 0, bytes(two))))
                self._connection.request(BARRIER)
                self.handled = first + 100

    def join(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()


def starts_of_streams(messages: list[Message]) -> list[int]:
    """Return the index of each stream's first message."""
    return [index for index, message in enumerate(messages) if message.payload == b"0"]


def test_kill_during_produce(
    broker: LocalBroker,
    open_connection: OpenConnection,
    open_consumer: OpenConsumer,
    read_all: ReadAll,
) -> None:
    """What could be read before can be read after, at its offset; so can all that was handled; in order, whole."""
    for earlier_streams in range(2):
        stream = Stream(open_connection(broker))
        consumer = open_consumer(broker)
        before: list[Message] = []
        while len(before) < 5000 or len(starts_of_streams(before)) == earlier_streams:
            next_offset = before[-1].next_offset if before else 0
            with suppress(KafkaError):  # nothing there yet
                before += consumer.fetch("views", 0, next_offset)
        broker.kill()
        stream.join()
        broker.start()
        assert b"the last stop was not clean: recovering" in broker.output()
        after = read_all(broker, "views")
        assert after[: len(before)] == before
        starts = starts_of_streams(after)
        assert len(starts) == earlier_streams + 1
        assert after[0].offset == 0
        assert all(left.next_offset == right.offset for left, right in pairwise(after))
        last_run = after[starts[-1] :]
        assert len(last_run) >= stream.handled
        for number, message in enumerate(last_run):
            assert message.payload == (b"%d" % number) * (50 if number % 2 else 1)
    with SyncProducer(broker.host, broker.port) as producer:
        producer.send("views", b"more")
    eventually(lambda: read_all(broker, "views")[-1].payload == b"more")


def send(broker: LocalBroker, *payloads: bytes) -> None:
    with SyncProducer(broker.host, broker.port) as producer:
        producer.send("views", payloads)


def test_torn_tail(broker: LocalBroker, await_end: AwaitEnd, read_all: ReadAll) -> None:
    """Half a message at the end is cut, kept beside the log, and reported as a torn tail; the log goes on there."""
    whole, torn = bytes(MessageSet([b"one", b"two"])), bytes(MessageSet([b"three"]))[:-2]
    send(broker, b"one", b"two")
    await_end(broker, "views", len(whole))
    broker.kill()
    directory = broker.log_dir / "views-0"
    with (directory / f"{0:020}.kafka").open("ab") as segment:
        segment.write(torn)

    broker.start()
    assert f"torn tail: cut {directory / f'{0:020}.kafka'} at offset {len(whole)}" in broker.output().decode()
    assert b"WARNING" in broker.output()
    assert b"ERROR" not in broker.output()
    assert (directory / f"{len(whole):020}.cut").read_bytes() == torn
    assert [message.payload for message in read_all(broker, "views")] == [b"one", b"two"]
    send(broker, b"four")
    await_end(broker, "views", len(whole) + len(bytes(MessageSet([b"four"]))))
    assert [message.payload for message in read_all(broker, "views")] == [b"one", b"two", b"four"]


def test_damage_in_the_middle(broker: LocalBroker, await_end: AwaitEnd, read_all: ReadAll) -> None:
    """A flipped bit with good messages behind it is corruption, an error; what is cut is kept, the rest is served."""
    payloads = [b"message %d of ten" % number for number in range(10)]
    sets = bytes(MessageSet(payloads))
    send(broker, *payloads)
    await_end(broker, "views", len(sets))
    broker.kill()
    directory = broker.log_dir / "views-0"
    segment = directory / f"{0:020}.kafka"
    damaged = bytearray(segment.read_bytes())
    good = len(sets) // 10 * 4
    damaged[good + 15] ^= 0x10
    segment.write_bytes(damaged)

    broker.start()
    [line] = [line for line in broker.output().decode().splitlines() if " ERROR " in line]
    assert f"corrupt log: cut {segment} at offset {good}" in line
    assert "among them 5 good messages" in line
    assert (directory / f"{good:020}.cut").read_bytes() == bytes(damaged[good:])
    assert [message.payload for message in read_all(broker, "views")] == payloads[:4]


def test_only_the_last_segment_is_recovered(
    new_broker: Callable[..., LocalBroker], await_end: AwaitEnd, open_consumer: OpenConsumer
) -> None:
    """A roll flushes the old segment, so damage there is left for whoever reads it: its CRC tells them."""
    broker = new_broker({"log.flush.interval": 1, "log.file.size": 100})
    broker.start()
    one = len(bytes(MessageSet([bytes(150)])))
    for number in range(3):
        send(broker, b"%d" % number * 150)
        await_end(broker, "views", one * (number + 1))
    broker.kill()
    first = broker.log_dir / "views-0" / f"{0:020}.kafka"
    damaged = bytearray(first.read_bytes())
    damaged[50] ^= 1
    first.write_bytes(damaged)
    broker.start()
    assert b"cut " not in broker.output()
    consumer = open_consumer(broker)
    assert consumer.get_offsets_before("views", 0, -1, 10) == [3 * one, 2 * one, one, 0]
    [second] = consumer.fetch("views", 0, one)
    assert second.payload == b"1" * 150
