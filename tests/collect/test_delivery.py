"""Sends that are kept until they are confirmed."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.collect import delivery as module
from kafka2011.collect.counts import CollectCounts
from kafka2011.collect.delivery import RETRY_S, Delivery, DeliveryError
from kafka2011.errors import BrokerConnectionError, KafkaError
from kafka2011.producer.errors import NoBrokersError, SetRefusedError
from tests.support.clocks import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable


class Cluster:
    """What a delivery publishes to: `outcomes` of the next publishings, by hand where there are none."""

    def __init__(self, *, tries_again: bool = True) -> None:
        self.published: list[list[bytes]] = []
        self.futures: list[Future[Any]] = []
        self.raises: Exception | None = None
        self.refuses: Callable[[list[bytes]], bool] = lambda _lines: False
        self.is_quick = False
        self.counts = CollectCounts()
        self.clock = ManualClock()
        self.confirmed: list[int] = []
        self.delivery = Delivery(self.publish, lambda: None, self.counts, self.clock, tries_again=tries_again)

    def publish(self, lines: list[bytes]) -> Future[Any]:
        if self.raises is not None:
            raise self.raises
        self.published.append(lines)
        future: Future[Any] = Future()
        self.futures.append(future)
        if self.refuses(lines):
            future.set_exception(SetRefusedError("refused"))
        elif self.is_quick:
            future.set_result(None)
        return future

    def send(self, number: int, *lines: bytes) -> None:
        self.delivery.send(list(lines), "a.log", lambda: self.confirmed.append(number))


def test_confirmations_are_told_in_the_order_of_sending() -> None:
    """A later list that is confirmed first waits; one without lines takes its turn."""
    cluster = Cluster()
    cluster.send(1, b"one")
    cluster.send(2)
    cluster.send(3, b"two", b"three")
    cluster.futures[1].set_result(None)
    cluster.delivery.settle()
    assert cluster.confirmed == []
    cluster.futures[0].set_result(None)
    cluster.delivery.settle()
    assert cluster.confirmed == [1, 2, 3]
    assert cluster.delivery.is_empty
    assert (cluster.counts.lines_sent, cluster.counts.lines_confirmed) == (3, 3)


def test_what_fails_is_sent_again_until_it_is_confirmed() -> None:
    """After a pause, in which nothing else is taken, and only the list that failed."""
    cluster = Cluster()
    cluster.send(1, b"one")
    cluster.send(2, b"two")
    cluster.futures[1].set_result(None)
    for _ in range(3):
        cluster.futures[-1 if len(cluster.futures) > 2 else 0].set_exception(BrokerConnectionError("away"))
        cluster.delivery.settle()
        assert not cluster.delivery.has_room
        assert not cluster.delivery.wait(60)
        cluster.delivery.settle()
        cluster.clock.now_s += RETRY_S
        cluster.delivery.settle()
    assert cluster.published == [[b"one"], [b"two"], [b"one"], [b"one"], [b"one"]]
    cluster.futures[-1].set_result(None)
    cluster.delivery.settle()
    assert cluster.confirmed == [1, 2]
    assert cluster.delivery.has_room
    assert cluster.counts.lines_resent == 3


def test_a_send_that_raises_is_tried_again() -> None:
    """No broker may be known at all."""
    cluster = Cluster()
    cluster.raises = NoBrokersError("nobody")
    cluster.send(1, b"one")
    cluster.clock.now_s += RETRY_S
    cluster.delivery.settle()
    assert not cluster.published
    assert not cluster.confirmed
    cluster.raises = None
    cluster.is_quick = True
    cluster.delivery.settle()
    assert cluster.confirmed == []
    cluster.clock.now_s += RETRY_S
    cluster.delivery.settle()
    assert cluster.confirmed == [1]


@pytest.mark.parametrize("raises", [True, False])
def test_who_does_not_try_again_is_told(raises: bool) -> None:
    """The error names what was being sent, and nothing is confirmed."""
    cluster = Cluster(tries_again=False)
    if raises:
        cluster.raises = NoBrokersError("nobody")
    with pytest.raises(DeliveryError, match=r"1 messages of a\.log are not confirmed: (nobody|away)"):  # noqa: PT012
        cluster.send(1, b"one")
        cluster.futures[0].set_exception(BrokerConnectionError("away"))
        cluster.delivery.settle()
    assert cluster.confirmed == []


def test_only_the_line_that_is_refused_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """The lines of a refused list are sent one by one; a refused one is logged and counted."""
    cluster = Cluster()
    cluster.is_quick = True
    cluster.refuses = lambda lines: b"bad" in lines
    cluster.send(1, b"one", b"bad", b"two")
    cluster.delivery.settle()
    assert cluster.published[1:] == [[b"one"], [b"bad"], [b"two"]]
    assert cluster.confirmed == [1]
    assert (cluster.counts.lines_refused, cluster.counts.lines_confirmed) == (1, 2)
    assert "a message of 3 bytes of a.log is given up: refused" in caplog.text


def test_the_cluster_goes_away_while_lines_go_one_by_one() -> None:
    """What was confirmed of a refused list is not sent again."""
    cluster = Cluster()
    cluster.is_quick = True
    cluster.refuses = lambda lines: b"bad" in lines
    publish = cluster.publish

    def fail_at_two(lines: list[bytes]) -> Future[Any]:
        if lines == [b"two"] and cluster.clock.now_s == 0:
            raise NoBrokersError("nobody")
        return publish(lines)

    cluster.delivery.publish = fail_at_two
    cluster.send(1, b"one", b"bad", b"two", b"three")
    cluster.delivery.settle()
    assert cluster.confirmed == []
    cluster.clock.now_s += RETRY_S
    cluster.delivery.settle()
    assert cluster.confirmed == [1]
    assert cluster.published[1:] == [[b"one"], [b"bad"], [b"two", b"three"]]
    assert cluster.counts.lines_confirmed == 3


def test_the_window_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """In lines and in bytes; a list that is larger than all of it goes alone."""
    monkeypatch.setattr(module, "WINDOW_LINES", 3)
    monkeypatch.setattr(module, "WINDOW_BYTES", 100)
    cluster = Cluster()
    cluster.send(1, b"x" * 200)
    assert not cluster.delivery.has_room
    cluster.futures[0].set_result(None)
    cluster.delivery.settle()
    assert cluster.delivery.has_room
    cluster.send(2, b"a", b"b", b"c")
    assert not cluster.delivery.has_room
    cluster.futures[1].set_result(None)
    cluster.delivery.settle()
    assert cluster.delivery.has_room


def test_a_defect_is_not_tried_again() -> None:
    """What is no KafkaError would fail again and again."""
    cluster = Cluster()
    cluster.send(1, b"one")
    cluster.futures[0].set_exception(ValueError("a defect"))
    with pytest.raises(KafkaError, match="a defect"):
        cluster.delivery.settle()
