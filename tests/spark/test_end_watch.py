"""Waiting for news of logs: who is asked, what counts as news, and what a stream makes of it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast

import pytest

from kafka2011.consumer.simple_consumer import FetchedSet, SimpleConsumer
from kafka2011.errors import BrokerConnectionError
from kafka2011.spark import end_watch
from kafka2011.spark.end_watch import EndWatch
from kafka2011.wire.protocol import FetchRequest
from tests.support.waiting import eventually
from zk.cluster import Broker, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

ONE, TWO = TopicPartition("views", 0, 0), TopicPartition("views", 1, 0)
BROKERS = {number: Broker(number, "h", 9000 + number) for number in (0, 1)}


class WaitingBroker:
    """Answers with what it is told to, once it is told."""

    def __init__(self) -> None:
        self.asked: list[list[tuple[str, int, int, int]]] = []
        self.answers: list[bytes | Exception] = []
        self.told = threading.Semaphore(0)
        self.closed = threading.Event()
        self.is_interrupted = False

    def answer(self, *answers: bytes | Exception) -> None:
        for each in answers:
            self.answers.append(each)
            self.told.release()

    def multifetch(self, fetches: list[tuple[str, int, int, int]], *, wait_ms: int) -> list[FetchedSet]:
        assert wait_ms == end_watch.WAIT_MS
        self.asked.append(fetches)
        assert self.told.acquire(timeout=60)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return [FetchedSet(FetchRequest(*fetch), 0, answer) for fetch in fetches]

    def interrupt(self) -> None:
        self.is_interrupted = True
        self.answer(b"")

    def close(self) -> None:
        self.closed.set()


class Watched:
    """Two brokers, and who watches them."""

    def __init__(self) -> None:
        self.brokers = {broker: WaitingBroker() for broker in BROKERS.values()}
        self.opened = 0
        self.watch = EndWatch(self._connect)

    def _connect(self, broker: Broker) -> SimpleConsumer:
        self.opened += 1
        return cast("SimpleConsumer", self.brokers[broker])

    def __getitem__(self, number: int) -> WaitingBroker:
        return self.brokers[BROKERS[number]]


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.watch.close()


def test_each_broker_is_asked_once_until_it_has_answered(watched: Watched) -> None:
    """For one byte at the end of each of its partitions; the end of one wait is news, and then it is asked anew."""
    watched.watch.watch({ONE: 10, TWO: 20}, BROKERS)
    watched.watch.watch({ONE: 11, TWO: 20}, BROKERS)
    eventually(lambda: (watched[0].asked, watched[1].asked) == ([[("views", 0, 10, 1)]], [[("views", 0, 20, 1)]]))
    assert watched.watch.covers([ONE, TWO])
    assert not watched.watch.has_news()
    watched[0].answer(b"x")
    eventually(lambda: not watched.watch.covers([ONE]))
    assert watched.watch.has_news()
    assert not watched.watch.has_news(), "it is told once"
    assert (watched.watch.covers([ONE, TWO]), watched.watch.covers([TWO])) == (False, True)
    watched.watch.watch({ONE: 11, TWO: 20}, BROKERS)
    eventually(lambda: watched[0].asked[1:] == [[("views", 0, 11, 1)]])
    assert (len(watched[1].asked), watched.opened) == (1, 2)


def test_a_broker_that_does_not_wait_is_not_asked_again(watched: Watched) -> None:
    """One of 0.7 is looked at as before; one that is away is asked again, and one that has waited."""
    watched[0].answer(b"")
    watched[1].answer(BrokerConnectionError("away"))
    watched.watch.watch({ONE: 10, TWO: 20}, BROKERS)
    eventually(lambda: not watched.watch.covers([ONE]) and not watched.watch.covers([TWO]))
    assert not watched.watch.has_news()
    watched.watch.watch({ONE: 10, TWO: 20}, BROKERS)
    eventually(lambda: len(watched[1].asked) == 2)
    assert len(watched[0].asked) == 1
    assert watched.watch.covers([TWO])


def test_who_is_no_longer_watched_is_let_go(watched: Watched) -> None:
    """Its wait is ended, and its connection closed; so it is at the end."""
    watched.watch.watch({ONE: 10, TWO: 20}, BROKERS)
    eventually(lambda: watched[0].asked and watched[1].asked)
    watched.watch.watch({TWO: 20}, BROKERS)
    assert watched[0].is_interrupted
    assert watched[0].closed.wait(60)
    assert not watched[1].is_interrupted
    watched.watch.close()
    watched.watch.close()
    assert watched[1].closed.wait(60)
