"""The asynchronous producer, against scripted brokers on real sockets."""

from __future__ import annotations

import contextlib
import gzip
import os
import sys
import threading
import time
from concurrent.futures import wait
from typing import TYPE_CHECKING

import pytest

from kafka2011.config import ProducerConfig
from kafka2011.errors import BrokerConnectionError, MessageSizeTooLargeError
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet
from kafka2011.message.topic import InvalidTopicError
from kafka2011.producer.confirmation_window import MOST_BARRIERS
from kafka2011.producer.errors import (
    ConfirmTimeoutError,
    NoBrokersError,
    ProducerClosedError,
    QueueFullError,
    SetRefusedError,
)
from kafka2011.producer.partitioner import DefaultPartitioner
from kafka2011.producer.producer import Producer
from kafka2011.producer.sender import WINDOW_BATCHES
from kafka2011.wire.protocol import MultiFetchRequest, MultiProduceRequest, ProduceRequest
from tests.support.produce_broker import KnownBrokers
from tests.support.waiting import eventually, is_waiting
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from kafka2011.producer.batch import FailedBatch, Receipt
    from kafka2011.producer.confirmation_window import ConfirmationWindow
    from tests.support.produce_broker import ProduceBroker

    NewBroker = Callable[[], ProduceBroker]
    NewProducer = Callable[..., Producer]
    OnFailure = Callable[[FailedBatch], object]

HOUR_MS = 3_600_000
WAIT_S = 20


@pytest.fixture
def new_producer() -> Iterator[NewProducer]:
    """Make producers for some scripted brokers; settings by 0.7's names with underscores. All are closed at the end."""
    made: list[Producer] = []

    def make(
        brokers: list[ProduceBroker],
        partitions: int = 1,
        on_failure: OnFailure | None = None,
        info: KnownBrokers | None = None,
        **settings: object,
    ) -> Producer:
        config = ProducerConfig.from_properties(
            {
                "broker.list": ",".join(f"{broker.broker_id}:127.0.0.1:{broker.port}" for broker in brokers),
                "producer.type": "async",
                "queue.time": 5,
                "socket.timeout.ms": 10_000,
                **{key.replace("_", "."): value for key, value in settings.items()},
            }
        )
        producer = Producer(config, info=info or KnownBrokers(brokers, partitions), on_failure=on_failure)
        made.append(producer)
        return producer

    yield make
    for broker_producer in made:
        broker_producer.close()


def window_of(producer: Producer) -> ConfirmationWindow:
    """Return what a producer that confirms has sent to broker 0 and does not know to be written."""
    return producer._senders[0]._window


def hold_encoding(producer: Producer) -> threading.Event:
    """Keep a producer's senders from sending anything until the event is set."""
    encode, may_encode = producer._set_encoder.encode, threading.Event()

    def encode_later(topic: str, payloads: list[bytes]) -> bytes:
        may_encode.wait(WAIT_S)
        return encode(topic, payloads)

    producer._set_encoder.encode = encode_later  # type: ignore[method-assign]
    return may_encode


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def test_a_full_batch_goes_at_once_and_the_rest_by_flush(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """A batch does not wait when it is full; what is left waits for queue.time, for a flush, or for the end."""
    producer = new_producer([broker], batch_size=10, queue_time=HOUR_MS)
    for payload in numbers(25):
        producer.send("t", payload)
    eventually(lambda: len(broker.payloads) == 20)
    assert [len(payloads) for _, _, payloads in broker.sets] == [10, 10]
    assert producer.flush(WAIT_S)
    eventually(lambda: broker.payloads == numbers(25))
    last = producer.send("t", b"last")
    producer.close()
    assert last.result(0).messages == 1
    assert broker.payloads == [*numbers(25), b"last"]


def test_a_future_keeps_no_messages(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """An application that keeps its futures must not keep all that it ever sent."""
    producer = new_producer([broker], queue_time=HOUR_MS)
    payload = os.urandom(1000)
    unused = sys.getrefcount(payload)
    futures = [producer.send("t", payload), producer.send("t", [payload, payload], key="k")]
    assert sys.getrefcount(payload) == unused + 3
    producer.flush()
    assert [future.result(WAIT_S).messages for future in futures] == [1, 2]
    eventually(lambda: sys.getrefcount(payload) == unused)


def test_a_batch_goes_when_its_time_has_come(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """After queue.time what there is goes, full or not."""
    producer = new_producer([broker], queue_time=20)
    assert producer.send("t", b"alone").result(WAIT_S) == ("t", 0, 0, 1, False, 0)


def test_each_partition_and_topic_has_a_request(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """Batches that go together are one set and one produce for each topic and partition, in sending order."""
    producer = new_producer([broker], partitions=2, batch_size=40, queue_time=HOUR_MS)
    for number in range(20):
        producer.send("a", b"%d" % number, key=b"k%d" % number)
        producer.send("b", b"%d" % number, key=b"k%d" % number)
    assert producer.flush(WAIT_S)
    eventually(lambda: len(broker.payloads) == 40)
    requests = [request for request in broker.requests if isinstance(request, ProduceRequest)]
    assert sorted((each.topic, each.partition) for each in requests) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    for _, _, payloads in broker.sets:
        assert payloads == sorted(payloads, key=int)


def test_a_long_list_is_one_future_and_several_batches(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """The future is done when all of it is; the order is kept."""
    producer = new_producer([broker], batch_size=10, queue_size=20)
    assert producer.send("t", numbers(95)).result(WAIT_S).messages == 95
    producer.close()
    assert broker.payloads == numbers(95)
    assert len(broker.sets) == 10


def test_only_some_topics_are_compressed(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """compressed.topics names them."""
    producer = new_producer([broker], compression_codec=1, compressed_topics="squeezed")
    producer.send("squeezed", [b"x" * 100] * 10).result(WAIT_S)
    producer.send("plain", [b"x" * 100] * 10).result(WAIT_S)
    producer.close()
    produces = [request for request in broker.requests if isinstance(request, ProduceRequest)]
    sizes = {produce.topic: len(produce.messages) for produce in produces}
    assert sizes["squeezed"] < 200
    assert sizes["plain"] == 10 * 110
    assert broker.payloads == [b"x" * 100] * 20


def test_what_cannot_be_sent_is_refused_before_it_is_queued(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """Bad topics, payloads and sizes are errors of send itself."""
    producer = new_producer([broker], max_message_size=10)
    with pytest.raises(InvalidTopicError):
        producer.send("../t", b"x")
    with pytest.raises(TypeError, match="bytes, not str"):
        producer.send("t", "text")  # type: ignore[arg-type]  # mypy finds it too
    with pytest.raises(TypeError, match="bytes, not int"):
        producer.send("t", [b"x", 1])  # type: ignore[list-item]  # mypy finds it too
    with pytest.raises(MessageSizeTooLargeError, match=r"11 bytes for topic t"):
        producer.send("t", [b"x", b"y" * 11])
    with pytest.raises(MessageSizeTooLargeError):
        producer.send("t", MessageSet([b"y" * 11]))
    producer.close()
    assert broker.payloads == []
    with pytest.raises(ProducerClosedError):
        producer.send("t", b"x")


@pytest.mark.parametrize("confirm", [False, True])
def test_a_full_queue_refuses_or_waits(broker: ProduceBroker, new_producer: NewProducer, confirm: bool) -> None:
    """With a timeout a send fails and queues nothing; without one it goes on when there is room."""
    settings = {"queue_time": HOUR_MS, "queue_size": 5, "batch_size": 5, "confirm": confirm}
    refusing = new_producer([broker], **settings, **{"queue.enqueueTimeout.ms": 0})
    stuck = threading.Event()
    broker.script = lambda _request: stuck.wait(WAIT_S)
    broker.answering.clear()
    for payload in numbers(4):
        refusing.send("t", payload)
    with pytest.raises(QueueFullError, match=r"queue\.size is 5"):
        refusing.send("t", [b"x", b"y"])
    waiting = new_producer([broker], **settings)
    may_encode = hold_encoding(waiting)
    waiting.send("t", numbers(4))
    sender = threading.Thread(target=waiting.send, args=("t", numbers(5, 4)))
    sender.start()
    eventually(lambda: is_waiting(sender) or not sender.is_alive())
    assert sender.is_alive(), "it did not wait for room"
    may_encode.set()
    stuck.set()
    broker.answering.set()
    waiting.flush(WAIT_S)
    sender.join(WAIT_S)
    assert not sender.is_alive()
    for producer in (refusing, waiting):
        producer.close()
    assert sorted(broker.payloads) == sorted(numbers(4) + numbers(9))


def test_a_send_cannot_be_cancelled(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """What is queued is sent."""
    producer = new_producer([broker], queue_time=HOUR_MS)
    future = producer.send("t", b"x")
    assert not future.cancel()
    producer.close()
    assert future.result(0)
    assert broker.payloads == [b"x"]


def test_retries_reach_a_broker_that_comes_back(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """A batch that could not be handed over is sent again up to num.retries times."""
    producer = new_producer([broker], num_retries=50)
    broker.stop()
    future = producer.send("t", b"x", key="k")
    with pytest.raises(TimeoutError):
        future.result(0.1)
    broker.start()
    assert future.result(WAIT_S).resends >= 1
    producer.close()
    assert broker.payloads == [b"x"]


def test_without_retries_a_send_fails_and_the_callback_gets_it(
    new_broker: NewBroker, new_producer: NewProducer
) -> None:
    """The future has the error, the callback the messages with their keys, and other brokers' partitions go on."""
    failed: list[FailedBatch] = []

    def on_failure(failure: FailedBatch) -> None:
        failed.append(failure)
        raise RuntimeError("a callback's own error harms nobody")

    brokers = [new_broker(), new_broker()]
    producer = new_producer(brokers, on_failure=on_failure)
    brokers[0].stop()
    futures = {key: producer.send("t", [key], key=key) for key in numbers(20)}
    lost = {key for key in futures if DefaultPartitioner().partition(key, 2) == 0}
    for key, future in futures.items():
        if key in lost:
            with pytest.raises(BrokerConnectionError, match=f"127.0.0.1:{brokers[0].port}"):
                future.result(WAIT_S)
        else:
            assert future.result(WAIT_S).broker_id == 1
    producer.close()
    assert {key for each in failed for key in each.keys} == lost
    assert all(each.messages == each.keys and each.topic == "t" for each in failed)
    assert producer.counts.messages_failed == len(lost)
    assert sorted(brokers[1].payloads) == sorted(set(futures) - lost)


def test_without_a_key_sends_leave_a_broker_that_is_down(new_broker: NewBroker, new_producer: NewProducer) -> None:
    """They go elsewhere until it can be reached again, which is found out without them."""
    brokers = [new_broker(), new_broker()]
    producer = new_producer(brokers)
    brokers[0].stop()
    assert {producer.send("t", b"x").result(WAIT_S).broker_id for _ in range(50)} == {1}
    assert producer.counts.messages_failed == 0
    brokers[0].start()
    eventually(lambda: producer.send("t", b"x").result(WAIT_S).broker_id == 0)


def test_all_that_waits_for_a_lost_broker_fails_together(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """Without retries, and when closing, nobody waits for one try after another."""
    broker.stop()
    for retries, waits in ((0, False), (1000, True)):
        producer = new_producer([broker], batch_size=1, num_retries=retries)
        futures = [producer.send("t", payload, key="k") for payload in numbers(50)]
        if waits:
            producer.close()
        else:
            assert not wait(futures, WAIT_S).not_done
        assert all(isinstance(future.exception(0), BrokerConnectionError) for future in futures)


def test_a_failed_list_of_nothing_has_no_keys(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """It may be sent, to make a topic; when it fails, there are as many keys as messages."""
    failed: list[FailedBatch] = []
    producer = new_producer([broker], on_failure=failed.append)
    broker.stop()
    producer.send("t", [], key="k")
    producer.send("u", [])
    producer.close()
    assert [(each.messages, each.keys) for each in failed] == [([], []), ([], [])]


def test_flushing_waits_for_the_futures(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """Those with callbacks too, which wait for one another's."""
    producer = new_producer([broker], batch_size=1, queue_time=HOUR_MS)
    may_end = threading.Event()
    may_encode = hold_encoding(producer)
    futures = [producer.send("t", messages) for messages in (b"1", b"2", [b"3", b"4"])]
    for future in futures:
        future.add_done_callback(lambda _: may_end.wait(WAIT_S))
    may_encode.set()
    eventually(lambda: producer.counts.messages_sent == 4)
    assert not producer.flush(0)
    assert not futures[-1].done()
    may_end.set()
    assert producer.flush(WAIT_S)
    assert all(future.done() for future in futures)


def test_a_callback_may_send(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """And wait for room, while the batches before it go on."""
    producer = new_producer([broker], batch_size=1, queue_size=2)
    all_sent = threading.Event()
    count = 0

    def send_another(_future: Future[Receipt]) -> None:
        nonlocal count
        count += 1
        if count == 20:
            all_sent.set()
            return
        for payload in (b"x", b"y", b"z"):
            last = producer.send("t", payload, key="k")
        last.add_done_callback(send_another)

    producer.send("t", b"first", key="k").add_done_callback(send_another)
    assert all_sent.wait(WAIT_S)
    producer.close()
    assert len(broker.payloads) == 1 + 3 * 19


def test_a_send_that_races_the_end_is_sent_or_refused(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """And leaves no thread behind."""
    for _ in range(20):
        producer = new_producer([broker], batch_size=5)
        futures: list[Future[Receipt]] = []
        go = threading.Event()

        def send(producer: Producer = producer, futures: list[Future[Receipt]] = futures) -> None:
            go.wait(WAIT_S)  # noqa: B023
            with contextlib.suppress(ProducerClosedError):
                for payload in numbers(1000):
                    futures.append(producer.send("t", payload, key=payload))  # noqa: PERF401

        thread = threading.Thread(target=send)
        thread.start()
        go.set()
        producer.close()
        thread.join(WAIT_S)
        assert all(future.done() and future.exception(0) is None for future in futures)
    eventually(lambda: not [each for each in threading.enumerate() if each.name.startswith("kafka2011-producer")])


def test_a_partition_can_be_named(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """Its messages stay there, in order, and never mix with those that may go anywhere."""
    producer = new_producer([broker], partitions=3, queue_time=HOUR_MS)
    where = TopicPartition("t", 0, 2)
    futures = [producer.send("t", payload, partition=where) for payload in numbers(10)]
    free = producer.send("t", b"free")
    assert free is not futures[0]
    producer.close()
    assert {future.result(0)[1:3] for future in futures} == {(0, 2)}
    assert [payloads for _, partition, payloads in broker.sets if b"free" not in payloads] == [numbers(10)]


def test_without_a_key_full_batches_are_spread_evenly(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """A topic's messages go to one partition until its batch is full, then to the next in a shuffled cycle."""
    producer = new_producer([broker], partitions=4, batch_size=10, queue_time=HOUR_MS)
    for payload in numbers(400):
        producer.send("t", payload)
    producer.close()
    assert [len(payloads) for _, _, payloads in broker.sets] == [10] * 40
    for first in range(0, 40, 4):
        assert sorted(partition for _, partition, _ in broker.sets[first : first + 4]) == [0, 1, 2, 3]


def test_messages_with_and_without_a_key_share_no_batch(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """Only the latter may go elsewhere."""
    producer = new_producer([broker], queue_time=HOUR_MS)
    assert producer.send("t", b"1") is producer.send("t", b"2")
    assert producer.send("t", b"3", key="k") is producer.send("t", b"4", key="l")
    producer.close()
    assert sorted(payloads for _, _, payloads in broker.sets) == [[b"1", b"2"], [b"3", b"4"]]


def test_the_queue_is_bounded_in_bytes_too(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """Few large messages fill it as well as many small ones."""
    settings = {"queue.max.bytes": 1000, "queue.enqueueTimeout.ms": 0}
    producer = new_producer([broker], confirm=True, batch_size=1, **settings)
    broker.answering.clear()
    producer.send("t", b"x", key="k").exception  # noqa: B018 (the connection is proven before answers are held back)
    for _ in range(2):
        producer.send("t", b"x" * 400, key="k")
    with pytest.raises(QueueFullError, match=r"queue\.max\.bytes 1000"):
        producer.send("t", b"x" * 400, key="k")
    broker.answering.set()


def test_a_forked_child_begins_anew(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """It shares neither connection nor queue with its parent, and both lose nothing."""
    producer = new_producer([broker], batch_size=10, queue_time=HOUR_MS)
    for payload in numbers(15):
        producer.send("t", payload)
    eventually(lambda: len(broker.payloads) == 10)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for payload in numbers(15, 100):
                producer.send("t", payload)
            producer.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    producer.close()
    assert sorted(broker.payloads) == sorted(numbers(15) + numbers(15, 100))
    assert broker.unasked_ends == 0


def test_a_good_set_is_not_blamed_for_a_broker_that_restarts(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """A set is refused only if the broker goes on serving others meanwhile; one that ends all connections restarts."""
    ends = 5

    def script(_request: ProduceRequest) -> bool:
        nonlocal ends
        if ends:
            ends -= 1
            broker.end_connections()
            return False
        return True

    broker.script = script
    producer = new_producer([broker], confirm=True)
    assert producer.send("t", b"good", key="k").result(WAIT_S).resends == 5
    producer.close()
    assert producer.counts.sets_refused == 0
    assert broker.payloads == [b"good"]


def test_confirming_waits_for_brokers_that_are_just_registering(
    broker: ProduceBroker, new_producer: NewProducer
) -> None:
    """Instead of failing at once; without a broker until confirm.timeout.ms it does fail."""
    info = KnownBrokers([broker])
    known, info.counts = info.counts, {}
    producer = new_producer([broker], info=info, confirm=True, confirm_timeout_ms=WAIT_S * 1000)
    sent: list[Future[Receipt]] = []
    thread = threading.Thread(target=lambda: sent.append(producer.send("t", b"x")))
    thread.start()
    eventually(lambda: is_waiting(thread) or not thread.is_alive())
    assert thread.is_alive(), "it did not wait"
    info.counts = known
    thread.join(WAIT_S)
    assert sent[0].result(WAIT_S).confirmed
    info.counts = {}
    impatient = new_producer([broker], info=info, confirm=True, confirm_timeout_ms=200)
    with pytest.raises(NoBrokersError, match="no live broker is known for topic t"):
        impatient.send("t", b"x")


def test_reconnecting_for_load_balancers_loses_nothing(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """After reconnect.interval sends the old connection ends in order, with everything handled."""
    for confirm in (False, True):
        producer = new_producer([broker], reconnect_interval=3, batch_size=1, confirm=confirm)
        for payload in numbers(20):
            producer.send("t", payload).result(WAIT_S)
        producer.close()
        assert broker.payloads == numbers(20)
        broker.sets.clear()
    assert broker.connections >= 12
    assert broker.unasked_ends == 0


def test_barriers_are_pipelined_behind_several_sets(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """While one answer is awaited more sets go out, up to a bound; nothing is confirmed before it comes."""
    broker.answering.clear()
    window = WINDOW_BATCHES
    producer = new_producer([broker], confirm=True, batch_size=1, queue_size=1000)
    may_encode = hold_encoding(producer)
    futures = [producer.send("t", payload, key="k") for payload in numbers(window + 100)]
    may_encode.set()
    sent = window_of(producer)
    eventually(lambda: sent.unconfirmed == window)
    eventually(lambda: broker.payloads == numbers(window))
    barriers = sum(isinstance(request, MultiFetchRequest) for request in broker.requests)
    assert 2 <= barriers <= 1 + MOST_BARRIERS  # one to prove the connection, and those between and behind the sets
    assert not any(future.done() for future in futures)
    broker.answering.set()
    producer.close()
    assert broker.payloads == numbers(window + 100)
    assert all(future.result(0).confirmed for future in futures)


def test_what_a_lost_connection_leaves_in_doubt_is_sent_again_in_order(
    broker: ProduceBroker, new_producer: NewProducer
) -> None:
    """Resends begin at the oldest unconfirmed set, before all that is newer, and are counted."""
    broker.answering.clear()
    producer = new_producer([broker], confirm=True, batch_size=1)
    may_encode = hold_encoding(producer)
    futures = [producer.send("t", payload, key="k") for payload in numbers(30)]
    may_encode.set()
    sent = window_of(producer)
    eventually(lambda: sent.unconfirmed == 30)
    broker.end_connections()
    broker.answering.set()
    futures += [producer.send("t", payload, key="k") for payload in numbers(30, 30)]
    producer.close()
    assert list(dict.fromkeys(broker.payloads)) == numbers(60)
    assert not [future for future in futures if future.exception(0)]
    assert producer.counts.sets_resent == sum(future.result(0).resends for future in futures) >= 29
    assert producer.counts.broken_connections == 1


def test_only_the_refused_set_fails_after_a_bounded_number_of_tries(
    broker: ProduceBroker, new_producer: NewProducer
) -> None:
    """Sets before and behind it, of whatever key, are confirmed; the broker is asked a few times and no more."""
    broker.script = lambda request: b"poison" not in request.messages
    producer = new_producer([broker], confirm=True, batch_size=5)
    poison = MessageSet([b"poison"])
    futures = []
    for payload in numbers(200):
        futures.append(producer.send("t", payload, key="k"))
        if payload in {b"50", b"51", b"199"}:
            futures.append(producer.send("t", poison, key="k"))
    producer.close()
    refused = [future for future in futures if future.exception(0) is not None]
    assert [type(future.exception(0)) for future in refused] == [SetRefusedError] * 3
    assert list(dict.fromkeys(broker.payloads)) == numbers(200)
    assert producer.counts.sets_refused == 3
    assert broker.connections <= 1 + 3 * 5


def test_unkeyed_sets_move_and_keyed_ones_wait(new_broker: NewBroker, new_producer: NewProducer) -> None:
    """Sets of a lost broker go elsewhere; those with a key come when their broker is back, in order."""
    brokers = [new_broker(), new_broker()]
    producer = new_producer(brokers, confirm=True, batch_size=5)
    for each in brokers:
        each.answering.clear()
    futures = [producer.send("t", payload) for payload in numbers(50)]
    eventually(lambda: all(each.payloads for each in brokers))
    other, lost = brokers
    key = next(key for key in numbers(20) if DefaultPartitioner().partition(key, 2) == lost.broker_id)
    lost.stop()
    for each in brokers:
        each.answering.set()
    keyed = [producer.send("own", payload, key) for payload in numbers(20)]
    futures += [producer.send("t", payload) for payload in numbers(50, 50)]
    assert {future.result(WAIT_S).broker_id for future in futures} == {other.broker_id}
    assert set(numbers(100)) <= set(other.payloads)
    assert not any(future.done() for future in keyed)
    lost.start()
    assert {future.result(WAIT_S).broker_id for future in keyed} == {lost.broker_id}
    assert [payload for topic, _, got in lost.sets for payload in got if topic == "own"] == numbers(20)
    assert producer.counts.sets_moved >= 5


@pytest.mark.parametrize("hangs", [True, False], ids=["hangs", "is-gone"])
def test_confirmation_has_its_time(broker: ProduceBroker, new_producer: NewProducer, hangs: bool) -> None:
    """A broker that does not answer, or is not there, fails the send after confirm.timeout.ms."""
    producer = new_producer([broker], confirm=True, confirm_timeout_ms=300)
    if hangs:
        broker.answering.clear()
    else:
        broker.stop()
    started_s = time.monotonic()
    with pytest.raises(ConfirmTimeoutError, match=r"t/0-0 was not confirmed within 300 ms"):
        producer.send("t", b"x", key="k").result(WAIT_S)
    assert time.monotonic() - started_s >= 0.3
    broker.answering.set()


class Failing:
    """A compressor that cannot compress some data."""

    codec = Codec.GZIP

    def compress(self, data: bytes) -> bytes:
        if b"incompressible" in data:
            raise RuntimeError("no")
        return gzip.compress(data)


def test_a_failing_compressor_fails_only_its_set(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """The future gets the application's own error; the next batch is sent."""
    producer = new_producer([broker], batch_size=1)
    producer._set_encoder._compressor = Failing()
    producer._set_encoder._codec = Codec.GZIP
    good = producer.send("t", b"good")
    bad = producer.send("t", b"incompressible")
    after = producer.send("t", b"after")
    producer.close()
    assert isinstance(bad.exception(0), RuntimeError)
    assert good.result(0)
    assert after.result(0)
    assert broker.payloads == [b"good", b"after"]


def test_closing_twice_and_from_another_thread_is_harmless(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """Nothing is lost, and nobody waits for ever."""
    producer = new_producer([broker], queue_time=HOUR_MS)
    futures = [producer.send("t", payload) for payload in numbers(100)]
    closers = [threading.Thread(target=producer.close) for _ in range(3)]
    for closer in closers:
        closer.start()
    for closer in closers:
        closer.join(WAIT_S)
        assert not closer.is_alive()
    assert all(future.result(0) for future in futures)
    assert broker.payloads == numbers(100)


def test_a_ready_set_is_sent_as_it_is(broker: ProduceBroker, new_producer: NewProducer) -> None:
    """Its bytes are not touched, and not joined with others."""
    ready = MessageSet([b"a", b"b"], Codec.SNAPPY)
    producer = new_producer([broker], queue_time=HOUR_MS, compression_codec=1)
    for messages in (b"before", ready, b"after"):
        producer.send("t", messages, key="k")
    producer.close()
    produces: list[ProduceRequest] = []
    for request in broker.requests:  # one, two or three: a set that a ready one closed may leave before it
        if isinstance(request, MultiProduceRequest):
            produces += request.produces
        elif isinstance(request, ProduceRequest):
            produces.append(request)
    assert len(produces) == 3
    assert produces[1] == ProduceRequest("t", 0, bytes(ready))
