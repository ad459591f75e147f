"""A sender alone, step by step: over connections in memory, on a clock that only the test and its waits move."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from types import SimpleNamespace
from typing import TYPE_CHECKING, NoReturn

import pytest

from kafka2011.config import ProducerConfig
from kafka2011.errors import BrokerConnectionError, ProtocolError
from kafka2011.message.message_set import MessageSet
from kafka2011.producer import accumulator as accumulator_module
from kafka2011.producer import sender as sender_module
from kafka2011.producer import witness as witness_module
from kafka2011.producer.accumulator import Accumulator, BrokerQueue
from kafka2011.producer.batch import Batch
from kafka2011.producer.completion import Completion
from kafka2011.producer.counts import Counts
from kafka2011.producer.encoder import SetEncoder
from kafka2011.producer.errors import ConfirmTimeoutError, SetRefusedError
from kafka2011.producer.partition_info import ListedBrokers
from kafka2011.producer.partitioner import DefaultPartitioner
from kafka2011.producer.producer_connection import BARRIER, Frame
from kafka2011.producer.router import Router
from kafka2011.producer.sender import MAX_REFUSALS, Sender
from kafka2011.wire.protocol import FrameReader, ProduceRequest, decode_request, produce_frame, topic_field
from tests.support.clocks import ManualClock
from zk.cluster import Broker, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    NewBench = Callable[..., "Bench"]

HERE, THERE = TopicPartition("t", 0, 0), TopicPartition("t", 1, 0)


class Connection:
    """What a sender does with one connection, in words; the bench says what comes of it."""

    def __init__(self, bench: Bench, broker: Broker, timeout_ms: int | None) -> None:
        self.broker = broker
        self.timeout_ms = timeout_ms
        self.broken = 0
        self.is_open = False
        self.reconnect_is_due = False
        self.has_ended = False  # the broker has ended it, which reading shows
        self.done: list[str] = []
        self.limits_ms: list[float] = []
        self.unread = 0  # answers
        self._bench = bench

    @property
    def answer_waits(self) -> bool:
        return self._bench.answers_at_once and self.unread > 0

    def open(self) -> None:
        if not self.is_open:
            if self._bench.is_gone:
                raise BrokerConnectionError("nobody listens")
            self.is_open = True
            self.done.append("open")

    def close(self) -> None:
        if self.is_open:
            self.is_open, self.unread = False, 0
            self.done.append("close")

    def drain_and_close(self) -> None:
        self.is_open = self.reconnect_is_due = False
        self.done.append("drain")

    def finish(self) -> None:
        self.broken += self._bench.takes_breaks()
        self.is_open = False
        self.done.append("finish")

    def limit(self, timeout_ms: float) -> None:
        self.limits_ms.append(timeout_ms)

    def write_all(self, frames: list[Frame]) -> None:
        self.open()
        self.broken += self._bench.takes_breaks()
        if self.has_ended or self._bench.sends_only is not None:
            self.close()
            error = BrokerConnectionError("it has ended")
            error.sent_bytes = self._bench.sends_only or 0
            raise error
        self.done += words(b"".join(b"".join(frame) for frame in frames))

    def push(self, frames: list[Frame]) -> None:
        for frame in frames:
            self.send(b"".join(frame))

    def send(self, frame: bytes) -> None:
        assert self.is_open
        self.done += words(frame)
        self.unread += frame == BARRIER

    def prove(self) -> None:
        if self._bench.is_mute:
            raise ProtocolError("that is no answer")
        if self.has_ended or (self._bench.ends_witnesses and self is not self._bench.connection and self.done[1:]):
            self.close()
            raise BrokerConnectionError("it has ended")
        self.done.append("prove")

    def answers(self, due: int) -> int:
        if error := self._bench.error_of_answer:
            self._bench.error_of_answer = None
            self.close()
            raise error
        if self.has_ended:
            self.close()
            raise BrokerConnectionError("it has ended")
        assert self.unread
        count = min(due, self.unread, self._bench.answers_read)
        self.unread -= count
        self.done += ["answer"] * count
        return count


def words(frame: bytes) -> list[str]:
    """Name what is in a frame: payloads, those of one request together, and a barrier."""
    found: list[str] = []
    reader = FrameReader()
    reader.receive_data(frame)
    while (each := reader.next_frame()) is not None:
        request = decode_request(each)
        if isinstance(request, ProduceRequest):
            found.append(" ".join(payload.decode() for payload in MessageSet.from_bytes(request.messages)))
        else:
            found.append("barrier")
    return found


class Info(ListedBrokers):
    """Brokers with partition 0 each; counts how often somebody wants to read them again."""

    refreshes = 0

    def __init__(self, *broker_ids: int) -> None:
        super().__init__(Broker(broker_id, "h", 9000 + broker_id) for broker_id in broker_ids)

    choices = ListedBrokers.partitions

    def refresh(self) -> None:
        self.refreshes += 1

    def forget(self, broker_id: int) -> None:
        del self._brokers[broker_id]

    def move(self, broker_id: int, port: int) -> None:
        self._brokers[broker_id] = Broker(broker_id, "h", port)


class Bench:
    """The sender to broker 0 with the shipped parts around it, broker 1 beside it, and connections in memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: object) -> None:
        self.clock = ManualClock(100.0)
        self.slept_s: list[float] = []
        self.waits_s: list[float | None] = []
        self.is_gone = False
        self.is_mute = False
        self.answers_at_once = True
        self.answers_read = 64  # at once
        self.sends_only: int | None = None  # how many bytes go out before an error
        self.error_of_answer: Exception | None = None
        self.ends_witnesses = False  # once they have been proven to serve
        self.breaks = 0
        self.connections: list[Connection] = []
        self.config = ProducerConfig.from_properties(
            {
                "broker.list": "0:h:1",
                "producer.type": "async",
                "batch.size": 1,
                **{key.replace("_", "."): value for key, value in settings.items()},
            }
        )
        self.info = Info(0, 1)
        self.router = Router(self.info, DefaultPartitioner(), 0, self.clock)
        self.counts = Counts()
        self.accumulator = Accumulator(self.config, self.clock, lambda _: None)
        with self.accumulator.lock:
            self.queue = self.accumulator.queue_of(0)
        self.encoder = SetEncoder(self.config)
        self.completion = Completion(self.accumulator, self.counts, None, confirmed=self.config.confirm)
        self.sender = Sender(
            self.queue,
            config=self.config,
            router=self.router,
            encoder=self.encoder,
            accumulator=self.accumulator,
            completion=self.completion,
            counts=self.counts,
            clock=self.clock,
        )
        monkeypatch.setattr(sender_module, "ProducerConnection", self._connect)
        monkeypatch.setattr(witness_module, "ProducerConnection", self._connect)
        monkeypatch.setattr(sender_module, "time", SimpleNamespace(sleep=self._sleep))
        take = self.accumulator.take

        def noted_take(queue: BrokerQueue, wait_s: float | None) -> list[Batch]:
            self.waits_s.append(wait_s)
            return take(queue, 0)

        monkeypatch.setattr(self.accumulator, "take", noted_take)

    def _connect(self, broker: Broker, _config: ProducerConfig, timeout_ms: int | None) -> Connection:
        self.connections.append(Connection(self, broker, timeout_ms))
        return self.connections[-1]

    def _sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.clock.sleep(seconds)

    @property
    def connection(self) -> Connection:
        return self.connections[0]

    def takes_breaks(self) -> int:
        breaks, self.breaks = self.breaks, 0
        return breaks

    def send(self, payload: bytes, *, keyed: bool = True) -> Batch:
        """Queue a message, in a batch of its own, which may go elsewhere if it has no key."""
        future = self.accumulator.append(HERE, [payload], "k" if keyed else None, movable=not keyed, timeout_ms=0)
        assert isinstance(future, Batch)
        return future

    def step(self, times: int = 1, *, wait: bool = False) -> bool:
        """Take steps as the sender does; False when the last one was the end."""
        return [self.sender.step_safely(wait=wait) for _ in range(times)][-1]

    def raises(self, error: Exception) -> Callable[..., NoReturn]:
        def fail(*_: object) -> NoReturn:
            raise error

        return fail

    def until_next_try(self) -> None:
        self.clock.now_s = self.sender.backoff.next_try_s


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[NewBench]:
    """Make a bench; settings by 0.7's names with underscores."""
    with ExitStack() as stack:

        def make(**settings: object) -> Bench:
            made = Bench(monkeypatch, **settings)
            stack.callback(made.completion.close)
            return made

        yield make


# Unconfirmed ---------------------------------------------------------------------------------------------------------


def test_unconfirmed_sets_are_done_when_they_were_written(bench: NewBench) -> None:
    """All that waits, in a request each, on one connection that is asked nothing."""
    made = bench()
    batches = [made.send(b"a"), made.send(b"b")]
    made.step()
    assert made.connection.done == ["open", "a", "b"]
    assert made.connection.timeout_ms is None
    assert [batch.result(0).resends for batch in batches] == [0, 0]
    assert (made.counts.sets_sent, made.counts.sets_resent, made.counts.broken_connections) == (2, 0, 0)


@pytest.mark.parametrize(
    ("settings", "tries"),
    [
        ({"producer_type": "async", "num_retries": 2, "zk_read_num_retries": 7}, 3),
        ({"producer_type": "sync", "num_retries": 7, "zk_read_num_retries": 1}, 2),
    ],
)
def test_an_unconfirmed_set_is_tried_so_many_times(bench: NewBench, settings: dict[str, object], tries: int) -> None:
    """Retries are num.retries in an asynchronous producer, zk.read.num.retries in a synchronous one, as in 0.7."""
    made = bench(**settings)
    made.is_gone = True
    batch = made.send(b"a")
    for _ in range(tries):
        assert not batch.done()
        made.step()
        made.until_next_try()
    assert isinstance(batch.exception(0), BrokerConnectionError)
    assert made.counts.messages_failed == 1


def test_a_set_that_was_not_written_whole_is_written_again(bench: NewBench) -> None:
    """It and those after it, in order; each is counted as sent again."""
    made = bench(num_retries=1)
    made.send(b"a")
    made.step()
    batches = [made.send(b"b"), made.send(b"c")]
    made.connection.has_ended = True
    made.step()
    assert not any(batch.done() for batch in batches)
    made.connection.has_ended = False
    made.until_next_try()
    made.step(2)
    assert made.connection.done == ["open", "a", "close", "open", "b", "c"]
    assert [batch.result(0).resends for batch in batches] == [1, 1]
    assert made.counts.sets_resent == 2


def test_a_broker_that_was_read_again_is_the_same(bench: NewBench) -> None:
    """What sends at once goes by where the broker listens; nothing does to another place, or while others wait."""
    made = bench()
    assert made.sender.idle_connection() is None
    made.send(b"a")
    made.step()
    port = made.connection.broker.port
    made.info.move(0, port)
    idle: object = made.sender.idle_connection()
    assert idle is made.connection
    made.info.move(0, port + 1)
    assert made.sender.idle_connection() is None
    made.info.move(0, port)
    made.send(b"b")
    assert made.sender.idle_connection() is None


def test_only_what_was_not_handed_over_whole_is_written_again(bench: NewBench) -> None:
    """The broker gets the requests before it, so they are done."""
    made = bench(num_retries=1)
    batches = [made.send(payload) for payload in (b"a", b"b", b"c")]
    frame_bytes = len(produce_frame(topic_field("t"), 0, bytes(MessageSet([b"a"]))))
    made.sends_only = 2 * frame_bytes - 1
    made.step()
    assert [batch.done() for batch in batches] == [True, False, False]
    made.sends_only = None
    made.until_next_try()
    made.step(2)
    assert made.connection.done == ["open", "close", "open", "b", "c"]
    assert [batch.result(0).resends for batch in batches] == [0, 1, 1]


def test_connections_that_broke_are_counted_once(bench: NewBench) -> None:
    """Those that were noticed while writing, and the last one at the end."""
    made = bench()
    for number in (1, 2):
        made.breaks = 1
        made.send(b"a")
        made.step()
        assert made.counts.broken_connections == number
    made.accumulator.end()
    made.breaks = 1
    made.sender.close()
    assert made.counts.broken_connections == 3


def test_a_broker_that_an_earlier_sender_found_lost_counts_as_reachable_once_it_is_written_to(bench: NewBench) -> None:
    """That sender has ended, and so nobody else would say so."""
    made = bench()
    made.router.mark_down(0, float("inf"))
    made.send(b"a")
    made.step()
    assert made.router.elsewhere("t", 1) == HERE


def test_all_that_waits_for_a_broker_fails_with_its_last_try(bench: NewBench) -> None:
    """What is still queued too; when closing, the next failed try is the last one."""
    made = bench(num_retries=0)
    made.is_gone = True
    batches = [made.send(b"a")]
    take, queue = made.accumulator.take, made.queue

    def take_and_send(queue: BrokerQueue, wait_s: float | None) -> list[Batch]:
        made.accumulator.take = take  # type: ignore[method-assign]
        taken = take(queue, wait_s)
        batches.append(made.send(b"b"))
        return taken

    made.accumulator.take = take_and_send  # type: ignore[method-assign]
    made.step()
    assert [type(batch.exception(0)) for batch in batches] == [BrokerConnectionError] * 2
    made = bench(num_retries=5)
    made.is_gone = True
    batch = made.send(b"a")
    made.accumulator.end()
    made.step()
    assert isinstance(batch.exception(0), BrokerConnectionError)
    assert not queue.has_batch


# Confirmed -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("socket_ms", "confirm_ms", "timeout_ms"), [(10_000, 9_001, 3_000), (1_000, 9_000, 1_000), (10_000, 2, 1)]
)
def test_a_broker_has_a_third_of_the_time_for_an_answer(
    bench: NewBench, socket_ms: int, confirm_ms: int, timeout_ms: int
) -> None:
    """So that there is time for another try; never more than socket.timeout.ms."""
    made = bench(confirm=True, socket_timeout_ms=socket_ms, confirm_timeout_ms=confirm_ms)
    made.send(b"a")
    made.step()
    assert made.connection.timeout_ms == timeout_ms
    assert made.connection.limits_ms[0] == timeout_ms


def test_the_last_wait_ends_with_the_time_of_the_set(bench: NewBench) -> None:
    """Which is counted from when its batch was closed."""
    made = bench(confirm=True, confirm_timeout_ms=9_000)
    made.send(b"a")
    made.clock.now_s += 7
    made.step()
    assert made.connection.limits_ms == [2_000, 2_000]
    made.clock.now_s += 1
    made.send(b"b")
    made.step()
    assert made.connection.limits_ms[2:] == [3_000]


def test_a_confirmed_set_is_done_when_the_barrier_behind_it_was_answered(bench: NewBench) -> None:
    """On a connection that was proven first; the barrier goes out with the last request."""
    made = bench(confirm=True)
    batch = made.send(b"a")
    made.step()
    assert made.connection.done == ["open", "prove", "a", "barrier", "answer"]
    assert batch.result(0).confirmed


def test_barriers_come_between_many_requests_and_behind_all(bench: NewBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that there is room again before all of them are handled; the answers that have come are read together."""
    monkeypatch.setattr(sender_module, "ASK_BATCHES", 2)
    made = bench(confirm=True)
    batches = [made.send(payload) for payload in (b"a", b"b", b"c")]
    made.step()
    assert made.connection.done[2:] == ["a", "b", "barrier", "c", "barrier", "answer", "answer"]
    assert all(batch.done() for batch in batches)


def one_at_a_time(monkeypatch: pytest.MonkeyPatch, batches: int = 1) -> None:
    """Have senders take so many batches from their queue at a time."""
    monkeypatch.setattr(accumulator_module, "MAX_TAKEN_BATCHES", batches)


def test_while_there_is_more_to_send_nobody_waits_for_an_answer(
    bench: NewBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sent while an answer is due has a barrier of its own."""
    one_at_a_time(monkeypatch)
    made = bench(confirm=True)
    made.answers_at_once = False
    made.answers_read = 1
    batches = [made.send(b"a"), made.send(b"b")]
    made.step()
    assert made.connection.done[2:] == ["a", "barrier"]
    made.step()
    assert made.connection.done[2:] == ["a", "barrier", "b", "barrier", "answer"]
    assert [batch.done() for batch in batches] == [True, False]
    made.step()
    assert made.connection.done[2:] == ["a", "barrier", "b", "barrier", "answer", "answer"]
    assert [batch.done() for batch in batches] == [True, True]


def test_an_answer_that_is_there_is_taken_before_more_is_sent(bench: NewBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the next barrier can go out with what is sent next."""
    one_at_a_time(monkeypatch)
    made = bench(confirm=True)
    made.send(b"a")
    made.send(b"b")
    made.step(2)
    assert made.connection.done[2:] == ["a", "barrier", "answer", "b", "barrier", "answer"]


def test_when_the_last_answer_was_taken_nothing_is_asked(bench: NewBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when what was to be sent next cannot be encoded."""
    one_at_a_time(monkeypatch)
    made = bench(confirm=True)
    good, bad = made.send(b"a"), made.send(b"b")
    made.step()
    error = RuntimeError("no")

    made.encoder.encode = made.raises(error)  # type: ignore[method-assign]
    made.step()
    assert good.result(0).confirmed
    assert bad.exception(0) is error
    assert made.connection.done[2:] == ["a", "barrier", "answer"]


def test_a_window_without_room_is_waited_for(bench: NewBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of looking again and again; meanwhile no more is taken from the queue, whose bound counts it."""
    one_at_a_time(monkeypatch, 2)
    monkeypatch.setattr(sender_module, "WINDOW_BATCHES", 1)
    made = bench(confirm=True)
    made.answers_at_once = False
    for payload in (b"a", b"b", b"c"):
        made.send(payload)
    made.step()
    assert made.connection.done[2:] == ["a", "barrier", "answer"]
    made.waits_s.clear()
    made.step()
    assert made.waits_s == []
    assert made.queue.has_batch
    assert made.connection.done[5:] == ["b", "barrier"]


def test_a_connection_is_renewed_when_all_on_it_is_confirmed(bench: NewBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for, and nothing more is sent on it, whatever there is to send."""
    one_at_a_time(monkeypatch)
    made = bench(confirm=True)
    made.answers_at_once = False
    batches = [made.send(payload) for payload in (b"a", b"b", b"c")]
    made.step()
    made.connection.reconnect_is_due = True
    made.step()
    assert made.connection.done[2:] == ["a", "barrier", "answer"]
    made.step()
    assert made.connection.done[5:] == ["drain"]
    made.step(3)
    assert made.connection.done[6:10] == ["open", "prove", "b", "barrier"]
    assert all(batch.done() for batch in batches)


def test_an_answer_to_nothing_ends_the_connection(bench: NewBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It proves nothing: what is unconfirmed is sent again on another one."""
    made = bench(confirm=True)
    made.send(b"a")
    made.step()
    made.connection.unread = 1
    batch = made.send(b"b")
    made.step()
    assert made.counts.broken_connections == 1
    assert not batch.done()
    made.step()
    assert batch.result(0).confirmed


# Blame ---------------------------------------------------------------------------------------------------------------


def test_what_is_in_doubt_is_sent_again_alone_beside_a_witness(bench: NewBench) -> None:
    """Until it is confirmed; then the witness is not needed any more."""
    made = bench(confirm=True)
    batch = made.send(b"a")
    made.error_of_answer = BrokerConnectionError("it has ended")
    made.step()
    assert made.connection.done[2:] == ["a", "barrier", "close", "open", "prove"]
    assert made.counts.broken_connections == 1
    made.step()
    assert made.connection.done[7:] == ["a", "barrier", "answer"]
    [_, witness] = made.connections
    assert witness.done == ["open", "prove", "close"]
    assert witness.timeout_ms == made.connection.timeout_ms
    assert batch.result(0).resends == made.counts.sets_resent == 1


def test_a_set_is_refused_after_so_many_ends_that_a_witness_outlived(bench: NewBench) -> None:
    """It fails, and what is behind it is sent."""
    made = bench(confirm=True)
    poison, good = made.send(b"poison"), made.send(b"good")
    for _ in range(1 + MAX_REFUSALS):
        assert not poison.done()
        made.error_of_answer = BrokerConnectionError("it has ended")
        made.step()
    error = poison.exception(0)
    assert isinstance(error, SetRefusedError)
    assert f"ended the connection {MAX_REFUSALS} times when it got a set of 16 bytes for t/0-0 alone" in str(error)
    assert isinstance(error.__cause__, BrokerConnectionError)
    assert made.counts.sets_refused == 1
    assert made.counts.broken_connections == 1 + MAX_REFUSALS
    made.step()
    assert good.result(0).confirmed
    witness = made.connections[1]
    assert witness.done == ["open", *["prove"] * (1 + MAX_REFUSALS), "close"]


@pytest.mark.parametrize("why", ["timeout", "witness"])
def test_a_set_is_not_blamed_for_what_may_have_other_reasons(bench: NewBench, why: str) -> None:
    """A broker that takes too long, or that has ended the witness too: it restarts, perhaps."""
    made = bench(confirm=True)
    made.ends_witnesses = why == "witness"
    batch = made.send(b"a")
    for _ in range(3 * MAX_REFUSALS):
        made.error_of_answer = BrokerConnectionError("it has ended")
        if why == "timeout":
            made.error_of_answer.__cause__ = TimeoutError()
        made.step()
    assert batch.refusals == 0
    made.step()
    assert batch.result(0).confirmed


def test_a_witness_goes_where_the_broker_goes(bench: NewBench) -> None:
    """One at the old address would prove nothing."""
    made = bench(confirm=True)
    made.send(b"a")
    for port in (9000, 9999):
        made.info.move(0, port)
        made.error_of_answer = BrokerConnectionError("it has ended")
        made.step(1 if port == 9000 else 2)
    old, witness, new, another = made.connections
    assert (old.is_open, witness.is_open) == (False, False)
    assert (old.broker.port, new.broker.port, another.broker.port) == (9000, 9999, 9999)


# Brokers that are lost -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("producer_type", "pauses_ms"),
    [("async", [50, 100, 200, 400, 800, 1000, 1000]), ("sync", [50, 50, 50, 50])],
)
def test_a_lost_broker_is_tried_again_after_longer_and_longer_pauses(
    bench: NewBench, producer_type: str, pauses_ms: list[int]
) -> None:
    """Up to a second; where a caller waits, after each short pause, and brokers are read again."""
    made = bench(confirm=True, producer_type=producer_type)
    made.is_gone = True
    batch = made.send(b"a")
    tried_ms: list[int] = []
    for _ in pauses_ms:
        made.step()
        tried_ms.append(round((made.sender.backoff.next_try_s - made.clock.now_s) * 1000))
        assert (made.router.elsewhere("t", 1) is None) == ("which is away" in repr(made.sender))
        made.until_next_try()
    assert tried_ms == pauses_ms
    assert made.info.refreshes == (len(pauses_ms) if producer_type == "sync" else 0)
    made.is_gone = False
    made.step(2)
    assert batch.result(0).confirmed
    assert made.router.elsewhere("t", 1) == HERE


def test_a_broker_that_is_not_registered_is_tried_again(bench: NewBench) -> None:
    """As one that cannot be reached."""
    made = bench(confirm=True)
    made.info.forget(0)
    batch = made.send(b"a")
    made.step()
    assert made.connections == []
    made.info.move(0, 9000)
    made.until_next_try()
    made.step(2)
    assert batch.result(0).confirmed


def test_a_broker_that_has_moved_is_followed(bench: NewBench) -> None:
    """The connection to where it was is closed."""
    made = bench()
    made.send(b"a")
    made.step()
    made.info.move(0, 9999)
    made.send(b"b")
    made.step()
    assert [(each.broker.port, each.done) for each in made.connections] == [
        (9000, ["open", "a", "close"]),
        (9999, ["open", "b"]),
    ]


def test_a_broker_that_was_not_proven_to_serve_is_lost(bench: NewBench) -> None:
    """Connecting alone shows nothing: the port may be another's; nothing is sent there."""
    made = bench(confirm=True)
    made.is_mute = True
    batch = made.send(b"a")
    made.step()
    assert made.connection.done == ["open", "close", "open", "close"]
    made.until_next_try()
    made.step()
    assert made.connection.done[4:] == ["open", "close"]
    assert round((made.sender.backoff.next_try_s - made.clock.now_s) * 1000) == 100
    made.is_mute = False
    made.until_next_try()
    made.step(2)
    assert batch.result(0).confirmed


def test_while_a_broker_is_lost_its_sender_looks_often_whether_a_set_runs_out_of_time(bench: NewBench) -> None:
    """And waits for new batches only where there are none; it connects again either way."""
    made = bench(confirm=True)
    made.is_gone = True
    batch = made.send(b"a")
    for _ in range(3):
        made.step(wait=True)
        made.until_next_try()
    made.step(wait=True)
    made.slept_s.clear()
    made.step(5, wait=True)
    assert [round(slept_s * 1000) for slept_s in made.slept_s] == [50] * 5
    made.clock.now_s += 0.38 - 0.25
    made.step(wait=True)
    assert round(made.slept_s[-1] * 1000) == 20
    made.clock.now_s = batch.deadline_s
    made.step(wait=True)
    assert batch.done()
    made.waits_s.clear()
    made.slept_s.clear()
    made.step(wait=True)
    assert made.waits_s == [made.sender.backoff.next_try_s - made.clock.monotonic_s()] != [0]
    assert made.slept_s == []
    made.is_gone = False
    made.until_next_try()
    made.step(wait=True)
    assert "which is away" not in repr(made.sender)
    made.waits_s.clear()
    made.step(wait=True)
    assert made.waits_s == [None]


def test_batches_of_a_lost_broker_are_taken_from_its_queue(bench: NewBench) -> None:
    """So that they run out of time, or move; none of the waits is for more of them."""
    made = bench(confirm=True)
    made.is_gone = True
    made.send(b"a")
    made.step()
    made.waits_s.clear()
    made.send(b"b")
    made.step()
    assert not made.queue.has_batch
    assert made.waits_s == [0]


@pytest.mark.parametrize("was_sent", [False, True])
def test_a_set_that_runs_out_of_time_fails_and_says_what_is_known(bench: NewBench, was_sent: bool) -> None:
    """At its deadline, not before."""
    made = bench(confirm=True, confirm_timeout_ms=5_000)
    batch = made.send(b"a")
    if was_sent:
        made.error_of_answer = BrokerConnectionError("it has ended")
        made.step()
        assert made.connection.is_open
        made.connection.close()
    made.is_gone = True
    made.step()
    made.clock.now_s = batch.deadline_s - 0.001
    made.step()
    assert not batch.done()
    made.clock.now_s = batch.deadline_s
    made.step()
    error = batch.exception(0)
    assert isinstance(error, ConfirmTimeoutError)
    assert "a set for t/0-0 was not confirmed within 5000 ms" in str(error)
    assert ("(1 tries): it may have been written, or not" if was_sent else "(0 tries): it was not sent") in str(error)


@pytest.mark.parametrize("confirm", [False, True])
def test_sets_of_a_lost_broker_go_elsewhere_if_they_may(bench: NewBench, confirm: bool) -> None:
    """Those without a key, open ones too, as soon as it is lost; the others wait for it."""
    made = bench(confirm=confirm, batch_size=2, num_retries=5)
    made.is_gone = True
    free = made.send(b"a", keyed=False)
    keyed = made.send(b"b")
    made.accumulator.close_all()
    open_one = made.send(b"c", keyed=False)
    free.refusals = 2
    made.step(3)
    assert list(made.accumulator.queues[1].ready) == [free, open_one]
    assert [batch.where for batch in (free, open_one, keyed)] == [THERE, THERE, HERE]
    assert free.refusals == 0
    assert made.counts.sets_moved == 2
    assert not keyed.done()


def test_sets_that_can_go_nowhere_stay(bench: NewBench) -> None:
    """In their order, until there is a broker for them."""
    made = bench(confirm=True)
    made.router.mark_down(1, float("inf"))
    made.is_gone = True
    batches = [made.send(b"a", keyed=False), made.send(b"b", keyed=False)]
    made.step(2)
    assert made.counts.sets_moved == 0
    made.is_gone = False
    made.until_next_try()
    made.step(2)
    assert made.connection.done[-4:] == ["a", "b", "barrier", "answer"]
    assert all(batch.done() for batch in batches)


def test_a_lost_broker_is_reported_once(bench: NewBench, caplog: pytest.LogCaptureFixture) -> None:
    """And once more when it is back."""
    made = bench(confirm=True)
    made.is_gone = True
    made.send(b"a")
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            made.step()
            made.until_next_try()
        made.is_gone = False
        made.step(2)
    assert caplog.text.count("broker 0 cannot be reached, trying again: nobody listens") == 1
    assert caplog.text.count("broker 0 can be reached again") == 1
    assert "sets unconfirmed" not in caplog.text


def test_sets_in_doubt_are_reported(bench: NewBench, caplog: pytest.LogCaptureFixture) -> None:
    """With the reason."""
    made = bench(confirm=True)
    made.send(b"a")
    made.send(b"b")
    made.error_of_answer = BrokerConnectionError("it has ended")
    with caplog.at_level(logging.WARNING):
        made.step()
    assert "broker 0 ended with 2 sets unconfirmed, which will be sent again: it has ended" in caplog.text


# Who takes the steps -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("confirm", [False, True])
def test_a_defect_ends_what_is_being_sent_and_nothing_else(
    bench: NewBench, confirm: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody waits for ever; what comes later is sent on a new connection."""
    made = bench(confirm=confirm)
    made.send(b"a")
    made.step()
    batch = made.send(b"b")
    error = RuntimeError("a defect")
    if confirm:
        made.error_of_answer = error
    else:
        made.connection.write_all = made.raises(error)  # type: ignore[method-assign]
    assert made.step()
    assert batch.exception(0) is error
    assert made.connection.done[-1] == "close"
    assert "sending to broker 0 failed unexpectedly" in caplog.text
    made.connection.__dict__.pop("write_all", None)
    after = made.send(b"c")
    made.step()
    assert after.exception(0) is None


def test_a_caller_takes_steps_until_its_batch_is_done(bench: NewBench) -> None:
    """However many it takes, and whoever ends it: its callbacks are called by another thread."""
    made = bench(confirm=True, producer_type="sync")
    batch = made.send(b"a")
    called = threading.Event()
    batch.add_done_callback(lambda _: called.set())
    made.error_of_answer = BrokerConnectionError("it has ended")
    made.sender.drive(batch)
    assert batch.done()
    assert called.wait(20)
    assert set(made.waits_s) == {0}


def test_a_caller_takes_no_steps_for_what_went_elsewhere(bench: NewBench) -> None:
    """Nor at the end, when nothing is left that it could send."""
    made = bench(producer_type="sync")
    made.is_gone = True
    batch = made.send(b"a", keyed=False)
    made.sender.drive(batch)
    assert batch.where == THERE
    batch.where = HERE
    made.accumulator.end()
    made.sender.drive(batch)
    assert not batch.done()


def test_closing_sends_what_is_left_and_finishes_connections_once(bench: NewBench) -> None:
    """The witness's too."""
    made = bench(confirm=True, producer_type="sync")
    batch = made.send(b"a")
    made.error_of_answer = BrokerConnectionError("it has ended")
    made.step()
    made.sender.witness.bring(made.connection.broker)
    made.accumulator.end()
    for _ in range(2):
        made.sender.close()
        assert batch.result(0).confirmed
        assert [connection.done.count("finish") for connection in made.connections] == [1, 1]


def test_a_thread_takes_the_steps_of_an_asynchronous_producer(bench: NewBench) -> None:
    """It ends with the queue, and keeps no process alive that does not close its producer."""
    made = bench()
    made.sender.start()
    thread = made.sender._thread
    assert thread is not None
    assert thread.daemon
    assert thread.name == "kafka2011-producer-0"
    batch = made.send(b"a")
    made.accumulator.end()
    made.sender.close()
    assert batch.done()
    assert not thread.is_alive()
    assert set(made.waits_s) == {None}  # it sleeps while there is nothing to send
    assert repr(made.sender) == "<Sender to broker 0>"
