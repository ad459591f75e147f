"""Fetchers over a scripted broker: what goes wrong with one partition holds up no other."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self, cast

import pytest

from kafka2011.config import ConsumerConfig
from kafka2011.consumer import fetcher, simple_consumer
from kafka2011.consumer.feed import PartitionFeed
from kafka2011.consumer.fetcher import FetcherManager
from kafka2011.consumer.owned_partition import OwnedPartition
from kafka2011.consumer.simple_consumer import FetchedSet, SimpleConsumer
from kafka2011.consumer.stream import MessageStream
from kafka2011.errors import (
    BrokerConnectionError,
    BrokerError,
    InvalidMessageSizeError,
    KafkaError,
    NotAllowedError,
    OffsetOutOfRangeError,
    UnknownError,
    WrongPartitionError,
)
from kafka2011.message.message_set import MessageSet
from kafka2011.wire.protocol import EARLIEST, FetchRequest
from tests.support.leases import LeaseInMemory
from tests.support.waiting import eventually, is_waiting
from zk.clock import SYSTEM_CLOCK
from zk.cluster import Broker, TopicPartition
from zk.errors import NotConnected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kafka2011.consumer.fetcher import FetchedPartition
    from kafka2011.consumer.group_registries import GroupSession

WAIT_S = 20
MIB = 1024 * 1024
CONFIG = ConsumerConfig.of({"groupid": "g", "zk.connect": "h:1", "fetcher.backoff.ms": 1})
PATIENT = ConsumerConfig.of({"groupid": "g", "zk.connect": "h:1", "fetcher.backoff.ms": 1_000_000, "fetch.size": 11})
"""A fetcher that sleeps once has missed the test's deadline; each message of one byte is a fetch of its own."""

SMALL = ConsumerConfig.of({"groupid": "g", "zk.connect": "h:1", "fetcher.backoff.ms": 1, "fetch.size": 30})

HANGING_ID = 9


class OnlyLease:
    lease = LeaseInMemory(until_s=float("inf"))


class ScriptedBroker:
    """Answers from logs in memory, but errors where the test wants them; stands in for SimpleConsumer."""

    def __init__(self, config: ConsumerConfig = CONFIG, max_chunks: int = 3) -> None:
        self.logs: dict[int, bytes] = {}
        self.begins: dict[int, int] = {}
        self.fetch_errors: dict[int, BrokerError] = {}
        self.start_errors: dict[int, Exception | None] = {}  # None: it says nothing
        self.unreachable: Exception | None = None
        self.asked: list[list[tuple[int, int]]] = []
        self.watched: list[list[int]] = []  # those asked for one byte
        self.waits_ms: list[int] = []
        self.waits = False
        self.parked = False
        self.is_interrupted = False
        self.interruptions = 0
        self.news = threading.Condition()
        self.most_asked: list[tuple[int, int]] = []  # by each `fetch_on`: sets, and bytes of each
        self.starts_asked: list[int] = []
        self.opened: list[Broker] = []
        self.closed = threading.Event()
        self.gate = threading.Event()  # nothing is answered while it is clear
        self.gate.set()
        self.hanging = HangingConnection(self)
        self.stream = MessageStream(
            "m-0",
            max_chunks=max_chunks,
            timeout_ms=0,
            shallow=False,
            clock=SYSTEM_CLOCK,
            room_made=self.make_room,
        )
        self.refuse_start: Exception | None = None
        self.fetchers = FetcherManager(config, self.starts_found, lambda broker, _: self.connect(broker))

    def connect(self, broker: Broker) -> SimpleConsumer:
        self.opened.append(broker)
        return cast("SimpleConsumer", self.hanging if broker.id == HANGING_ID else self)

    def make_room(self) -> None:
        self.fetchers.make_room()

    def starts_found(self, starts: Mapping[FetchedPartition, tuple[int, int]]) -> dict[FetchedPartition, KafkaError]:
        error, self.refuse_start = self.refuse_start, None
        if isinstance(error, KafkaError):
            return dict.fromkeys(starts, error)
        if error is not None:
            raise error
        for owned, (offset, epoch) in starts.items():
            owned.start_at(offset, epoch)
        return {}

    def own(
        self,
        number: int = 0,
        start: int | None = 0,
        port: int = 1,
        *,
        broker_id: int = 0,
        is_newborn: bool = False,
    ) -> FetchedPartition:
        session = cast("GroupSession", OnlyLease())
        feed = self.stream.feed(TopicPartition("t", broker_id, number), session.lease)
        owned = OwnedPartition(feed, session, Broker(broker_id, "h", port), is_newborn=is_newborn)
        if start is not None:
            owned.start_at(start)
        self.fetchers.add(owned, owned.broker)
        return owned

    @property
    def room_taken(self) -> int:
        """By what waits for the application."""
        return self.stream._queue.taken

    def hang(self, partitions: int) -> list[FetchedPartition]:
        """Own so many partitions of a broker that then answers no more."""
        found = [self.own(number, broker_id=HANGING_ID) for number in range(partitions)]
        self.hanging.stop_answering()
        return found

    def read(self, count: int) -> list[bytes]:
        found: list[bytes] = []

        def read_on() -> bool:
            found.extend(message.payload for message in self.stream)
            return len(found) >= count

        eventually(read_on)
        return found

    # What fetchers call

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed.set()

    def interrupt(self) -> None:
        with self.news:
            self.is_interrupted = True
            self.interruptions += 1
            self.news.notify_all()

    def let_wait(self) -> None:
        with self.news:
            self.is_interrupted = False

    def write(self, partition: int, data: bytes) -> None:
        with self.news:
            self.logs[partition] = self.logs.get(partition, b"") + data
            self.news.notify_all()

    def await_news(self, every: list[tuple[str, int, int, int]], wait_ms: int) -> None:
        def is_there() -> bool:
            return self.is_interrupted or any(len(self.logs.get(each[1], b"")) > each[2] for each in every)

        with self.news:
            self.parked = True
            self.news.wait_for(is_there, wait_ms / 1000)
            self.parked = False

    def multifetch(
        self, fetches: Iterable[tuple[str, int, int, int]], *, wait_ms: int = 0, min_bytes: int = 1
    ) -> list[FetchedSet]:
        """Answer at once, as 0.7 does, unless it `waits`."""
        every = list(fetches)
        self.asked.append([(partition, offset) for _, partition, offset, max_bytes in every if max_bytes > 1])
        self.watched.append([partition for _, partition, _, max_bytes in every if max_bytes == 1])
        self.waits_ms.append(wait_ms)
        if self.waits and wait_ms:
            self.await_news(every, wait_ms)
        if self.unreachable is not None:
            raise self.unreachable
        answers = []
        for topic, partition, offset, max_bytes in every:
            request = FetchRequest(topic, partition, offset, max_bytes)
            error = self.fetch_errors.get(partition)
            if error is None and offset < self.begins.get(partition, 0):
                error = OffsetOutOfRangeError(f"offset {offset}")
            data = b"" if error else self.logs.get(partition, b"")[offset : offset + max_bytes]
            answers.append(FetchedSet(request, 0, data, error))
        assert self.gate.wait(WAIT_S)
        return answers

    def fetch_on(
        self,
        topic: str,
        partition: int,
        offset: int,
        max_bytes: int,
        most: int,
        *,
        wait_ms: int = 0,
        min_bytes: int = 1,
    ) -> list[FetchedSet]:
        self.most_asked.append((most, max_bytes))
        sets: list[FetchedSet] = []
        while len(sets) < most:
            sets += self.multifetch([(topic, partition, offset, max_bytes)], wait_ms=wait_ms, min_bytes=min_bytes)
            if sets[-1].error is not None or 2 * len(sets[-1].data) < max_bytes or sets[-1].next_offset == offset:
                break
            offset = sets[-1].next_offset
        return sets

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> FetchedSet:
        [fetched] = self.multifetch([(topic, partition, offset, max_bytes)])
        return fetched

    def get_many_offsets_before(self, asked: Iterable[tuple[str, int, int, int]]) -> list[list[int]]:
        every = list(asked)
        for _, partition, _, _ in every:
            if (error := self.start_errors.get(partition)) is not None:
                raise error
        return [self.get_offsets_before(*each) for each in every]

    def get_offsets_before(self, topic: str, partition: int, time_ms: int, max_count: int) -> list[int]:
        assert (topic, max_count) == ("t", 1)
        self.starts_asked.append(partition)
        if partition in self.start_errors:
            error = self.start_errors[partition]
            if error is None:
                return []
            raise error
        return [self.begins.get(partition, 0) if time_ms == EARLIEST else len(self.logs[partition])]


class HangingConnection:
    """Answers nothing from some time on, until it is let go."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self._broker = broker
        self._may_hang = threading.Event()
        self._hangs = threading.Event()
        self.let_go = threading.Event()

    def stop_answering(self) -> None:
        self._may_hang.set()
        assert self._hangs.wait(WAIT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def interrupt(self) -> None:
        pass

    def let_wait(self) -> None:
        pass

    def multifetch(self, fetches: Iterable[tuple[str, int, int, int]], **waits: int) -> list[FetchedSet]:
        every = list(fetches)
        self._hang()
        return self._broker.multifetch(every, **waits)

    def fetch_on(
        self, topic: str, partition: int, offset: int, max_bytes: int, most: int, **waits: int
    ) -> list[FetchedSet]:
        self._hang()
        return self._broker.fetch_on(topic, partition, offset, max_bytes, most, **waits)

    def _hang(self) -> None:
        if self._may_hang.is_set():
            self._hangs.set()
            assert self.let_go.wait(WAIT_S)
        assert self._may_hang.wait(WAIT_S)


@pytest.fixture
def open_broker() -> Iterator[Callable[..., ScriptedBroker]]:
    with ExitStack() as stack:

        def make(config: ConsumerConfig = CONFIG, max_chunks: int = 3) -> ScriptedBroker:
            broker = ScriptedBroker(config, max_chunks)
            stack.callback(broker.fetchers.close)
            stack.callback(broker.hanging.let_go.set)
            stack.callback(broker.gate.set)
            return broker

        yield make


@pytest.fixture
def broker(open_broker: Callable[..., ScriptedBroker]) -> ScriptedBroker:
    return open_broker()


def log_of(*payloads: bytes) -> bytes:
    return bytes(MessageSet(payloads))


def test_partitions_of_a_broker_are_fetched_together(broker: ScriptedBroker) -> None:
    """In one request, each from its own offset; what came is counted."""
    broker.logs = {0: log_of(b"a", b"b"), 1: log_of(b"x")}
    broker.own(0, 11)
    broker.own(1)
    assert sorted(broker.read(2)) == [b"b", b"x"]
    eventually(lambda: sorted(broker.asked[-1]) == [(0, 22), (1, 11)])
    assert broker.fetchers.counts.as_dict() == {"fetched_bytes": 22, "fetch_errors": 0, "resets": 0}


LETTERS = [bytes([code]) for code in range(ord("a"), ord("z") + 1)]
SHORT_BYTES = 11
SHORT = ConsumerConfig.of({"groupid": "g", "zk.connect": "h:1", "fetcher.backoff.ms": 1, "fetch.size": SHORT_BYTES})
"""Each message of one byte is a fetch of its own."""


@pytest.fixture(params=["together", "in a row"])
def in_a_row(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Who is behind takes several small sets as one, and large ones in a row."""
    if request.param == "in a row":
        monkeypatch.setattr(simple_consumer, "LARGE_FETCH_BYTES", 1)  # nothing is small
        return True
    return False


def test_a_fetcher_that_is_behind_takes_several_sets_at_once(
    open_broker: Callable[..., ScriptedBroker], in_a_row: bool
) -> None:
    """Of its only partition, after one that was large, and until one is small."""
    broker = open_broker(SHORT, max_chunks=100)
    broker.logs = {0: log_of(*LETTERS)}
    broker.own()
    assert broker.read(26) == LETTERS
    behind = (8, SHORT_BYTES) if in_a_row else (1, 8 * SHORT_BYTES)
    assert broker.most_asked[:3] == [(1, SHORT_BYTES), behind, behind]
    eventually(lambda: broker.most_asked[-1] == (1, SHORT_BYTES))


def test_no_more_sets_are_taken_than_there_is_room_for(
    open_broker: Callable[..., ScriptedBroker], in_a_row: bool
) -> None:
    """And the room of those that did not come is free again."""
    broker = open_broker(SHORT, max_chunks=3)
    broker.logs = {0: log_of(*LETTERS)}
    broker.own()
    eventually(lambda: broker.room_taken == 3)
    assert broker.read(26) == LETTERS
    assert max(most * size for most, size in broker.most_asked) == 3 * SHORT_BYTES
    eventually(lambda: broker.most_asked[-1] == (1, SHORT_BYTES))
    broker.logs[0] += log_of(*LETTERS)
    assert broker.read(26) == LETTERS


@pytest.mark.parametrize(
    ("fetch_bytes", "most", "together"),
    [
        (200 * 1024, 1, 5),
        (MIB // 3, 2, 3),
        (MIB // 2, 4, 2),
        (MIB // 2 + 1, 8, 1),
        (4 * MIB, 8, 1),
        (8 * MIB, 4, 1),
        (20 * MIB, 1, 1),
        (33 * MIB, 1, 1),
    ],
)
def test_what_is_taken_at_once_is_not_too_much(
    open_broker: Callable[..., ScriptedBroker], fetch_bytes: int, most: int, together: int
) -> None:
    """1 MiB as one set, and 32 MiB by one call, as for one request."""
    settings = {"groupid": "g", "zk.connect": "h:1", "fetcher.backoff.ms": 1, "fetch.size": fetch_bytes}
    broker = open_broker(ConsumerConfig.of(settings), max_chunks=100)
    broker.logs = {0: log_of(bytes(fetch_bytes - 10)) * 2}
    broker.own()
    broker.read(2)
    assert (most, together * fetch_bytes) in broker.most_asked
    assert {*broker.most_asked} <= {(1, fetch_bytes), (most, together * fetch_bytes)}


def test_partitions_together_are_fetched_by_one_request_each_time(
    open_broker: Callable[..., ScriptedBroker],
) -> None:
    """Several partitions bring several sets anyhow."""
    broker = open_broker(SHORT, max_chunks=100)
    broker.gate.clear()
    broker.logs = dict.fromkeys(range(2), log_of(*LETTERS))
    broker.own(0)
    broker.own(1)
    broker.gate.set()
    assert sorted(broker.read(52)) == sorted(LETTERS * 2)
    assert {most for most, _ in broker.most_asked} <= {1}


def test_several_sets_are_dropped_when_the_partition_was_rewound_meanwhile(
    open_broker: Callable[..., ScriptedBroker], in_a_row: bool
) -> None:
    """All of them, and their room is free again."""
    broker = open_broker(SHORT, max_chunks=3)
    broker.logs = {0: log_of(*LETTERS * 40)}
    owned = broker.own()
    assert broker.read(4)[:4] == LETTERS[:4]
    broker.gate.clear()
    broker.read(0)
    asked = len(broker.asked)
    eventually(lambda: len(broker.asked) > asked)
    owned.start_at(0)
    broker.gate.set()
    assert broker.read(26)[:26] == LETTERS


@pytest.mark.parametrize(("fetch_bytes", "together"), [(8 * MIB, 4), (16 * MIB, 2), (32 * MIB, 1), (33 * MIB, 1)])
def test_one_request_does_not_ask_for_too_much(
    open_broker: Callable[..., ScriptedBroker], fetch_bytes: int, together: int
) -> None:
    """32 MiB are enough, however many partitions there are; but a single one may always be asked for."""
    settings = {"groupid": "g", "zk.connect": "h:1", "fetcher.backoff.ms": 1, "fetch.size": fetch_bytes}
    broker = open_broker(ConsumerConfig.of(settings), max_chunks=10)
    broker.gate.clear()
    for number in range(6):
        broker.own(number)
    eventually(lambda: broker.asked)
    asked = len(broker.asked)
    broker.gate.set()
    eventually(lambda: {partition for each in broker.asked[asked:] for partition, _ in each} == set(range(6)))
    assert max(map(len, broker.asked)) == together


PARKED_MS = 50_000
LONG_POLLS = ConsumerConfig.of(
    {
        "groupid": "g",
        "zk.connect": "h:1",
        "fetcher.backoff.ms": 1_000_000,
        "fetch.wait.max.ms": PARKED_MS,
        "fetch.size": 11,
    }
)
"""A fetcher that sleeps by itself, or whose wait is not ended, has missed the test's deadline."""


def await_parked(broker: ScriptedBroker) -> None:
    eventually(lambda: broker.parked)


@pytest.mark.parametrize("partitions", [1, 2, 3, 20])
def test_a_fetcher_waits_at_the_broker(open_broker: Callable[..., ScriptedBroker], partitions: int) -> None:
    """By one request for all partitions, those included that have no room beside the others; what comes is handed out.

    Each partition is asked for whole sets or for one byte, and after the byte for whole sets.
    """
    broker = open_broker(LONG_POLLS, max_chunks=3)
    broker.waits = True
    for number in range(partitions):
        broker.own(number)
    eventually(lambda: broker.parked and len(broker.asked[-1]) + len(broker.watched[-1]) == partitions)
    for number in range(partitions):
        broker.write(number, log_of(b"a") * 4)
        assert broker.read(4) == [b"a"] * 4
        await_parked(broker)
        both = sorted(partition for partition, _ in broker.asked[-1]) + broker.watched[-1]
        assert sorted(both) == list(range(partitions))
        assert broker.asked[-1]
    assert broker.waits_ms[-1] == PARKED_MS


def test_few_partitions_are_looked_at_while_something_comes(
    open_broker: Callable[..., ScriptedBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a stream without room are left alone until a fetch brings nothing; then all are waited for."""
    looks: list[PartitionFeed] = []
    reserve = PartitionFeed.reserve

    def counted(feed: PartitionFeed) -> tuple[int, int] | None:
        looks.append(feed)
        return reserve(feed)

    monkeypatch.setattr(PartitionFeed, "reserve", counted)
    broker = open_broker(LONG_POLLS, max_chunks=2)
    broker.waits = True
    broker.gate.clear()
    for number in range(100):
        broker.logs[number] = log_of(b"a")
        broker.own(number)
    looks.clear()
    before = len(broker.asked)
    broker.gate.set()
    assert broker.read(100) == [b"a"] * 100
    eventually(lambda: broker.parked and len(broker.asked[-1]) + len(broker.watched[-1]) == 100)
    assert len(looks) < 100 * (len(broker.asked) - before)


def test_what_changes_interrupts_the_wait(open_broker: Callable[..., ScriptedBroker]) -> None:
    """A partition that is added, one that goes, a rewind, and the end."""
    broker = open_broker(LONG_POLLS)
    broker.waits = True
    broker.logs = {0: log_of(b"a"), 1: b""}
    owned = broker.own(0)
    assert broker.read(1) == [b"a"]
    await_parked(broker)
    other = broker.own(1)
    eventually(lambda: broker.parked and sorted(broker.asked[-1]) == [(0, 11), (1, 0)])
    broker.fetchers.remove([other])
    eventually(lambda: broker.parked and broker.asked[-1] == [(0, 11)])
    owned.start_at(0)
    broker.fetchers.wake()
    assert broker.read(1) == [b"a"]
    await_parked(broker)
    broker.fetchers.close()
    assert broker.closed.is_set()


def test_a_full_stream_is_not_waited_for(open_broker: Callable[..., ScriptedBroker]) -> None:
    """Its partitions are asked for nothing while it has no room, and interrupt the wait for others once it has."""
    broker = open_broker(LONG_POLLS, max_chunks=2)
    broker.waits = True
    broker.logs = {0: log_of(*LETTERS)}
    broker.own(0)
    eventually(lambda: broker.asked and broker.asked[-1] == [(0, 11)])
    other = MessageStream(
        "m-1", max_chunks=2, timeout_ms=0, shallow=False, clock=SYSTEM_CLOCK, room_made=broker.make_room
    )
    lease = OnlyLease().lease
    feed = other.feed(TopicPartition("t", 0, 1), lease)
    owned = OwnedPartition(feed, cast("GroupSession", OnlyLease()), Broker(0, "h", 1))
    owned.start_at(0)
    broker.fetchers.add(owned, owned.broker)
    eventually(lambda: broker.parked and broker.asked[-1] == [(1, 0)] and broker.watched[-1] == [])
    asked = len(broker.asked)
    found = broker.read(1)
    eventually(lambda: len(broker.asked) > asked)
    assert found + broker.read(26 - len(found)) == LETTERS
    broker.write(1, log_of(b"x"))
    eventually(lambda: [message.payload for message in other] == [b"x"])


def test_the_wait_is_no_longer_than_a_partition_is_postponed(open_broker: Callable[..., ScriptedBroker]) -> None:
    """It would otherwise be left alone for longer."""
    broker = open_broker(LONG_POLLS)
    broker.waits = True
    first, second = broker.own(0), broker.own(1)
    await_parked(broker)
    second.feed.postpone(0.05)
    broker.fetchers.wake()
    eventually(lambda: 0 < broker.waits_ms[-1] <= 50 or (len(broker.asked[-1]) == 2 and len(broker.asked) > 2))
    eventually(lambda: broker.parked and sorted(broker.asked[-1]) == [(0, 0), (1, 0)])
    assert any(0 < wait_ms <= 50 for wait_ms in broker.waits_ms)
    assert first.feed.resumes_in_s == float("inf")


def test_a_broker_that_does_not_wait_is_asked_again_later(open_broker: Callable[..., ScriptedBroker]) -> None:
    """As in 0.7: an empty answer that comes early is followed by fetcher.backoff.ms."""
    broker = open_broker(LONG_POLLS)
    broker.own(0)
    eventually(lambda: broker.asked and is_waiting(fetcher_threads()[-1]))
    assert broker.asked == [[(0, 0)]]
    assert broker.waits_ms == [PARKED_MS]


def fetcher_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("fetcher of")]


def test_a_partition_without_a_start_is_given_one(broker: ScriptedBroker) -> None:
    """Where autooffset.reset says."""
    broker.logs, broker.begins = {0: log_of(b"a", b"b")}, {0: 11}
    broker.own(0, None)
    assert broker.read(1) == [b"b"]


@pytest.mark.parametrize(("choice", "expected"), [("smallest", b"a"), ("reset", b"b")])
def test_newborn_partitions_start_where_the_setting_says(
    open_broker: Callable[..., ScriptedBroker], choice: str, expected: bytes
) -> None:
    """At their beginning, though others start at their end; once they have begun, they are like others."""
    settings = {"groupid": "g", "zk.connect": "h:1", "fetcher.backoff.ms": 1, "autooffset.reset": "largest"}
    broker = open_broker(ConsumerConfig.of({**settings, "autooffset.newpartitions": choice}))
    broker.logs = {0: log_of(b"a"), 1: log_of(b"x")}
    old, newborn = broker.own(1, None), broker.own(0, None, is_newborn=True)
    eventually(lambda: newborn.feed.fetch_offset is not None)
    eventually(lambda: old.feed.fetch_offset == 11)
    broker.logs[0] += log_of(b"b")
    assert broker.read(1)[0] == expected
    eventually(lambda: newborn.feed.fetch_offset == 22)
    broker.read(0)
    broker.begins[0] = 33
    broker.logs[0] += log_of(b"c", b"d", b"e")
    eventually(lambda: newborn.feed.fetch_offset == 55)


@pytest.mark.parametrize(
    "error", [WrongPartitionError("t-0"), UnknownError("t-0"), BrokerConnectionError("broken"), RuntimeError("a bug")]
)
def test_a_start_that_cannot_be_found_holds_up_no_other_partition(broker: ScriptedBroker, error: Exception) -> None:
    """Also when the broker breaks the connection over it; it is tried again, and found in the end."""
    broker.logs = {0: log_of(b"a"), 1: log_of(b"x")}
    broker.start_errors[0] = error
    broker.own(0, None)
    broker.own(1)
    assert broker.read(1) == [b"x"]
    eventually(lambda: broker.starts_asked.count(0) > 2)
    del broker.start_errors[0]
    assert broker.read(1) == [b"a"]


def test_starts_that_break_the_connection_hold_up_no_other_partition(
    open_broker: Callable[..., ScriptedBroker],
) -> None:
    """However many there are: what can be fetched is, in the same round."""
    broker = open_broker(PATIENT)
    broker.logs = {2: log_of(b"a", b"b")}
    broker.gate.clear()
    broker.own(2)
    eventually(lambda: broker.asked)
    for number in range(2):
        broker.start_errors[number] = BrokerConnectionError("broken")
        broker.own(number, None)
    broker.gate.set()
    assert broker.read(2) == [b"a", b"b"]
    eventually(lambda: sorted(broker.starts_asked) == [0, 1])


def test_a_start_that_zookeeper_does_not_take_is_found_again(broker: ScriptedBroker) -> None:
    """Nothing is fetched before the start is written."""
    broker.logs = {0: log_of(b"a")}
    broker.refuse_start = NotConnected("away")
    broker.own(0, None)
    assert broker.read(1) == [b"a"]
    assert broker.starts_asked == [0, 0]


def test_a_partition_that_the_broker_refuses_holds_up_no_other(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said loudly once, and fetched again after a pause."""
    broker.logs = {0: log_of(b"a"), 1: log_of(b"x")}
    broker.fetch_errors[0] = UnknownError("t-0")
    with caplog.at_level(logging.WARNING):
        broker.own(0)
        broker.own(1)
        assert broker.read(1) == [b"x"]
        eventually(lambda: broker.fetchers.counts.fetch_errors > 3)
    assert caplog.text.count("fetching waits: t-0") == 1
    broker.fetch_errors.clear()
    assert broker.read(1) == [b"a"]


@pytest.mark.parametrize("error", [BrokerConnectionError("no broker"), RuntimeError("a bug")])
def test_a_broker_that_does_not_answer_is_asked_again(broker: ScriptedBroker, error: Exception) -> None:
    """For ever, after a pause; the room that was reserved is not lost."""
    broker.logs = {0: log_of(b"a")}
    broker.unreachable = error
    broker.own()
    eventually(lambda: len(broker.asked) > 5)
    broker.unreachable = None
    assert broker.read(1) == [b"a"]


def test_a_reset_waits_until_what_was_fetched_is_consumed(broker: ScriptedBroker) -> None:
    """It is all there is of it."""
    broker.logs = {0: log_of(b"a", b"b")}
    owned = broker.own()
    eventually(lambda: owned.feed.fetch_offset == 22)
    assert next(broker.stream).payload == b"a"
    broker.logs[0], broker.begins[0] = log_of(b"a", b"b", b"c", b"d"), 33
    asked = len(broker.asked)
    eventually(lambda: len(broker.asked) > asked + 3)
    assert broker.fetchers.counts.resets == 0
    assert broker.read(2) == [b"b", b"d"]
    assert broker.fetchers.counts.resets == 1


def test_nothing_is_asked_while_there_is_no_room(open_broker: Callable[..., ScriptedBroker]) -> None:
    """And at once when there is some, not after the backoff."""
    waiting = open_broker(PATIENT)
    waiting.logs = {0: log_of(b"a", b"b", b"c", b"d", b"e", b"f", b"g")}
    waiting.own()
    eventually(lambda: waiting.room_taken == 3)
    asked = len(waiting.asked)
    assert next(waiting.stream).payload == b"a"
    eventually(lambda: len(waiting.asked) == asked + 1 and waiting.room_taken == 3)
    assert waiting.read(6) == [b"b", b"c", b"d", b"e", b"f", b"g"]


@pytest.mark.parametrize("partitions", [1, 10, 11, 50, 500])
def test_every_partition_is_asked_before_the_fetcher_sleeps(
    open_broker: Callable[..., ScriptedBroker], partitions: int
) -> None:
    """Also where there are more than the stream has room for, and all are empty but one."""
    broker = open_broker(PATIENT, max_chunks=10)
    broker.gate.clear()
    for number in range(partitions):
        broker.own(number)
    eventually(lambda: broker.asked)
    broker.logs[0] = log_of(b"a", b"b", b"c")
    broker.fetchers.wake()  # for one more round
    broker.gate.set()
    assert broker.read(3) == [b"a", b"b", b"c"]


def test_partitions_take_turns_where_there_is_no_room_for_all(open_broker: Callable[..., ScriptedBroker]) -> None:
    """A round begins where the one before it found no room."""
    broker = open_broker(PATIENT, max_chunks=2)
    broker.logs = {number: log_of(*[b"%d" % number] * 20) for number in range(7)}
    broker.gate.clear()
    for number in range(7):
        broker.own(number)
    broker.gate.set()
    assert set(broker.read(20)[-14:]) == {b"%d" % number for number in range(7)}


def test_no_partition_loses_its_turn(open_broker: Callable[..., ScriptedBroker]) -> None:
    """Each is asked once before the first is asked again, whether or not there was room in the rounds between."""
    broker = open_broker(PATIENT, max_chunks=2)
    broker.logs = {number: log_of(*[b"%d" % number] * 20) for number in range(6)}
    broker.gate.clear()
    for number in range(6):
        broker.own(number)
    broker.gate.set()
    broker.read(30)
    asked = [partition for each in broker.asked for partition, _ in each]
    assert asked == [number % 6 for number in range(len(asked))]


# One broker beside another --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_chunks", [1, 3, 10])
def test_a_broker_that_does_not_answer_stops_no_other(
    open_broker: Callable[..., ScriptedBroker], max_chunks: int
) -> None:
    """Though the fetches under way there were given all the room that the stream had."""
    broker = open_broker(PATIENT, max_chunks)
    broker.hang(20)
    broker.logs = {0: log_of(b"a", b"b", b"c", b"d")}
    broker.own(0)
    assert broker.read(4) == [b"a", b"b", b"c", b"d"]


def test_a_partition_given_up_gives_back_the_room_of_its_fetch(open_broker: Callable[..., ScriptedBroker]) -> None:
    """Not only when the fetch fails; and what it brings in the end is too late for that room."""
    broker = open_broker(PATIENT, 3)
    lost = broker.hang(20)
    broker.logs = {number: log_of(b"a", b"b", b"c", b"d") for number in range(20)}
    for owned in lost:
        owned.feed.begin_release()
    broker.fetchers.remove(lost)
    broker.own(0)
    eventually(lambda: broker.room_taken == 3)
    asked = len(broker.asked)
    broker.hanging.let_go.set()
    eventually(lambda: len(broker.asked) > asked)
    assert broker.read(4) == [b"a", b"b", b"c", b"d"]
    assert broker.stream._queue.reserved.total() == 0


def test_brokers_share_the_room(open_broker: Callable[..., ScriptedBroker]) -> None:
    """One that stops answering leaves the others more than one fetch at a time."""
    broker = open_broker(PATIENT, 10)
    broker.own(0)
    eventually(lambda: broker.asked)
    broker.hang(20)
    broker.logs = {0: log_of(*[b"a"] * 20)}
    broker.fetchers.wake()
    eventually(lambda: broker.room_taken == 5)


def test_a_fetcher_ends_with_its_last_partition(broker: ScriptedBroker) -> None:
    """And closes its connection, not before; another address has a fetcher of its own."""
    broker.logs = {1: log_of(b"a")}
    first, second = broker.own(0), broker.own(1, None)
    broker.fetchers.remove([first])
    assert broker.read(1) == [b"a"]
    assert not broker.closed.is_set()
    broker.fetchers.remove([second])
    assert broker.closed.wait(WAIT_S)
    broker.own(2, port=1)
    broker.own(3, port=2)
    assert [each.port for each in broker.opened] == [1, 1, 2]


def test_closing_waits_for_the_fetch_under_way(broker: ScriptedBroker) -> None:
    """Then its connection is closed; whoever begins again has a new one."""
    broker.gate.clear()
    broker.own(0)
    eventually(lambda: broker.asked)
    closing = threading.current_thread()

    def answer() -> None:
        eventually(lambda: is_waiting(closing))
        broker.gate.set()

    answering = threading.Thread(target=answer, daemon=True)
    answering.start()
    broker.fetchers.close()
    assert broker.closed.is_set()
    answering.join(WAIT_S)
    broker.logs = {1: log_of(b"x")}
    broker.own(1)
    assert broker.read(1) == [b"x"]
    assert len(broker.opened) == 2


def test_closing_leaves_a_broker_that_does_not_answer_to_itself(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread ends with the socket's timeout."""
    monkeypatch.setattr(fetcher, "_STOP_TIMEOUT_S", 0.01)
    broker.hang(1)
    broker.fetchers.close()
    assert not broker.hanging.let_go.is_set()


# Pauses ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [None, BrokerConnectionError("no broker"), RuntimeError("a bug")])
def test_a_fetcher_that_gets_nothing_pauses(
    open_broker: Callable[..., ScriptedBroker], error: Exception | None
) -> None:
    """It does not ask again and again, as one with a backoff of a millisecond does meanwhile."""
    patient, hasty = open_broker(PATIENT), open_broker()
    patient.unreachable = error
    patient.own()
    eventually(lambda: patient.asked)
    hasty.own()
    eventually(lambda: len(hasty.asked) > 20)
    assert len(patient.asked) <= 2  # one more if it was asked just while the partition was added


@pytest.mark.parametrize("error", [None, UnknownError("t-0")], ids=["out of range", "refused"])
def test_a_partition_that_cannot_be_fetched_now_is_left_alone(
    open_broker: Callable[..., ScriptedBroker], error: BrokerError | None
) -> None:
    """For the backoff, while others go on: though it is out of range, what was fetched of it waits to be consumed."""
    broker = open_broker(PATIENT, max_chunks=10)
    broker.logs = {0: log_of(b"a"), 1: log_of(*[b"x"] * 30)}
    owned = broker.own(0)
    eventually(lambda: owned.feed.fetch_offset == 11)
    broker.begins[0] = 33
    if error is not None:
        broker.fetch_errors[0] = error
    broker.own(1)
    eventually(lambda: owned.feed.is_postponed)
    asked = len(broker.asked)
    assert sorted(broker.read(31)) == [b"a", *[b"x"] * 30]
    eventually(lambda: (1, 330) in broker.asked[-1])
    assert all(partition == 1 for each in broker.asked[asked:] for partition, _ in each)
    assert broker.fetchers.counts.resets == 0


START_ERRORS = [WrongPartitionError("t-0"), NotConnected("away"), RuntimeError("a bug")]


@pytest.mark.parametrize("error", [None, *START_ERRORS])
def test_a_start_that_is_not_found_is_not_asked_for_at_once(
    open_broker: Callable[..., ScriptedBroker], error: Exception | None
) -> None:
    """Neither after an error nor when the broker says nothing; other starts are found in the same round."""
    broker = open_broker(PATIENT)
    broker.gate.clear()
    broker.own(2)
    eventually(lambda: broker.asked)
    broker.start_errors[0] = error
    without = broker.own(0, None)
    other = broker.own(1, None)
    broker.gate.set()
    eventually(lambda: without.feed.is_postponed)
    eventually(lambda: other.feed.fetch_offset == 0)
    broker.fetchers.wake()
    eventually(lambda: (1, 0) in broker.asked[-1])
    assert sorted(broker.starts_asked) == [0, 1]
    assert broker.fetchers.counts.fetch_errors == (error is not None)


def test_one_start_that_breaks_the_connection_is_enough_for_a_round(open_broker: Callable[..., ScriptedBroker]) -> None:
    """The broker may be away, so the others wait for the next one."""
    broker = open_broker(PATIENT)
    broker.gate.clear()
    broker.own(3)
    eventually(lambda: broker.asked)
    for number in range(3):
        broker.start_errors[number] = BrokerConnectionError("broken")
        broker.own(number, None)
    broker.gate.set()
    eventually(lambda: len(broker.asked) == 2)
    assert broker.starts_asked == [0]


# What is said and counted ---------------------------------------------------------------------------------------------


def test_a_failure_is_a_warning_again_after_it_was_over(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Each first one, of the broker and of a partition, and no repeat; all are counted."""
    caplog.set_level(logging.WARNING)
    broker.logs = {0: log_of(b"a", b"b")}
    broker.own()
    assert broker.read(2) == [b"a", b"b"]

    def fail_until(errors: int) -> None:
        eventually(lambda: broker.fetchers.counts.fetch_errors > errors)
        broker.unreachable = None
        broker.fetch_errors.clear()
        broker.logs[0] += log_of(b"c")
        assert broker.read(1) == [b"c"]

    for times in (1, 2):
        broker.fetch_errors[0] = UnknownError("t-0")
        fail_until(broker.fetchers.counts.fetch_errors + 3)
        assert caplog.text.count("fetching waits: t-0") == times
        broker.unreachable = BrokerConnectionError("no broker")
        fail_until(broker.fetchers.counts.fetch_errors + 3)
        assert caplog.text.count("fetching waits: no broker") == times


def test_a_fetch_that_fails_is_a_warning_after_a_start_was_found(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Finding the start again ended the failure before it."""
    caplog.set_level(logging.WARNING)
    broker.start_errors[0] = UnknownError("no start")
    broker.fetch_errors[0] = UnknownError("no fetch")
    broker.own(0, None)
    eventually(lambda: len(broker.starts_asked) > 3)
    assert not broker.asked
    del broker.start_errors[0]
    eventually(lambda: len(broker.asked) > 3)
    assert caplog.text.count("fetching waits: no start") == 1
    assert caplog.text.count("fetching waits: no fetch") == 1


def test_a_bug_is_logged_and_counted(broker: ScriptedBroker, caplog: pytest.LogCaptureFixture) -> None:
    """With its traceback, each time."""
    broker.unreachable = RuntimeError("a bug")
    broker.own()
    eventually(lambda: broker.fetchers.counts.fetch_errors >= 2)
    assert caplog.text.count("RuntimeError: a bug") >= 2


def test_fetchers_keep_no_process_alive(broker: ScriptedBroker) -> None:
    """An application that ends without closing its connector ends."""
    broker.own()
    [thread] = [each for each in threading.enumerate() if each.name == "fetcher of broker 0"]
    assert thread.daemon


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_message_larger_than_fetch_size_is_fetched_by_itself(
    open_broker: Callable[..., ScriptedBroker], partitions: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether the member lags or waits at the end; one warning names the setting."""
    broker = open_broker(SMALL)
    payloads = [b"a", b"x" * 100, b"b", b"y" * 200]
    for number in range(partitions):
        broker.own(number)
        broker.write(number, bytes(MessageSet(payloads)))
    assert sorted(broker.read(4 * partitions)) == sorted(payloads * partitions)
    assert caplog.text.count("has 110 bytes, and fetch.size is 30") == 1
    assert caplog.text.count("fetch.size is") == 1


def test_what_only_looks_like_a_large_message_is_an_error_of_the_stream(
    open_broker: Callable[..., ScriptedBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody asks for two gigabytes because of four damaged bytes."""
    monkeypatch.setattr(fetcher, "MAX_MESSAGE_BYTES", 109)
    broker = open_broker(SMALL)
    broker.own()
    broker.write(0, bytes(MessageSet([b"x" * 100])))
    with pytest.raises(InvalidMessageSizeError, match="needs 110"):
        broker.read(1)


@pytest.mark.parametrize("start", [0, None])
def test_a_partition_that_may_not_be_consumed_is_an_error_of_its_stream(
    open_broker: Callable[..., ScriptedBroker], start: int | None
) -> None:
    """Whether a fetch is refused or the request for a start; what may be consumed comes."""
    broker = open_broker()
    broker.fetch_errors[1] = broker.start_errors[1] = refused = NotAllowedError("not you")
    broker.write(0, log_of(b"a"))
    broker.own(0)
    broker.own(1, start)
    found: list[object] = []

    def read_on() -> bool:
        try:
            found.extend(message.payload for message in broker.stream)
        except NotAllowedError as error:
            found.append(error)
        return b"a" in found and found.count(refused) >= 2

    eventually(read_on)


def test_topics_that_a_filter_chose_are_skipped_where_they_may_not_be_consumed(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """With one warning; whoever wants all that there is does not want to end with the first that is not for him."""
    broker.fetchers.skips_refused = True
    broker.fetch_errors[1] = broker.fetch_errors[2] = NotAllowedError("not you")
    for number in range(3):
        broker.own(number)
    broker.write(0, log_of(b"a"))
    assert broker.read(1) == [b"a"]
    eventually(lambda: broker.fetchers.counts.as_dict()["fetch_errors"] >= 2)
    assert caplog.text.count("not you; other topics go on") == 1
