"""Reading ranges of partitions for a replay."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, cast

import pytest

from kafka2011.consumer.simple_consumer import FetchedSet
from kafka2011.errors import InvalidMessageSizeError, KafkaError
from kafka2011.message.message_set import MessageSet
from kafka2011.mirror import replay as replay_module
from kafka2011.mirror.commit_window import CommitWindow, SentSet
from kafka2011.mirror.replay import ReplayRange, replay, stored_sets
from kafka2011.producer.batch import Receipt
from kafka2011.wire.protocol import FetchRequest
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from kafka2011.consumer.feed import StoredSet
    from kafka2011.consumer.simple_consumer import SimpleConsumer
    from kafka2011.mirror.forwarder import Forwarder

ONE = 11  # bytes of a message with one byte of payload


class ConsumerInMemory:
    def __init__(self, *logs: bytes) -> None:
        self.logs = logs

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> FetchedSet:
        data = self.logs[partition][offset : offset + max_bytes]
        return FetchedSet(FetchRequest(topic, partition, offset, max_bytes), 0, data)


def ranges(*payloads: bytes, end_offset: int | None = None, start: int = 0) -> list[ReplayRange]:
    """Return a range for each partition, whose messages are the single bytes of its payloads."""
    logs = [bytes(MessageSet([bytes([each]) for each in its])) for its in payloads]
    consumer = cast("SimpleConsumer", ConsumerInMemory(*logs))
    return [
        ReplayRange(TopicPartition("t", 0, number), consumer, start, len(log) if end_offset is None else end_offset)
        for number, log in enumerate(logs)
    ]


def payloads_of(sets: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    return [(number, b"".join(MessageSet.from_bytes(data))) for number, data in sets]


def read(its: list[ReplayRange], fetch_bytes: int = 1000, max_messages: int | None = None) -> list[tuple[int, bytes]]:
    return payloads_of([(each.partition, each.data) for each in stored_sets(its, fetch_bytes, max_messages)])


def test_partitions_take_turns_until_their_ends() -> None:
    """A set holds whole messages of one fetch."""
    assert read(ranges(b"abcd", b"", b"ef"), 2 * ONE + 5) == [(0, b"ab"), (2, b"ef"), (0, b"cd")]


def test_it_ends_where_the_range_does() -> None:
    """What came after that, perhaps by the replay itself, is not read."""
    assert read(ranges(b"abcd", start=ONE, end_offset=3 * ONE)) == [(0, b"bc")]


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5])
def test_at_most_so_many_messages(most: int) -> None:
    """In all partitions together."""
    taken = b"".join(payloads for _, payloads in read(ranges(b"abc", b"de"), 2 * ONE, most))
    assert taken == b"abdec"[:most]


def test_a_message_that_is_larger_than_the_fetch_is_an_error() -> None:
    """It names the place and the size."""
    with pytest.raises(InvalidMessageSizeError, match="t/0-0 at offset 0, which needs 11"):
        read(ranges(b"a"), 10)


def test_a_log_that_has_become_shorter_is_an_error() -> None:
    """A broker that lost its end must not make a replay wait for ever."""
    with pytest.raises(KafkaError, match="t/0-0 ends at offset 11, before 33"):
        read(ranges(b"a", end_offset=33))


class ForwarderInMemory:
    """Sends sets that are confirmed when somebody waits for them; empty ones are left out."""

    def __init__(self) -> None:
        self.window = CommitWindow(10**6)
        self.forwarded: list[bytes] = []

    def forward(self, stored: StoredSet) -> None:
        self.forwarded.append(b"".join(MessageSet.from_bytes(stored.data)))
        future = None if self.forwarded[-1].isupper() else Future[Receipt]()
        where = TopicPartition(stored.topic, stored.broker_id, stored.partition)
        self.window.add(SentSet(where, stored.offset, stored.next_offset, MessageSet(), future))

    def settle(self) -> None:
        for sent in self.window.done():
            self.window.settle(sent)


class Stop:
    """An event that notes how long it was waited for, and is set after so many waits."""

    def __init__(self, waits: int = 1000) -> None:
        self.waited_s: list[float] = []
        self._waits = waits

    def wait(self, timeout_s: float) -> bool:
        self.waited_s.append(timeout_s)
        return self.is_set()

    def is_set(self) -> bool:
        return len(self.waited_s) >= self._waits


@pytest.fixture
def forwarder(monkeypatch: pytest.MonkeyPatch) -> ForwarderInMemory:
    """Return a forwarder whose sets are confirmed, the first one at a time, when the replay waits for them."""

    def confirm(futures: Sequence[Future[Receipt]], timeout: float, return_when: str) -> None:
        assert (timeout > 0, return_when) == (True, "FIRST_COMPLETED")
        for future in futures[:1]:
            future.set_result(Receipt("t", 0, 0, 1, True, 0))

    monkeypatch.setattr(replay_module, "wait", confirm)
    return ForwarderInMemory()


def test_a_replay_ends_when_all_is_confirmed_or_left_out(forwarder: ForwarderInMemory) -> None:
    """It waits for what is on its way, of all partitions."""
    stop = Stop()
    its = ranges(b"abCd", b"ef")
    replay(its, cast("Forwarder", forwarder), fetch_bytes=ONE, stop=cast("threading.Event", stop))
    assert forwarder.forwarded == [b"a", b"e", b"b", b"f", b"C", b"d"]
    assert forwarder.window.due() == {each.where: each.end_offset for each in its}
    assert stop.waited_s == [0.0] * 6


def test_a_replay_pauses_after_each_set(forwarder: ForwarderInMemory) -> None:
    """For so many milliseconds, and only for as many messages as are wanted."""
    stop = cast("threading.Event", Stop())
    its = ranges(b"abc")
    replay(its, cast("Forwarder", forwarder), fetch_bytes=ONE, stop=stop, max_messages=2, delay_ms=2500)
    assert forwarder.forwarded == [b"a", b"b"]
    assert cast("Stop", stop).waited_s == [2.5, 2.5]


def test_a_replay_that_is_stopped_forwards_and_awaits_nothing_more(forwarder: ForwarderInMemory) -> None:
    """What is on its way may still be confirmed; nobody waits for that."""
    stop = cast("threading.Event", Stop(waits=2))
    replay(ranges(b"abc"), cast("Forwarder", forwarder), fetch_bytes=ONE, stop=stop)
    assert forwarder.forwarded == [b"a", b"b"]
    assert forwarder.window.due() == {}
