"""The forwarder: what it sends, what it leaves out, and what may be committed by then."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from contextlib import nullcontext
from typing import TYPE_CHECKING, cast

import pytest

from kafka2011.consumer.feed import StoredSet
from kafka2011.consumer.stream import MessageStream
from kafka2011.errors import KafkaError
from kafka2011.message.message_set import Message, MessageSet, encode
from kafka2011.mirror import commit_window, forwarder
from kafka2011.mirror.forwarder import Forwarder, MirrorError
from kafka2011.producer.batch import Receipt
from kafka2011.producer.errors import SetRefusedError
from tests.support.clocks import ManualClock
from tests.support.leases import LeaseInMemory
from tests.support.waiting import eventually
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafka2011.consumer.feed import Chunk
    from kafka2011.mirror.target import Target

ONE = 11  # bytes of a message with one byte of payload
WAIT_S = 20
WHERE = TopicPartition("views", 0, 0)
LARGEST = 100


class TargetInMemory:
    """Takes sets; confirms them when told, at once by default, and refuses those with certain payloads."""

    max_payload_bytes = LARGEST

    def __init__(self) -> None:
        self.confirms_at_once = True
        self.brokers = 1
        self.away: set[int] = set()
        self.refused: set[bytes] = set()
        self.sent: list[tuple[str, list[bytes], TopicPartition | None]] = []
        self.futures: list[Future[Receipt]] = []

    def partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition(topic, 7 + number, 0) for number in range(self.brokers))

    def send(self, topic: str, message_set: MessageSet, partition: TopicPartition | None) -> Future[Receipt]:
        future: Future[Receipt] = Future()
        payloads = list(message_set)
        if self.refused & set(payloads):
            future.set_exception(SetRefusedError("it refuses the set"))
            return future
        self.sent.append((topic, payloads, partition))
        self.futures.append(future)
        if self.confirms_at_once and (partition is None or partition.broker_id not in self.away):
            self.confirm(future)
        return future

    def confirm(self, future: Future[Receipt]) -> None:
        future.set_result(Receipt("views", 7, 0, 1, True, 0))

    @property
    def payloads(self) -> list[bytes]:
        return [payload for _, payloads, _ in self.sent for payload in payloads]


class CounterInMemory:
    """Counts; while it is `full` it wants to report first, which fails while `reports` is False."""

    def __init__(self) -> None:
        self.counted: list[tuple[int, bytes]] = []
        self.reported = 0
        self.full = False
        self.reports = True

    def count_messages(self, messages: Sequence[Message]) -> None:
        assert {message[:3] for message in messages} == {WHERE}
        self.counted += [(message.offset, message.payload) for message in messages]
        if self.full:
            self.report()

    def report(self) -> None:
        if not self.reports:
            raise KafkaError("not confirmed")
        self.reported = len(self.counted)


class Gone:
    """A chunk of a partition that is given up once somebody has asked so many times."""

    def __init__(self, asked: int) -> None:
        self._left = asked

    @property
    def is_current(self) -> bool:
        self._left -= 1
        return self._left >= 0


class Rig:
    def __init__(
        self,
        *,
        window_bytes: int = 10**6,
        brokers: int = 1,
        to_topic: str | None = None,
        skip_refused: bool = False,
        counter: CounterInMemory | None = None,
    ) -> None:
        self.target = TargetInMemory()
        self.target.brokers = brokers
        self.stop = threading.Event()
        self.failures: list[Exception] = []
        self.position = 0
        self.forwarder = Forwarder(
            cast("Target", self.target),
            lambda topic: [TopicPartition(topic, 0, number) for number in range(brokers)],
            stop=self.stop,
            failed=lambda _, error: self.failures.append(error),
            window_bytes=window_bytes,
            to_topic=to_topic,
            skip_refused=skip_refused,
            counter=counter,
        )

    def forward(self, data: bytes | Iterable[bytes], *, gone_after: int | None = None) -> None:
        data = data if isinstance(data, bytes) else bytes(MessageSet(data))
        offset, self.position = self.position, self.position + len(data)
        chunk = None if gone_after is None else cast("Chunk", Gone(gone_after))
        self.forwarder.forward(StoredSet(*WHERE, offset, self.position, data, chunk))


def test_a_set_is_committed_once_it_is_confirmed() -> None:
    """To the partition that its own is paired with."""
    rig = Rig()
    rig.target.confirms_at_once = False
    rig.forward([b"a", b"b"])
    assert rig.target.sent == [("views", [b"a", b"b"], TopicPartition("views", 7, 0))]
    assert rig.forwarder.due(WAIT_S) == {}
    rig.target.confirm(rig.target.futures[0])
    assert rig.forwarder.due(WAIT_S) == {WHERE: 2 * ONE}
    assert rig.forwarder.counts.as_dict() == {
        "sets": 1,
        "messages": 2,
        "bytes": 2 * ONE,
        "skipped": 0,
        "skipped_bytes": 0,
        "repeated_bytes": 0,
    }


def test_it_may_go_to_another_topic() -> None:
    """As in a replay."""
    rig = Rig(to_topic="copy")
    rig.forward([b"a"])
    assert rig.target.sent == [("copy", [b"a"], TopicPartition("copy", 7, 0))]


def test_it_waits_for_room_until_something_is_confirmed() -> None:
    """The window bounds what a target that is away keeps in memory."""
    rig = Rig(window_bytes=4000)
    rig.target.confirms_at_once = False
    rig.forward([b"a"])
    thread = threading.Thread(target=rig.forward, args=([b"b"],), daemon=True)
    thread.start()
    eventually(lambda: rig.position == 2 * ONE)
    assert rig.target.payloads == [b"a"]
    rig.target.confirm(rig.target.futures[0])
    thread.join(WAIT_S)
    assert rig.target.payloads == [b"a", b"b"]


def test_a_broker_that_is_away_stops_only_what_goes_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set for which there is no room is put back, and comes again once the broker confirms something."""
    monkeypatch.setattr(commit_window, "STUCK_S", 0.0)
    rig = Rig(window_bytes=4000, brokers=2)
    rig.target.away.add(7)
    stream = MessageStream("m-0", max_chunks=9, timeout_ms=0, shallow=False, clock=ManualClock())
    away, other = (stream.feed(TopicPartition("views", 0, number), LeaseInMemory(1000)) for number in range(2))
    logs = {away: encode(b"a") * 4, other: encode(b"b") * 4}
    away.start_at(0)
    other.start_at(0)

    def forward_all() -> None:
        for feed in (away, other):
            while (fetch := feed.reserve()) is not None and fetch[0] < len(logs[feed]):
                feed.deliver(fetch[1], fetch[0], logs[feed][fetch[0] : fetch[0] + ONE])
            feed.recall()
        for stored in stream.sets():
            rig.forwarder.forward(stored)

    forward_all()
    forward_all()
    assert rig.target.payloads == [b"a", *[b"b"] * 4]
    assert rig.forwarder.due(WAIT_S) == {other.where: 4 * ONE}
    rig.target.away.clear()
    rig.target.confirm(rig.target.futures[0])
    forward_all()
    assert rig.target.payloads == [b"a", *[b"b"] * 4, *[b"a"] * 3]
    assert rig.forwarder.due(WAIT_S)[away.where] == 4 * ONE


def test_of_a_set_that_is_put_back_only_the_rest_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sent of it stays sent, and what comes after that is left out once."""
    monkeypatch.setattr(commit_window, "STUCK_S", 0.0)
    rig = Rig(window_bytes=4000, brokers=2, skip_refused=True)
    rig.target.away.add(7)
    stream = MessageStream("m-0", max_chunks=9, timeout_ms=0, shallow=False, clock=ManualClock())
    feed = stream.feed(WHERE, LeaseInMemory(1000))
    bad = BAD["too-large"][0]
    log = encode(b"a") + bad + encode(b"b") + bad
    feed.start_at(0)
    for _ in range(2):
        fetch = feed.reserve()
        assert fetch is not None
        feed.deliver(fetch[1], fetch[0], log[fetch[0] :])
        rig.forwarder.forward(next(stream.sets()))
        if not rig.target.futures[0].done():
            assert rig.forwarder.counts.skipped == 1
            rig.target.away.clear()
            rig.target.confirm(rig.target.futures[0])
    assert rig.target.payloads == [b"a", b"b"]
    assert rig.forwarder.due(WAIT_S) == {WHERE: len(log)}
    assert rig.forwarder.counts.skipped == 2


def test_the_end_stops_whoever_waits_for_room() -> None:
    """And nothing is sent after it."""
    rig = Rig(window_bytes=4000)
    rig.target.confirms_at_once = False
    rig.forward([b"a"])
    thread = threading.Thread(target=rig.forward, args=([b"b"],), daemon=True)
    thread.start()
    rig.stop.set()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    rig.forward([b"c"])
    assert rig.target.payloads == [b"a"]


def test_what_belongs_to_another_by_now_is_not_sent() -> None:
    """It is left to the new owner, and moves no offset."""
    rig = Rig()
    rig.forward([b"a"], gone_after=0)
    assert rig.target.sent == []
    assert rig.forwarder.due(WAIT_S) == {}


def test_what_goes_to_another_while_it_is_sent_moves_no_offset() -> None:
    """The new owner sends it again, so it counts as repeated."""
    rig = Rig()
    rig.forward([b"a"], gone_after=1)
    assert rig.target.payloads == [b"a"]
    assert rig.forwarder.due(WAIT_S) == {}
    assert rig.forwarder.counts.repeated_bytes == ONE


def test_a_partition_that_goes_is_not_committed_by_what_is_confirmed_late() -> None:
    """What was sent of it may come twice, which is counted."""
    rig = Rig()
    rig.target.confirms_at_once = False
    rig.forward([b"a"])
    rig.forward([b"b"])
    rig.target.confirm(rig.target.futures[1])
    rig.forwarder.drop([WHERE])
    rig.target.confirm(rig.target.futures[0])
    assert rig.forwarder.due(WAIT_S) == {}
    assert rig.forwarder.counts.repeated_bytes == 2 * ONE


BAD = {
    "too-large": (encode(b"x" * (LARGEST + 1)), "exceeds max.message.size 100"),
    "corrupt": (encode(b"x")[:-1] + b"y", "CRC differs"),
}


@pytest.mark.parametrize(("bad", "why"), BAD.values(), ids=BAD)
def test_what_the_target_would_refuse_stops_it(bad: bytes, why: str) -> None:
    """The error names topic, partition and offset; what stands before it was sent."""
    rig = Rig()
    with pytest.raises(MirrorError, match=rf"{len(bad)} bytes at offset {ONE} of views/0-0: .*{why}"):
        rig.forward(encode(b"a") + bad + encode(b"b"))
    assert rig.target.payloads == [b"a"]
    assert rig.forwarder.due(WAIT_S) == {WHERE: ONE}


@pytest.mark.parametrize(("bad", "why"), BAD.values(), ids=BAD)
def test_what_the_target_would_refuse_can_be_left_out(bad: bytes, why: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged and counted, and all around it passes."""
    rig = Rig(skip_refused=True)
    rig.forward(encode(b"a") + bad + encode(b"b"))
    assert rig.target.payloads == [b"a", b"b"]
    assert rig.forwarder.due(WAIT_S) == {WHERE: rig.position}
    assert (rig.forwarder.counts.skipped, rig.forwarder.counts.skipped_bytes) == (1, len(bad))
    assert why in caplog.text
    rig.forward(bad)
    assert rig.forwarder.due(WAIT_S) == {WHERE: rig.position}, "the last message of a partition too"


def test_a_topic_that_cannot_be_made_is_refused_by_name() -> None:
    """A broker of 0.7 may have one."""
    rig = Rig(to_topic="a b")
    with pytest.raises(MirrorError, match="of views/0-0: topic 'a b' is not a name"):
        rig.forward([b"a"])


def test_a_set_that_a_broker_refuses_is_an_error_that_stops_the_commit() -> None:
    """Of its partition, however much is confirmed after it."""
    rig = Rig()
    rig.target.refused = {b"b"}
    rig.forward([b"a", b"b"])
    rig.forward([b"c"])
    assert rig.forwarder.due(WAIT_S) == {}
    [failure] = rig.failures
    assert str(failure).startswith("a set of 2 messages, 22 bytes, at offset 0 of views/0-0: it refuses the set")


def test_nothing_of_a_halted_partition_is_sent_or_committed_beyond_the_failure() -> None:
    """What was confirmed before is committed; other partitions are not touched; after a drop it starts afresh."""
    rig = Rig()
    rig.target.refused = {b"b"}
    rig.target.confirms_at_once = False
    rig.forward([b"a"])
    rig.forward([b"b"])
    rig.forward([b"c"])
    rig.target.confirm(rig.target.futures[0])
    assert rig.forwarder.due(WAIT_S) == {WHERE: ONE}
    assert len(rig.failures) == 1
    assert rig.forwarder.counts.repeated_bytes == 2 * ONE
    rig.forward([b"d"])
    assert rig.target.payloads == [b"a", b"c"]
    other = TopicPartition("clicks", 0, 0)
    rig.forwarder.forward(StoredSet(*other, 0, ONE, encode(b"x")))
    for future in rig.target.futures[1:]:
        rig.target.confirm(future)
    assert rig.forwarder.due(WAIT_S) == {WHERE: ONE, other: ONE}
    rig.forwarder.drop([WHERE])
    rig.target.refused = set()
    rig.target.confirms_at_once = True
    rig.position = ONE
    rig.forward([b"b"])
    assert rig.forwarder.due(WAIT_S) == {WHERE: 2 * ONE, other: ONE}


def test_only_the_message_that_a_broker_refuses_is_left_out() -> None:
    """The others of its set are sent again, and may be committed."""
    rig = Rig(skip_refused=True)
    rig.target.refused = {b"c", b"f"}
    rig.forward([b"a", b"b", b"c", b"d", b"e"])
    rig.forward([b"f"])
    rig.forward([b"g"])
    assert rig.forwarder.due(WAIT_S) == {WHERE: rig.position}
    assert sorted(rig.target.payloads) == [b"a", b"b", b"d", b"e", b"g"]
    assert rig.forwarder.counts.skipped == 2
    assert rig.forwarder.counts.messages == 5
    assert not rig.failures


def test_the_audit_is_told_before_anything_is_due() -> None:
    """It counts what the target has confirmed, opened, and nothing else."""
    counter = CounterInMemory()
    rig = Rig(counter=counter, skip_refused=True)
    rig.target.refused = {b"b"}
    rig.forward([b"a", b"b", b"c"])
    assert rig.forwarder.due(WAIT_S) == {WHERE: 3 * ONE}
    assert counter.counted == [(0, b"a"), (2 * ONE, b"c")]
    assert counter.reported == 2


def test_nothing_is_due_that_the_audit_was_not_told() -> None:
    """When reports do not arrive, offsets stay; later the same counts are reported."""
    counter = CounterInMemory()
    counter.reports = False
    rig = Rig(counter=counter)
    rig.forward([b"a"])
    with pytest.raises(KafkaError, match="not confirmed"):
        rig.forwarder.due(WAIT_S)
    counter.reports = True
    assert rig.forwarder.due(WAIT_S) == {WHERE: ONE}
    assert (counter.counted, counter.reported) == ([(0, b"a")], 1)


@pytest.mark.parametrize("reports", [True, False])
def test_another_thread_may_settle_after_an_answer(*, reports: bool) -> None:
    """And after an error too."""
    counter = CounterInMemory()
    counter.reports = reports
    rig = Rig(counter=counter)
    rig.forward([b"a"])
    with nullcontext() if reports else pytest.raises(KafkaError, match="not confirmed"):
        rig.forwarder.due(WAIT_S)
    thread = threading.Thread(target=rig.forwarder.settle, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    assert not thread.is_alive()


def test_a_full_counter_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it has reported, and who wants to commit meanwhile is told after a while."""
    monkeypatch.setattr(forwarder, "_REPORT_AGAIN_S", 0.01)
    counter = CounterInMemory()
    counter.full, counter.reports = True, False
    rig = Rig(counter=counter)
    rig.forward([b"a"])
    rig.forward([b"b"])
    thread = threading.Thread(target=rig.forwarder.settle, daemon=True)
    thread.start()
    eventually(lambda: counter.counted)
    with pytest.raises(KafkaError, match="has to confirm is waited for"):
        rig.forwarder.due(0.01)
    assert counter.counted == [(0, b"a")]
    counter.reports = True
    thread.join(WAIT_S)
    assert counter.counted == [(0, b"a"), (ONE, b"b")]
    assert rig.forwarder.due(WAIT_S) == {WHERE: 2 * ONE}
