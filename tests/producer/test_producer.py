"""What a producer does with a send before it is queued, and at its beginning and end."""

from __future__ import annotations

import os
import pickle
import threading
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.config import ProducerConfig
from kafka2011.message.topic import InvalidTopicError
from kafka2011.producer import producer as producer_module
from kafka2011.producer.errors import NoBrokersError, ProducerClosedError, QueueFullError
from kafka2011.producer.producer import Producer
from tests.support.produce_broker import KnownBrokers
from tests.support.waiting import eventually, is_waiting
from zk.cluster import Broker, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.produce_broker import ProduceBroker

    Open = Callable[..., Producer]

HOUR_MS = 3_600_000


class Pickled:
    """An encoder for any value."""

    def encode(self, value: Any) -> bytes:
        return pickle.dumps(value)


class Closable(KnownBrokers):
    """Known brokers that note the end."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def info(broker: ProduceBroker) -> Closable:
    """Return what the producers know of brokers."""
    return Closable([broker], 2)


@pytest.fixture
def open_producer(broker: ProduceBroker, info: Closable) -> Iterator[Open]:
    """Open asynchronous producers to one broker, whose batches stay open until they are full or flushed."""
    made: list[Producer] = []

    def start(**settings: object) -> Producer:
        given = {
            "broker.list": f"0:127.0.0.1:{broker.port}",
            "producer.type": "async",
            "queue.time": HOUR_MS,
            "queue.enqueueTimeout.ms": 0,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        producer = Producer(ProducerConfig.from_properties(given), info=info)
        made.append(producer)
        return producer

    yield start
    for producer in made:
        producer.close()


def test_two_threads_close_it_at_once(open_producer: Open) -> None:
    """Each takes a sender away only if the other has not just done so."""
    producer = open_producer()
    producer.send("t", b"x")
    others: list[threading.Thread] = []

    class Senders(dict[int, Any]):
        def get(self, key: int, default: Any = None) -> Any:
            found = super().get(key, default)
            if not others:
                others.append(threading.Thread(target=producer.close))
                others[0].start()
                others[0].join(0.5)  # now the other one has deleted it, or waits
            return found

    producer._senders = Senders(producer._senders)
    producer.close()
    others[0].join(20)
    assert not others[0].is_alive()
    assert not producer._senders


@pytest.mark.parametrize("whole", [True, False], ids=["bytes", "lists"])
def test_a_batch_is_full_at_its_bytes_exactly(broker: ProduceBroker, open_producer: Open, whole: bool) -> None:
    """What does not fit begins the next one; whether single payloads or lists are sent."""
    producer = open_producer(batch_size=100, max_message_size=10)
    sent = [b"x" * size for size in (4, 4, 2, 4, 4, 3)]
    futures = [producer.send("t", payload if whole else [payload]) for payload in sent]
    assert futures[0] is futures[1] is futures[2]
    assert futures[2] is not futures[3]
    assert futures[3] is futures[4]
    assert futures[4] is not futures[5]
    producer.close()
    assert sorted(payloads for _, _, payloads in broker.sets) == sorted([sent[:3], sent[3:5], sent[5:]])


@pytest.mark.parametrize("whole", [True, False], ids=["bytes", "lists"])
def test_a_batch_is_full_at_its_messages_exactly(broker: ProduceBroker, open_producer: Open, whole: bool) -> None:
    """The one that fills it closes it."""
    producer = open_producer(batch_size=3)
    futures = [producer.send("t", b"x" if whole else [b"x"]) for _ in range(7)]
    assert len({id(future) for future in futures[:3]}) == 1
    assert len({id(future) for future in futures[3:6]}) == 1
    assert len({id(future) for future in futures}) == 3
    assert not futures[6].done()
    producer.close()
    assert sorted(len(payloads) for _, _, payloads in broker.sets) == [1, 3, 3]


@pytest.mark.parametrize("whole", [True, False], ids=["bytes", "lists"])
def test_a_full_queue_takes_no_message_more(broker: ProduceBroker, open_producer: Open, whole: bool) -> None:
    """Not even one that an open batch would have room for."""
    producer = open_producer(batch_size=5, queue_size=5)
    producer.send("t", b"k", key="key")
    for _ in range(4):
        producer.send("t", b"x" if whole else [b"x"])
    with pytest.raises(QueueFullError, match="5 wait there"):
        producer.send("t", b"x" if whole else [b"x"])


def test_values_are_encoded_however_they_are_sent(broker: ProduceBroker, open_producer: Open) -> None:
    """Also bytes, into a batch that is open already."""
    producer = open_producer(**{"serializer.class": f"{__name__}:Pickled"})
    values = [b"bytes", b"more", {"a": 1}]
    for value in values:
        producer.send("t", value)  # type: ignore[arg-type]  # whatever the encoder takes
    producer.close()
    assert [pickle.loads(payload) for payload in broker.payloads] == values


def test_a_named_partition_is_kept_to_though_a_batch_is_open(broker: ProduceBroker, open_producer: Open) -> None:
    """A payload for one never goes into the batch of those that may go anywhere."""
    producer = open_producer()
    free = producer.send("t", b"free")
    named = producer.send("t", b"named", partition=TopicPartition("t", 0, 0))
    keyed = producer.send("t", b"keyed", key="a")  # partition 1
    assert len({id(future) for future in (free, named, keyed)}) == 3
    assert producer.send("t", b"free too") is free
    producer.close()
    assert sorted(map(sorted, (payloads for _, _, payloads in broker.sets))) == [
        [b"free", b"free too"],
        [b"keyed"],
        [b"named"],
    ]


def test_the_end_is_the_end_of_what_knows_the_brokers(open_producer: Open, info: Closable) -> None:
    """After it nothing is sent, whichever way it is tried."""
    producer = open_producer()
    producer.send("t", b"x")
    assert repr(producer) == "<Producer to 1 brokers, async, open>"
    producer.close()
    assert repr(producer) == "<Producer to 1 brokers, async, closed>"
    assert info.closed == 1
    for messages in (b"x", [b"x"]):
        with pytest.raises(ProducerClosedError):
            producer.send("t", messages)


def test_a_producer_that_sent_nothing_ends_what_knows_the_brokers_too(open_producer: Open, info: Closable) -> None:
    """It was opened with the producer."""
    producer = open_producer()
    producer.close()
    assert info.closed == 1


def test_a_send_that_waits_for_brokers_ends_with_the_producer(
    open_producer: Open, info: Closable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, though it would look again much later, and go on for confirm.timeout.ms."""
    monkeypatch.setattr(producer_module, "_LOOK_AGAIN_S", 3600)
    producer = open_producer(confirm=True, confirm_timeout_ms=HOUR_MS)
    info.counts = {}
    errors: list[NoBrokersError] = []

    def send() -> None:
        try:
            producer.send("t", b"x")
        except NoBrokersError as error:
            errors.append(error)

    sending = threading.Thread(target=send, daemon=True)
    sending.start()
    eventually(lambda: is_waiting(sending))
    producer.close()
    sending.join(20)
    assert len(errors) == 1


def test_every_producer_begins_anew_after_a_fork(open_producer: Open) -> None:
    """The child's copies hear of it by themselves."""
    producers = [open_producer(), open_producer()]
    of_parent = [producer._accumulator for producer in producers]
    child = os.fork()
    if child == 0:
        os._exit(any(producer._accumulator in of_parent for producer in producers))
    assert os.waitpid(child, 0)[1] == 0


def test_a_forked_child_finds_the_brokers_itself() -> None:
    """When it first sends something, in a session of its own; what it never used it leaves to the parent."""
    with Producer({"broker.list": "0:127.0.0.1:1", "producer.type": "async", "queue.time": HOUR_MS}) as producer:
        of_parent, accumulated = producer._router, producer._accumulator
        closed: list[str] = []
        of_parent.info.close = lambda: closed.append("parent's")  # type: ignore[method-assign]
        producer.forget_after_fork()
        assert producer._accumulator is not accumulated
        producer.close()
        assert not closed
        producer.forget_after_fork()
        with pytest.raises(InvalidTopicError):
            producer.send("../", b"nothing")
        assert producer._router is not of_parent
        assert producer._router.info.broker(0) == Broker(0, "127.0.0.1", 1)
        producer._router.info.close = lambda: closed.append("child's")  # type: ignore[method-assign]
        producer.close()
        assert closed == ["child's"]
