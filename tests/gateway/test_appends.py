"""Appends to one partition through a broker in memory: what clients are told is what the log holds."""

from __future__ import annotations

import os
import time
import uuid
from typing import TYPE_CHECKING, Any

import gevent
import pytest

from kafka2011.errors import BrokerConnectionError, LogError
from kafka2011.gateway import appends, tail
from kafka2011.gateway.appends import Append, Appender
from kafka2011.gateway.numbering import senders
from kafka2011.gateway.numbering.partition_index import PartitionIndex
from kafka2011.gateway.partition_log import PartitionLog
from kafka2011.gateway.partitions import Served, await_current
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.records.batches import open_batches
from kafka2011.gateway.records.found import Origin
from kafka2011.gateway.records.layout import HEAD_BYTES
from kafka2011.gateway.records.wrappers import wrappers_of
from kafka2011.gateway.tail import BrokerTail
from kafka2011.message.message_set import MessageSet
from tests.models.gateway.toys import Steps, ToyAnchors, ToyFile
from tests.planted.patches import Defect, read_defects
from tests.support.broker_in_memory import BrokerInMemory, LinkInMemory
from tests.support.noticing import assert_noticed
from tests.support.record_batches import Record, batch_of, batches_in, read_batch
from zk.cluster import TopicPartition
from zk.number_floors import NumberFloors

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.gateway.numbering.stores import AnchorState

DEADLINE_S = 20.0
TOPIC_ID = uuid.UUID(int=7)


class Partition:
    """A partition in service, and what is sent to it."""

    def __init__(self) -> None:
        self.broker = BrokerInMemory()
        self.is_claimed = True
        self.file, self.anchors = ToyFile(Steps()), ToyAnchors(Steps())
        self.start()

    def start(self) -> None:
        links: Any = self.broker
        self.log = PartitionLog(
            TopicPartition("views", 0, 0), 3, TOPIC_ID, NumberFloors(), lambda: links, self._new_index, 1024 * 1024
        )
        self.tail = BrokerTail(links)
        self.appender = Appender(self.log, links, self.tail, lambda: self.is_claimed, DEADLINE_S)

    def _new_index(self, log: PartitionLog) -> PartitionIndex:
        return PartitionIndex(log, log.find_pieces, self.file, self.anchors)

    def restart(self) -> None:
        """Begin again with what was stored."""
        self.tail.stop()
        self.start()

    def send(
        self,
        *values: bytes,
        producer: tuple[int, int, int] = (-1, -1, -1),
        set_bytes: int = 1 << 18,
        timestamp: int = 0,
    ) -> Append:
        """Begin to append records of these values."""
        records = [Record(value, timestamp=timestamp) for value in values]
        (batch,) = open_batches(batch_of(records, producer=producer), 1 << 20)
        append = Append(
            [*wrappers_of(batch, TOPIC_ID.bytes, 3, lambda: os.urandom(8), set_bytes)],
            batch=Origin(*producer, len(values), os.urandom(8)) if producer[0] >= 0 else None,
        )
        self.appender.append(append)
        return append

    def wrapped(self, value: bytes, producer: tuple[int, int, int]) -> bytes:
        """Return what another gateway would store."""
        (batch,) = open_batches(batch_of([Record(value)], producer=producer), 1 << 20)
        [(wrapper, _)] = wrappers_of(batch, TOPIC_ID.bytes, 3, lambda: os.urandom(8))
        return wrapper

    def sent(
        self, *values: bytes, producer: tuple[int, int, int] = (-1, -1, -1), timestamp: int = 0
    ) -> tuple[ErrorCode, int]:
        """Append, and return what the client is told."""
        return told(self.send(*values, producer=producer, timestamp=timestamp))

    def values(self) -> dict[int, bytes | None]:
        """Return what a client reads, by number."""
        found: dict[int, bytes | None] = {}
        number = 0
        while records := self.log.records(number, 1 << 20):
            for data in batches_in(records):
                batch = read_batch(data)
                found |= {batch.base_offset + at: record.value for at, record in enumerate(batch.records)}
                number = batch.base_offset + batch.last_delta + 1
        return found


def eventually(condition: Callable[[], object]) -> None:
    ends_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < ends_s, "not in time"
        gevent.sleep(0.001)


def told(append: Append) -> tuple[ErrorCode, int]:
    assert append.done.wait(DEADLINE_S), "not answered in time"
    return append.error, append.first_number


@pytest.fixture(autouse=True, params=["bytes", "heads"])
def each_way_back(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all that was sent read back, or only heads of it, as of large sets."""
    monkeypatch.setattr(tail, "HEADS_FROM_BYTES", 1 if request.param == "heads" else 1 << 30)


def test_the_number_is_that_of_the_first_record_behind_what_others_have_appended(partition: Partition) -> None:
    partition.broker.append(bytes(MessageSet([b"2011", b"again"])))

    assert partition.sent(b"one", b"two") == (ErrorCode.NONE, 2)
    assert partition.sent(b"three") == (ErrorCode.NONE, 4)
    assert partition.values() == {0: b"2011", 1: b"again", 2: b"one", 3: b"two", 4: b"three"}


@pytest.fixture
def fetched(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how much each fetch of the partition's tail gets, which has just found a set of its own."""
    monkeypatch.setattr(tail, "HEADS_FROM_BYTES", 1)
    sizes: list[int] = []
    read = partition.broker.read

    def note(position: int, max_bytes: int) -> bytes:
        data = read(position, max_bytes)
        sizes.extend([len(data)] if data else [])
        return data

    assert partition.sent(b"first") == (ErrorCode.NONE, 0)
    monkeypatch.setattr(partition.broker, "read", note)
    return sizes


def test_of_what_was_sent_only_heads_are_read_back(partition: Partition, fetched: list[int]) -> None:
    values = [b"%d" % number * 400 for number in range(9)]
    sent = [partition.send(*values[at : at + 3], set_bytes=1000) for at in (0, 3, 6)]
    assert [told(append) for append in sent] == [(ErrorCode.NONE, number) for number in (1, 4, 7)]
    assert set(fetched) == {HEAD_BYTES}
    assert list(partition.values().values()) == [b"first", *values]


def test_heads_that_are_another_producers_are_followed_by_all_bytes(partition: Partition, fetched: list[int]) -> None:
    partition.broker.is_flushing = False
    partition.broker.append(partition.wrapped(b"other", producer=(7, 0, 0)))
    sent = [partition.send(b"%d" % number * 100) for number in range(2)]
    eventually(lambda: len(partition.broker.appends) == 3)
    partition.broker.append(bytes(MessageSet([b"2011"])))
    partition.broker.is_flushing = True
    partition.broker.flush()
    assert [told(append) for append in sent] == [(ErrorCode.NONE, 2), (ErrorCode.NONE, 3)]
    assert partition.values() == {0: b"first", 1: b"other", 2: b"0" * 100, 3: b"1" * 100, 4: b"2011"}
    assert fetched[0] == HEAD_BYTES < max(fetched)


def test_a_head_that_can_be_read_says_nothing_of_the_next_set(partition: Partition, fetched: list[int]) -> None:
    """A crash has cut a batch: the set in its middle is not there, and another producer's is."""
    values = [b"%d" % number * 400 for number in range(4)]

    def cut() -> None:
        partition.broker.after_append = lambda: None
        sets = [data for data, _ in append.sets]
        assert b"".join(sets) == partition.broker.appends[-1]
        sets[2] = partition.wrapped(b"other", producer=(7, 0, 0))
        partition.broker.unflushed = b"".join(sets)
        partition.broker.flush()
        partition.broker.is_flushing = True

    partition.broker.is_flushing = False
    partition.broker.after_append = cut
    append = partition.send(*values, set_bytes=1000)
    eventually(lambda: len(append.numbers) >= 3)
    assert not append.done.is_set()
    assert fetched[:2] == [HEAD_BYTES] * 2
    partition.broker.crash()
    assert told(append) == (ErrorCode.NONE, -1)
    assert [*partition.values().values()] == [b"first", *values[:2], b"other", values[3], values[2]]


def test_one_answer_has_what_came_one_by_one(partition: Partition) -> None:
    for value in (b"one", b"two", b"three"):
        partition.sent(value)

    def read(number: int, max_bytes: int) -> list[int]:
        return [read_batch(data).base_offset for data in batches_in(partition.log.records(number, max_bytes))]

    assert [read(number, 1 << 20) for number in range(4)] == [[0, 1, 2], [1, 2], [2], []]
    assert read(1, 1) == [1]
    size = len(partition.log.records(0, 1 << 20)) - len(partition.log.records(2, 1))
    assert read(0, size) == [0, 1]
    assert read(0, size - 1) == [0]


def test_what_is_not_readable_is_not_acknowledged(partition: Partition) -> None:
    partition.broker.is_flushing = False
    append = partition.send(b"one")
    while not partition.broker.appends:
        gevent.sleep(0)
    gevent.sleep(0)
    assert not append.done.is_set()

    partition.broker.is_flushing = True
    partition.broker.flush()
    assert told(append) == (ErrorCode.NONE, 0)


def test_what_a_crash_has_cut_is_sent_again(partition: Partition) -> None:
    partition.broker.is_flushing = False
    append = partition.send(b"one")
    while not partition.broker.appends:
        gevent.sleep(0)
    partition.broker.is_flushing = True
    partition.broker.crash()

    assert told(append) == (ErrorCode.NONE, 0)
    assert partition.values() == {0: b"one"}


def test_what_was_stored_although_the_connection_was_lost_counts_once(partition: Partition) -> None:
    def fail_once() -> None:
        partition.broker.after_append = lambda: None
        raise BrokerConnectionError("the connection was lost after the append")

    partition.broker.after_append = fail_once
    assert partition.sent(b"one") == (ErrorCode.NONE, 0)
    assert partition.sent(b"two")[0] is ErrorCode.NONE
    assert list(partition.values().values()) == [b"one", b"two"]


def test_a_repeat_of_an_idempotent_producer_is_answered_with_the_first_number(partition: Partition) -> None:
    assert partition.sent(b"a", b"b", producer=(9, 0, 0)) == (ErrorCode.NONE, 0)
    assert partition.sent(b"c", producer=(9, 0, 2)) == (ErrorCode.NONE, 2)
    appends = len(partition.broker.appends)

    assert partition.sent(b"a", b"b", producer=(9, 0, 0)) == (ErrorCode.NONE, 0)
    assert len(partition.broker.appends) == appends


def test_a_batch_whose_predecessor_may_still_come_is_to_be_sent_again(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told of a gap, a client would send everything again in a new epoch, also what is stored."""
    assert partition.sent(b"a", producer=(9, 0, 0)) == (ErrorCode.NONE, 0)
    for sequence in (2, 3, 2):
        assert partition.sent(b"late", producer=(9, 0, sequence)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert partition.sent(b"b", producer=(9, 0, 1)) == (ErrorCode.NONE, 1)
    assert partition.sent(b"c", producer=(9, 0, 2)) == (ErrorCode.NONE, 2)
    assert partition.sent(b"e", producer=(9, 0, 4)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    monkeypatch.setattr(appends, "GAP_S", 0.0)
    assert partition.sent(b"e", producer=(9, 0, 4)) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert list(partition.values().values()) == [b"a", b"b", b"c"]


def test_a_batch_does_not_overtake_the_first_of_its_producer(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a later one is stored, librdkafka takes the first one for stored: its records would be lost."""
    first, later = (7, 0, 0), (7, 0, 1)
    assert partition.sent(b"before") == (ErrorCode.NONE, 0)
    with monkeypatch.context() as patch:
        patch.setattr(appends, "SETTLE_S", 0.0)
        patch.setattr(BrokerTail, "want", lambda *_: None)
        partition.log.note_outage("the broker restarts")
        assert partition.sent(b"one", producer=first) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    await_current(Served(partition.log, partition.appender, partition.tail))
    assert partition.sent(b"two", producer=later) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert partition.sent(b"one", producer=first) == (ErrorCode.NONE, 1)
    assert partition.sent(b"two", producer=later) == (ErrorCode.NONE, 2)


def test_a_producer_that_is_forgotten_goes_on_after_a_moment(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway may know nothing of a producer that was idle for long."""
    assert partition.sent(b"two", producer=(7, 0, 1)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    monkeypatch.setattr(appends, "UNSEEN_S", 0.0)
    assert partition.sent(b"two", producer=(7, 0, 1)) == (ErrorCode.NONE, 0)


def test_each_gap_of_a_producer_has_its_time(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appends, "GAP_S", 0.2)
    assert partition.sent(b"a", producer=(9, 0, 0)) == (ErrorCode.NONE, 0)
    assert partition.sent(b"c", producer=(9, 0, 2)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    eventually(lambda: partition.sent(b"c", producer=(9, 0, 2))[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert partition.sent(b"b", producer=(9, 0, 1)) == (ErrorCode.NONE, 1)
    assert partition.sent(b"d", producer=(9, 0, 3)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_appends_end_at_once_when_the_claim_is_lost(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not only once the end of the log might be known: the client's next batches come to another appender."""
    monkeypatch.setattr(appends, "SETTLE_S", 10 * DEADLINE_S)
    partition.tail.stop()
    append = partition.send(b"one", producer=(9, 0, 0))
    gevent.sleep(0)
    partition.is_claimed = False
    partition.log.wake()
    assert told(append) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_batches_that_are_sent_before_the_first_is_answered_keep_their_order(partition: Partition) -> None:
    appends = [partition.send(b"%d" % number, producer=(9, 0, number)) for number in range(20)]
    repeat = partition.send(b"19", producer=(9, 0, 19))

    assert [told(append) for append in appends] == [(ErrorCode.NONE, number) for number in range(20)]
    assert told(repeat) == (ErrorCode.NONE, 19)
    assert list(partition.values().values()) == [b"%d" % number for number in range(20)]


def test_of_a_batch_that_was_cut_in_two_only_the_rest_is_appended(partition: Partition) -> None:
    values = [b"%d" % number * 400 for number in range(4)]
    first = partition.send(*values, producer=(9, 0, 0), set_bytes=1000)
    del first.sets[1:]  # as if a crash had kept only that
    first.batch = first.sets[0][1]
    assert told(first) == (ErrorCode.NONE, 0)
    stored = first.sets[0][1]
    assert stored is not None
    assert 0 < stored.records < len(values)

    again = partition.send(*values, producer=(9, 0, 0), set_bytes=1000)
    assert told(again) == (ErrorCode.NONE, -1)
    assert list(partition.values().values()) == values


def test_without_a_claim_nothing_is_sent(partition: Partition) -> None:
    assert partition.sent(b"one") == (ErrorCode.NONE, 0)
    partition.is_claimed = False
    assert partition.sent(b"two") == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert len(partition.broker.appends) == 1


def test_a_log_that_was_replaced_goes_on_above_all_numbers(partition: Partition) -> None:
    for number in range(3):
        assert partition.sent(b"old") == (ErrorCode.NONE, number)
    partition.broker.data = b""
    partition.broker.crash()

    error, number = partition.sent(b"new")
    assert error is ErrorCode.NONE
    assert number > 2
    assert partition.log.index().log_start().number > 2


def test_a_batch_that_was_stored_before_a_restart_is_not_appended_again(partition: Partition) -> None:
    assert partition.sent(b"a", producer=(9, 0, 0)) == (ErrorCode.NONE, 0)
    assert partition.sent(b"b", producer=(9, 0, 1)) == (ErrorCode.NONE, 1)
    partition.restart()

    assert partition.sent(b"b", producer=(9, 0, 1)) == (ErrorCode.NONE, 1)
    assert partition.sent(b"c", producer=(9, 0, 2)) == (ErrorCode.NONE, 2)
    assert len(partition.broker.appends) == 3


def test_the_number_of_a_repeat_is_that_of_the_first_copy(partition: Partition) -> None:
    """The bytes of a gateway that was killed may be stored after the new one has begun."""
    assert partition.sent(b"a", producer=(9, 0, 0)) == (ErrorCode.NONE, 0)
    late = partition.wrapped(b"b", producer=(9, 0, 1))
    partition.broker.is_flushing = False
    append = partition.send(b"b", producer=(9, 0, 1))
    while not partition.broker.appends[1:]:
        gevent.sleep(0)
    partition.broker.unflushed = late + partition.broker.unflushed
    partition.broker.is_flushing = True
    partition.broker.flush()

    assert told(append) == (ErrorCode.NONE, 1)
    assert partition.values() == {0: b"a", 1: b"b"}


@pytest.mark.parametrize(
    ("stored", "is_told"), [((9, 0, 0), (ErrorCode.NONE, 0)), ((9, 1, 0), (ErrorCode.INVALID_PRODUCER_EPOCH, -1))]
)
def test_what_another_gateway_has_stored_meanwhile_comes_first(
    partition: Partition,
    monkeypatch: pytest.MonkeyPatch,
    stored: tuple[int, int, int],
    is_told: tuple[ErrorCode, int],
) -> None:
    """A copy of the batch, or one of a newer epoch, behind which it does not count."""
    append, late = partition.broker.append, [partition.wrapped(b"first", producer=stored)]

    def append_behind(data: bytes) -> None:
        while late:
            append(late.pop())
        append(data)

    monkeypatch.setattr(partition.broker, "append", append_behind)
    assert partition.sent(b"second", producer=(9, 0, 0)) == tuple(is_told)
    assert partition.values() == {0: b"first"}


def test_a_client_is_not_told_that_nothing_was_stored_once_something_was_sent(partition: Partition) -> None:
    """NOT_LEADER_OR_FOLLOWER says that."""
    partition.broker.is_flushing = False

    def lose_claim() -> None:
        partition.is_claimed = False

    partition.broker.after_append = lose_claim
    assert partition.sent(b"one") == (ErrorCode.REQUEST_TIMED_OUT, -1)


def test_a_claim_that_is_lost_while_the_end_is_looked_up_counts(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    want = partition.tail.want

    def fail() -> None:
        partition.log.note_outage("the broker is away")
        raise BrokerConnectionError("the connection was lost")

    def want_and_lose_claim(log: PartitionLog) -> None:
        want(log)
        partition.is_claimed = not partition.broker.appends

    partition.broker.is_flushing = False
    partition.broker.after_append = fail
    monkeypatch.setattr(partition.tail, "want", want_and_lose_claim)
    assert partition.sent(b"one") == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert len(partition.broker.appends) == 1


@pytest.mark.parametrize("producer", [(9, 0, 0), (-1, -1, -1)])
def test_nothing_is_appended_before_the_end_of_the_log_is_known(
    partition: Partition, monkeypatch: pytest.MonkeyPatch, producer: tuple[int, int, int]
) -> None:
    """A sequence may be there already, and what cannot be found would be sent again."""
    monkeypatch.setattr(appends, "SETTLE_S", 0.0)
    partition.tail.stop()
    assert partition.sent(b"one", producer=producer) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert partition.broker.appends == []


def test_however_many_are_sent_again_they_count_once(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    broker, send = partition.broker, LinkInMemory.send
    broker.is_flushing = False
    lost: list[int] = []

    def send_and_lose(link: LinkInMemory, *frames: bytes) -> None:
        appends = len(broker.appends)
        send(link, *frames)
        if len(broker.appends) >= 400 and not lost:
            lost.append(len(frames))
            raise BrokerConnectionError("the connection was lost after the append")
        if len(broker.appends) > appends:
            broker.flush()

    monkeypatch.setattr(LinkInMemory, "send", send_and_lose)
    monkeypatch.setattr(senders, "MOST_MARKS", 256)
    monkeypatch.setattr(appends, "MOST_SETS", 128)
    made = [partition.send(b"%d" % number) for number in range(400)]
    assert [told(append)[0] for append in made] == [ErrorCode.NONE] * 400
    assert lost
    assert partition.sent(b"last")[0] is ErrorCode.NONE
    assert list(partition.values().values()) == [*(b"%d" % number for number in range(400)), b"last"]


def test_what_comes_while_others_are_not_readable_yet_is_sent_at_once(partition: Partition) -> None:
    partition.broker.is_flushing = False
    first = partition.send(b"one", producer=(9, 0, 0))
    eventually(lambda: partition.broker.appends)
    second = partition.send(b"two", producer=(9, 0, 1))
    eventually(lambda: partition.broker.appends[1:])
    assert not first.done.is_set()

    partition.broker.is_flushing = True
    partition.broker.flush()
    assert [told(first), told(second)] == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 1)]


def test_a_repeat_of_what_is_under_way_is_not_sent(partition: Partition) -> None:
    """Not even after the connection was lost."""
    partition.broker.is_flushing = False
    appends = [partition.send(b"one", producer=(9, 0, 0)) for _ in range(2)]
    while not partition.broker.appends:
        gevent.sleep(0)
    partition.broker.is_flushing = True
    partition.broker.crash()
    assert [told(append) for append in appends] == [(ErrorCode.NONE, 0)] * 2
    assert len(partition.broker.appends) == 2  # the first one was lost


def test_a_set_that_is_too_large_for_the_broker_alone_is_refused(partition: Partition) -> None:
    partition.broker.max_bytes = 1000
    large = partition.send(b"x" * 2000, producer=(9, 0, 0))
    small = partition.send(b"one", producer=(10, 0, 0))
    assert told(large) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
    assert "max.message.size" in large.text
    assert told(small) == (ErrorCode.NONE, 0)
    assert list(partition.values().values()) == [b"one"]


def test_what_fails_with_the_broker_counts_as_no_refusal(partition: Partition) -> None:
    """The connection to the tail is another one each time."""
    crashes = 4

    def crash() -> None:
        nonlocal crashes
        crashes -= 1
        if crashes >= 0:
            partition.broker.crash()
            raise BrokerConnectionError("the broker has crashed")

    partition.broker.is_flushing = False
    partition.broker.after_append = crash
    append = partition.send(b"one")
    eventually(lambda: crashes < 0)
    partition.broker.is_flushing = True
    partition.broker.flush()
    assert told(append) == (ErrorCode.NONE, 0)


def test_what_nobody_waits_for_is_sent_without_a_look_at_the_log(partition: Partition) -> None:
    partition.tail.stop()
    append = Append([(bytes(MessageSet([b"one"])), None)], is_acknowledged=False)
    partition.appender.append(append)
    assert told(append) == (ErrorCode.NONE, -1)
    assert len(partition.broker.appends) == 1
    assert not partition.log.wanted_until_s


def test_an_index_over_which_another_gateway_has_written_is_opened_again(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or which was written, and the answer was lost: then ZooKeeper has another version than is known here."""
    assert partition.sent(b"one") == (ErrorCode.NONE, 0)
    load, store = partition.anchors.load, partition.anchors.store
    is_known = False

    def load_and_know() -> AnchorState | None:
        nonlocal is_known
        is_known = True
        return load()

    def store_if_known(state: AnchorState) -> None:
        if not is_known:
            raise LogError("another gateway has written")
        store(state)

    monkeypatch.setattr(partition.anchors, "load", load_and_know)
    monkeypatch.setattr(partition.anchors, "store", store_if_known)
    with pytest.raises(LogError):
        partition.log.store()
    assert partition.sent(b"two") == (ErrorCode.NONE, 1)
    assert is_known
    partition.log.store()
    assert partition.values() == {0: b"one", 1: b"two"}


def test_bytes_are_taken_only_where_they_were_read(partition: Partition) -> None:
    """While they were fetched, the index may have been moved to another place."""
    partition.log.take(100, bytes(MessageSet([b"one"])))
    assert partition.log.index().end == (0, 0)


def test_what_fails_unexpectedly_is_answered(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    assert partition.sent(b"one") == (ErrorCode.NONE, 0)

    def fail() -> None:
        raise RuntimeError("a defect")

    with monkeypatch.context() as patch:
        patch.setattr(partition.log, "index", fail)
        assert partition.sent(b"two") == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert partition.sent(b"three") == (ErrorCode.NONE, 1)


DEFECTS = [defect for defect in read_defects("gateway_server").values() if "file" not in defect.shows]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test that it names fails with it."""
    monkeypatch.setitem(globals(), "DEADLINE_S", 0.7)
    assert_noticed(defect, globals()[defect.shows["noticed_by"]], request)
