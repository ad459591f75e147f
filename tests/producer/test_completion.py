"""How batches end: counted, their futures done in the right thread, and the application told."""

from __future__ import annotations

import threading
from concurrent.futures import as_completed, wait
from typing import TYPE_CHECKING

import pytest

from kafka2011.config import ProducerConfig
from kafka2011.message.message_set import MessageSet
from kafka2011.producer.accumulator import Accumulator
from kafka2011.producer.batch import Batch, DoneFuture, FailedBatch, ListFuture, Receipt, SendFuture
from kafka2011.producer.completion import Completion
from kafka2011.producer.counts import Counts
from tests.support.clocks import ManualClock
from tests.support.waiting import eventually, is_waiting
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

WHERE = TopicPartition("views", 2, 1)
RECEIPT = Receipt("views", 2, 1, 3, confirmed=True, resends=0)
WAIT_S = 20


class Ending:
    """An accumulator and what ends its batches."""

    def __init__(self, on_failure: Callable[[FailedBatch], object] | None = None) -> None:
        config = ProducerConfig.from_properties({"broker.list": "2:h:1", "producer.type": "async", "batch.size": 3})
        self.accumulator = Accumulator(config, ManualClock(), lambda _: None)
        self.counts = Counts()
        self.completion = Completion(self.accumulator, self.counts, on_failure, confirmed=True)

    def batches(self, *payloads: bytes, key: object = None) -> list[Batch]:
        """Send payloads, and return the batches that they are in."""
        self.accumulator.append(WHERE, list(payloads), key, movable=key is None, timeout_ms=0)
        self.accumulator.close_all()
        return self.accumulator.take(self.accumulator.queues[2], 0)

    def set_batch(self, message_set: MessageSet, key: object = None) -> Batch:
        self.accumulator.append_set(WHERE, message_set, key, movable=key is None, timeout_ms=0)
        [batch] = self.accumulator.take(self.accumulator.queues[2], 0)
        return batch


# Batches


def test_what_was_sent_is_counted() -> None:
    """Messages and sets, all of one call at once."""
    ending = Ending()
    ending.completion.done(ending.batches(b"a", b"b", b"c", b"d"))
    assert (ending.counts.messages_sent, ending.counts.sets_sent) == (4, 2)
    ending.completion.done(ending.batches(b"e"))
    assert (ending.counts.messages_sent, ending.counts.sets_sent) == (5, 3)
    assert ending.counts.messages_failed == 0


def test_counts_are_given_by_name() -> None:
    """All numbers, and nothing else."""
    counts = Counts()
    counts.add(messages_sent=3, sets_sent=1)
    counts.add(messages_sent=2)
    assert counts() == {
        "messages_sent": 5,
        "messages_failed": 0,
        "sets_sent": 1,
        "sets_resent": 0,
        "sets_moved": 0,
        "sets_refused": 0,
        "broken_connections": 0,
    }


def test_counts_are_compared_by_their_numbers() -> None:
    """What two producers have done may be the same."""
    assert Counts(messages_sent=3) == Counts(messages_sent=3)
    assert Counts(messages_sent=3) != Counts()


def test_a_receipt_says_what_became_of_a_batch() -> None:
    """The first try is no resend; one that was never tried has none either."""
    ending = Ending()
    for tries, resends in ((0, 0), (1, 0), (3, 2)):
        [batch] = ending.batches(b"a", b"b")
        batch.tries = tries
        ending.completion.done([batch])
        assert batch.result(0) == Receipt("views", 2, 1, 2, confirmed=True, resends=resends)


def test_failures_are_told_with_the_messages_and_their_keys() -> None:
    """In order, in one thread that is neither the application's nor a sender's, all of them before the end."""
    told: list[FailedBatch] = []
    threads: set[threading.Thread] = set()

    def on_failure(failed: FailedBatch) -> None:
        told.append(failed)
        threads.add(threading.current_thread())

    ending = Ending(on_failure)
    message_set, error = MessageSet([b"c", b"d"]), RuntimeError("no broker")
    for batch in (
        *ending.batches(b"a", b"b", key=7),
        *ending.batches(b"a", b"b"),
        ending.set_batch(message_set, key=8),
        ending.set_batch(message_set),
    ):
        ending.completion.failed(batch, error)
        assert batch.exception(0) is error
    ending.completion.close()
    assert told == [
        FailedBatch("views", [b"a", b"b"], [7, 7], error),
        FailedBatch("views", [b"a", b"b"], [None, None], error),
        FailedBatch("views", message_set, [8], error),
        FailedBatch("views", message_set, [None], error),
    ]
    assert ending.counts.messages_failed == 8
    [thread] = threads
    assert thread.daemon
    assert not thread.is_alive()


def test_closing_waits_until_the_application_has_been_told() -> None:
    """Not from one of its own callbacks, which would wait for itself."""
    may_go_on = threading.Event()
    told: list[FailedBatch] = []

    def on_failure(failed: FailedBatch) -> None:
        assert may_go_on.wait(WAIT_S)
        ending.completion.close()
        told.append(failed)

    ending = Ending(on_failure)
    [batch] = ending.batches(b"a")
    ending.completion.failed(batch, RuntimeError("no broker"))
    closing = threading.current_thread()

    def let_go() -> None:
        eventually(lambda: is_waiting(closing))
        may_go_on.set()

    letting_go = threading.Thread(target=let_go, daemon=True)
    letting_go.start()
    ending.completion.close()
    assert len(told) == 1
    letting_go.join(WAIT_S)


# Futures


def test_a_future_without_callbacks_ends_where_it_is_sent() -> None:
    """Another thread would cost more than the message."""
    future = SendFuture()
    assert future.may_end_here()


def test_a_batch_that_has_ended_is_forgotten() -> None:
    """Nobody waits for it any more; whoever sent it has its future."""
    ending = Ending()
    done, failed = *ending.batches(b"a"), *ending.batches(b"b")
    assert ending.accumulator.open_batches == {done, failed}
    ending.completion.done([done])
    assert ending.accumulator.open_batches == {failed}
    ending.completion.failed(failed, RuntimeError("no broker"))
    assert ending.accumulator.open_batches == set()


def test_a_future_with_a_callback_ends_elsewhere() -> None:
    """The callback may send, and wait for room that only the sender makes."""
    future, called = SendFuture(), list[threading.Thread]()
    future.add_done_callback(lambda _: called.append(threading.current_thread()))
    assert not future.may_end_here()
    assert not called
    ending = Ending()
    [batch] = ending.batches(b"a")
    batch.add_done_callback(lambda _: called.append(threading.current_thread()))
    ending.completion.done([batch])
    ending.completion.close()
    [thread] = called
    assert thread is not threading.current_thread()


def test_a_callback_that_comes_while_a_future_ends_runs_where_it_was_added() -> None:
    """The sender has decided to end it, and must not be held up."""
    future = SendFuture()
    assert future.may_end_here()
    called: list[threading.Thread] = []

    def note(_: Future[Receipt]) -> None:
        called.append(threading.current_thread())

    adding = threading.Thread(target=future.add_done_callback, args=(note,), daemon=True)
    adding.start()
    eventually(lambda: is_waiting(adding))
    assert not called
    future.end(RECEIPT, None)
    adding.join(WAIT_S)
    assert called == [adding]


def test_a_list_ends_with_the_last_of_its_batches() -> None:
    """With all its messages and resends; one error is enough, and the first one counts."""
    first, second = RuntimeError("first"), RuntimeError("second")
    future = ListFuture(7, 3)
    assert future.ended(RECEIPT._replace(resends=1), None) is None
    assert future.ended(RECEIPT._replace(resends=2), None) is None
    assert future.ended(RECEIPT, None) == (RECEIPT._replace(messages=7, resends=3), None)
    future = ListFuture(7, 3)
    assert future.ended(RECEIPT, first) is None
    assert future.ended(RECEIPT, second) is None
    assert future.ended(RECEIPT, None) == (RECEIPT._replace(messages=7), first)


def test_a_list_is_done_when_its_batches_are() -> None:
    """Not before, and with the error of one of them; each of its batches is done by itself, and forgotten."""
    ending = Ending()
    future = ending.accumulator.append(WHERE, [b"a"] * 7, movable=True, timeout_ms=0)
    batches = ending.accumulator.take(ending.accumulator.queues[2], 0)
    ending.completion.done(batches[:2])
    assert not wait([future], 0).done
    assert [batch.done() for batch in batches] == [True, True, False]
    assert ending.accumulator.open_batches == {batches[2]}
    ending.completion.failed(batches[2], RuntimeError("no broker"))
    assert batches[2].done()
    assert ending.accumulator.open_batches == set()
    with pytest.raises(RuntimeError, match="no broker"):
        future.result(0)


def test_a_future_that_is_done_from_the_beginning_is_one_like_others() -> None:
    """For whoever looks at it first, by whatever a future can be asked, and for two threads at once."""
    assert DoneFuture(RECEIPT).done()
    assert DoneFuture(RECEIPT).result(0) is RECEIPT
    assert DoneFuture(RECEIPT).exception(0) is None
    assert not DoneFuture(RECEIPT).running()
    assert not DoneFuture(RECEIPT).cancel()
    future = DoneFuture(RECEIPT)
    assert wait([future], 0).done == {future}
    assert next(as_completed([DoneFuture(RECEIPT)], 0)).result() is RECEIPT
    assert not hasattr(DoneFuture(RECEIPT), "nothing")
    called: list[Future[Receipt]] = []
    DoneFuture(RECEIPT).add_done_callback(called.append)
    assert called[0].result(0) is RECEIPT
    both = DoneFuture(RECEIPT)
    seen: list[bool] = []
    threads = [threading.Thread(target=lambda: seen.append(both.done())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert seen == [True, True]
