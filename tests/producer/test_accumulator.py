"""Where messages wait, alone: when batches close, what bounds them, and who is woken. No sender, no sockets."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from kafka2011.config import ProducerConfig
from kafka2011.message.message_set import MessageSet
from kafka2011.producer import accumulator as accumulator_module
from kafka2011.producer.accumulator import Accumulator, BrokerQueue
from kafka2011.producer.batch import Batch
from kafka2011.producer.encoder import MAX_SET_BYTES
from kafka2011.producer.errors import ProducerClosedError, QueueFullError
from tests.support.clocks import ManualClock
from tests.support.waiting import eventually, is_waiting
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.producer.batch import SendFuture

pytestmark = pytest.mark.usefixtures("each_code")

ONE, TWO = TopicPartition("views", 0, 0), TopicPartition("views", 0, 1)
ELSEWHERE = TopicPartition("views", 1, 0)
WAIT_S = 20


class Accumulated:
    """An accumulator whose clock stands still, and the queues that it made."""

    def __init__(self, **settings: object) -> None:
        self.clock = ManualClock()
        self.made: list[BrokerQueue] = []
        properties = {
            "broker.list": "0:h:1",
            "producer.type": "async",
            "batch.size": 3,
            "queue.time": 100,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        config = ProducerConfig.from_properties(properties)
        self.accumulator = Accumulator(config, self.clock, self.made.append)

    def append(
        self,
        *payloads: bytes,
        where: TopicPartition = ONE,
        key: object = None,
        movable: bool = True,
        timeout_ms: int = 0,
    ) -> SendFuture:
        return self.accumulator.append(where, list(payloads), key, movable=movable, timeout_ms=timeout_ms)

    def append_set(self, *payloads: bytes, key: object = None, movable: bool = True) -> SendFuture:
        ready = MessageSet(payloads)
        return self.accumulator.append_set(ONE, ready, key, movable=movable, timeout_ms=0)

    def queue(self, broker_id: int = 0) -> BrokerQueue:
        return self.accumulator.queues[broker_id]

    def take(self, broker_id: int = 0) -> list[Batch]:
        return self.accumulator.take(self.queue(broker_id), 0)

    def taken(self, broker_id: int = 0) -> list[list[bytes]]:
        return [batch.payloads for batch in self.take(broker_id)]

    def wake_senders(self) -> None:
        """Have whoever waits for room look at the clock again."""
        with self.accumulator.lock:
            self.queue().has_room.notify_all()

    def room(self, broker_id: int = 0) -> tuple[int, int]:
        bound = self.queue(broker_id).bound
        return bound.room_messages, bound.room_bytes


def in_thread(call: Callable[[], object]) -> threading.Thread:
    """Start a call and return once its thread waits for something."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    eventually(lambda: is_waiting(thread))
    return thread


# When batches close


def test_a_batch_closes_when_it_is_full() -> None:
    """At batch.size messages; the rest waits in the next one."""
    made = Accumulated()
    first, second = made.append(b"a", b"b"), made.append(b"c")
    assert first is second
    assert not made.queue().open
    rest = made.append(b"d")
    assert rest is not first
    assert made.taken() == [[b"a", b"b", b"c"]]
    assert made.take() == []


@pytest.mark.parametrize(("extra_bytes", "at_once", "later"), [(0, 1000, 1), (1, 600, 402)])
def test_a_batch_closes_when_it_has_its_bytes(extra_bytes: int, at_once: int, later: int) -> None:
    """At max.message.size exactly; what does not fit begins another one, and closes the one before."""
    made = Accumulated(batch_size=100, max_message_size=1000)
    made.append(bytes(600))
    made.append(bytes(400 + extra_bytes))
    made.append(b"x")
    assert [sum(map(len, each)) for each in made.taken()] == [at_once]
    made.clock.now_s += 1
    assert [sum(map(len, each)) for each in made.taken()] == [later]


def test_a_batch_that_lacks_a_byte_stays_open() -> None:
    """It may still take a message of that size."""
    made = Accumulated(batch_size=100, max_message_size=1000)
    made.append(bytes(999))
    assert made.take() == []
    made.append(b"x")
    assert len(made.take()) == 1


def test_messages_without_a_key_go_on_in_the_open_batch_of_their_topic() -> None:
    """As far as batch and queue have room; otherwise the caller is to choose a partition."""
    made = Accumulated(batch_size=3, queue_size=5, queue_max_bytes=100, max_message_size=50)
    assert made.accumulator.append_unkeyed("views", [b"a"]) is None
    batch = made.append(b"a")
    assert made.accumulator.append_unkeyed("clicks", [b"b"]) is None
    assert made.accumulator.append_unkeyed("views", [b"b", b"c", b"d"]) is None
    assert made.accumulator.append_unkeyed("views", [bytes(50)]) is None
    assert made.accumulator.append_unkeyed("views", [b"b", b"c"]) is batch
    assert made.room()[0] == 2
    assert made.taken() == [[b"a", b"b", b"c"]]
    made.append(b"d")
    assert made.accumulator.append_unkeyed("views", [b"e", b"f"]) is None  # room in the batch, but not in the queue
    made.accumulator.end()
    with pytest.raises(ProducerClosedError):
        made.accumulator.append_unkeyed("views", [b"e"])


def test_one_payload_goes_on_in_the_open_batch_of_its_topic() -> None:
    """As far as batch and queue have room, to the last byte and message; a full batch closes."""
    made = Accumulated(batch_size=3, queue_size=5, max_message_size=50)
    append = made.accumulator.append_payload
    assert append("views", b"a") is None
    batch = made.append(b"a")
    assert append("clicks", b"b") is None
    assert append("views", bytes(50)) is None
    assert append("views", bytes(49)) is batch
    assert append("views", b"c") is None
    assert append("views", b"") is batch
    assert made.room()[0] == 2
    assert made.taken() == [[b"a", bytes(49), b""]]
    last = made.append(b"d")
    assert append("views", b"e") is last
    assert append("views", b"f") is None  # room in the batch, but not in the queue
    made.accumulator.end()
    assert append("views", b"g") is None


def test_a_long_list_becomes_batches_that_are_closed() -> None:
    """Also the last one, so that nothing of the list waits; one that just fits is appended to what is open."""
    made = Accumulated()
    made.append(b"a")
    future = made.append(b"b", b"c", b"d", b"e")
    assert made.taken() == [[b"a"], [b"b", b"c", b"d"], [b"e"]]
    assert not isinstance(future, Batch)
    just = made.append(b"f", b"g", b"h")
    assert isinstance(just, Batch)
    assert made.taken() == [[b"f", b"g", b"h"]]


def test_a_list_of_many_bytes_becomes_several_batches() -> None:
    """More than a megabyte, in however few messages; exactly that much is one."""
    made = Accumulated(batch_size=100, max_message_size=2 * MAX_SET_BYTES)
    half = bytes(MAX_SET_BYTES // 2)
    assert isinstance(made.append(half, half), Batch)
    assert len(made.take()) == 1
    assert not isinstance(made.append(half, half, b"x"), Batch)
    assert [len(each) for each in made.taken()] == [2, 1]


def test_every_batch_of_a_list_with_a_key_has_its_keys() -> None:
    """As many as payloads, for whoever is told of a failure."""
    made = Accumulated()
    made.append(b"a", b"b", b"c", b"d", key=7, movable=False)
    assert [(each.payloads, each.keys) for each in made.take()] == [([b"a", b"b", b"c"], [7] * 3), ([b"d"], [7])]


def test_another_partition_of_a_topic_begins_a_batch_and_closes_the_one_before() -> None:
    """Messages without a key have one open batch for each topic; others one for each partition."""
    made = Accumulated()
    made.append(b"a", where=ONE)
    made.append(b"b", where=TWO)
    assert made.taken() == [[b"a"]]
    made.append(b"c", where=ONE, key=1, movable=False)
    made.append(b"d", where=TWO, key=1, movable=False)
    assert made.take() == []
    made.append(b"e", where=TWO)
    made.clock.now_s += 1
    assert made.taken() == [[b"b", b"e"], [b"c"], [b"d"]]


def test_a_ready_set_is_a_batch_of_its_own_behind_what_came_before() -> None:
    """It is counted with its messages and its bytes, and has one key for all of it."""
    made = Accumulated(queue_size=10, queue_max_bytes=1000)
    made.append(b"a")
    made.append_set(b"b", b"c")
    [before, ready] = made.take()
    assert before.payloads == [b"a"]
    assert (ready.messages, ready.keys, ready.size_bytes) == (2, [], 22)
    assert made.room() == (7, 1000 - 1 - 22)
    made.append(b"d", key=1, movable=False)
    made.append_set(b"e", key=1, movable=False)
    [before, ready] = made.take()
    assert (before.payloads, ready.keys) == ([b"d"], [1])
    for batch in (before, ready):
        made.accumulator.release(batch)
    assert made.room() == (7, 1000 - 1 - 22)


def test_a_synchronous_send_is_a_closed_batch_at_once() -> None:
    """However many messages it has."""
    made = Accumulated(producer_type="sync")
    made.append(*[b"x"] * 10)
    assert [len(each) for each in made.taken()] == [10]


# Time


def test_a_batch_is_taken_when_its_time_has_come() -> None:
    """queue.time after its first message, not a moment sooner, the oldest first."""
    made = Accumulated()
    made.append(b"a", where=ONE, key=1, movable=False)
    made.clock.now_ms += 60
    made.append(b"b", where=TWO, key=1, movable=False)
    made.clock.now_ms += 39
    assert made.take() == []
    made.clock.now_ms += 1
    assert made.taken() == [[b"a"]]
    made.clock.now_ms += 60
    assert made.taken() == [[b"b"]]


def test_confirmation_has_its_time_from_the_moment_that_a_batch_closes() -> None:
    """However long it was open; without confirmation there is no such time."""
    made = Accumulated(confirm="true", confirm_timeout_ms=5000)
    made.append(b"a")
    made.clock.now_s = 10
    assert [batch.deadline_s for batch in made.take()] == [15]
    made = Accumulated()
    made.append(b"a", b"b", b"c")
    assert [batch.deadline_s for batch in made.take()] == [float("inf")]


def test_a_batch_has_no_more_time_than_the_end_leaves_it() -> None:
    """Whether it waited or was open; and no end gives one more than it has."""
    made = Accumulated(confirm="true", confirm_timeout_ms=5000)
    made.append(b"a", b"b", b"c")
    made.clock.now_s = 3
    made.append(b"d")
    made.accumulator.end(timeout_s=4)
    assert [batch.deadline_s for batch in made.take()] == [5, 7]
    made = Accumulated()
    made.append(b"a")
    made.accumulator.end()
    assert [batch.deadline_s for batch in made.take()] == [float("inf")]


def test_a_sender_is_woken_by_a_batch_that_closes() -> None:
    """It sleeps until then, or until the first open one is due; meanwhile others know until when it sleeps."""
    made = Accumulated()
    made.append(b"a")
    found: list[list[Batch]] = []
    sender = in_thread(lambda: found.append(made.accumulator.take(made.queue(), None)))
    assert made.queue().sleeps_until_s == 0.1
    made.append(b"b", b"c")
    sender.join(WAIT_S)
    assert [batch.payloads for [batch] in found] == [[b"a", b"b", b"c"]]
    assert made.queue().sleeps_until_s is None


def test_a_sender_sleeps_no_longer_than_it_wants_to() -> None:
    """As when a lost broker is to be tried again before any batch is due."""
    made = Accumulated()
    made.append(b"a")
    found: list[list[Batch]] = []
    sender = in_thread(lambda: found.append(made.accumulator.take(made.queue(), 0.01)))
    assert made.queue().sleeps_until_s == 0.01
    made.clock.now_s = 0.01
    sender.join(WAIT_S)
    assert found == [[]]


def test_a_batch_that_is_due_sooner_wakes_a_sender_that_would_sleep_longer() -> None:
    """As when the sender sleeps until a time that its caller chose, longer than queue.time."""
    made = Accumulated()
    made.append(b"a", b"b", b"c")
    made.take()
    queue = made.queue()
    queue.sleeps_until_s = 50.0
    woken = threading.Event()

    def sleep() -> None:
        with made.accumulator.lock:
            queue.has_work.wait(WAIT_S)
        woken.set()

    sleeper = in_thread(sleep)
    made.append(b"d")
    assert woken.wait(WAIT_S)
    sleeper.join(WAIT_S)


def test_taking_ends_with_the_queue() -> None:
    """A queue that is closing and empty gives nothing, at once."""
    made = Accumulated()
    made.append(b"a")
    made.accumulator.end()
    assert [batch.payloads for batch in made.accumulator.take(made.queue(), None)] == [[b"a"]]
    assert made.accumulator.take(made.queue(), None) == []


def test_what_is_taken_at_a_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """In batches, and about in bytes; the rest comes next."""
    monkeypatch.setattr(accumulator_module, "MAX_TAKEN_BATCHES", 4)
    made = Accumulated(batch_size=1)
    for number in range(9):
        made.append(b"%d" % number)
    assert [len(made.take()) for _ in range(3)] == [4, 4, 1]
    monkeypatch.setattr(accumulator_module, "MAX_TAKEN_BYTES", 10)
    for _ in range(5):
        made.append(bytes(5))
    assert [len(made.take()) for _ in range(3)] == [2, 2, 1]


# Room


def test_a_full_queue_says_what_it_holds() -> None:
    """Nothing of the send is queued."""
    made = Accumulated(queue_size=4)
    made.append(b"a", b"b", b"c")
    with pytest.raises(QueueFullError, match=r"no room for 2 messages .* broker 0 within 0 ms: 3 wait there"):
        made.append(b"d", b"e")
    assert made.room()[0] == 1
    made.append(b"d")
    assert made.room()[0] == 0


def test_what_has_ended_makes_room() -> None:
    """For messages and for bytes, exactly as much as it took."""
    made = Accumulated(batch_size=1, queue_size=4, queue_max_bytes=100)
    made.append(bytes(90))
    with pytest.raises(QueueFullError, match="no room for 1 messages"):
        made.append(bytes(11))
    made.append(bytes(10))
    assert made.room() == (2, 0)
    for batch in made.take():
        made.accumulator.release(batch)
        made.accumulator.done(batch)
    assert made.room() == (4, 100)
    assert not made.accumulator.open_batches


def test_whatever_is_sent_fits_into_an_empty_queue() -> None:
    """It is in memory anyhow."""
    made = Accumulated(queue_size=3, queue_max_bytes=10)
    made.append(*[bytes(30)] * 4)
    assert made.room() == (-1, -110)
    for batch in made.take():
        made.accumulator.release(batch)
    assert made.room() == (3, 10)


def test_a_send_that_waits_for_room_closes_what_is_open() -> None:
    """Else it would wait for queue.time, and for ever if that is long."""
    made = Accumulated(queue_size=3)
    made.append(b"a", b"b")
    with pytest.raises(QueueFullError):
        made.append(b"c", b"d")
    assert made.taken() == [[b"a", b"b"]]


def test_a_send_waits_for_room_as_long_as_it_may() -> None:
    """On the clock of the accumulator: a timeout of 800 ms is over after 800 ms, not before."""
    made = Accumulated(batch_size=1, queue_size=1)
    made.append(b"a")
    errors: list[QueueFullError] = []

    def send() -> None:
        try:
            made.append(b"b", timeout_ms=800)
        except QueueFullError as error:
            errors.append(error)

    sending = in_thread(send)
    made.clock.now_ms = 600
    made.wake_senders()
    eventually(lambda: is_waiting(sending))
    assert not errors
    made.clock.now_ms = 800
    made.wake_senders()
    sending.join(WAIT_S)
    assert len(errors) == 1
    assert made.queue().waiting_for_room == 0


@pytest.mark.parametrize("waits_ms", [-1, 60_000])
def test_a_send_that_waits_goes_on_when_there_is_room(waits_ms: int) -> None:
    """It is woken once a quarter of the queue is free, or nothing is left that would make more."""
    made = Accumulated(batch_size=1, queue_size=8)
    for number in range(8):
        made.append(b"%d" % number)
    batches = made.take()
    sent = threading.Event()

    def send() -> None:
        made.append(b"x", timeout_ms=waits_ms)
        sent.set()

    with made.accumulator.lock:
        made.queue().ready.append(batches[-1])  # something that has yet to be taken
    sending = in_thread(send)
    made.accumulator.release(batches[0])
    assert not sent.is_set()
    made.accumulator.release(batches[1])
    assert sent.wait(WAIT_S)
    sending.join(WAIT_S)
    assert made.queue().waiting_for_room == 0


def test_the_end_is_told_to_those_who_wait_for_room() -> None:
    """And nothing is taken in afterwards."""
    made = Accumulated(batch_size=1, queue_size=1)
    made.append(b"a")
    refused = threading.Event()

    def send() -> None:
        with pytest.raises(ProducerClosedError):
            made.append(b"b", timeout_ms=-1)
        refused.set()

    sending = in_thread(send)
    made.accumulator.end()
    assert refused.wait(WAIT_S)
    sending.join(WAIT_S)
    with pytest.raises(ProducerClosedError):
        made.append(b"c")
    assert made.taken() == [[b"a"]]


# Other brokers


def test_each_broker_has_a_queue_and_a_bound_of_its_own() -> None:
    """Made with the first batch for it."""
    made = Accumulated(queue_size=3)
    made.append(b"a", b"b", b"c")
    made.append(b"d", where=ELSEWHERE, key=1, movable=False)
    assert [queue.broker_id for queue in made.made] == [0, 1]
    assert (made.room(0)[0], made.room(1)[0]) == (0, 2)


def test_a_batch_that_moves_is_counted_where_it_goes() -> None:
    """And no more where it was, whatever the bound there."""
    made = Accumulated(queue_size=3, queue_max_bytes=100)
    made.append(b"a", b"b", b"c")
    [batch] = made.take()
    made.accumulator.move(batch, ELSEWHERE)
    assert (made.room(0), made.room(1)) == ((3, 100), (0, 97))
    assert batch.where == ELSEWHERE
    assert made.take(1) == [batch]
    made.accumulator.release(batch)
    assert (made.room(0), made.room(1)) == ((3, 100), (3, 100))


def test_open_batches_of_a_lost_broker_that_may_go_elsewhere_are_closed() -> None:
    """The others stay open: they wait for it."""
    made = Accumulated()
    made.append(b"a")
    made.append(b"b", key=1, movable=False)
    made.accumulator.close_movable(made.queue())
    assert made.taken() == [[b"a"]]
    assert [batch.payloads for batch in made.queue().open.values()] == [[b"b"]]


def test_a_sender_that_has_ended_is_replaced() -> None:
    """Unless something was moved to it meanwhile: then it goes on."""
    made = Accumulated(batch_size=1)
    made.append(b"a")
    queue = made.queue()
    assert not made.accumulator.retire(queue)
    made.take()
    assert made.accumulator.retire(queue)
    made.append(b"b")
    assert made.queue() is not queue
    assert made.made == [queue, made.queue()]


def test_a_queue_that_is_made_at_the_end_ends_too() -> None:
    """As when a batch is moved while the producer closes."""
    made = Accumulated(batch_size=1)
    made.append(b"a")
    [batch] = made.take()
    assert not made.queue().is_closing
    made.accumulator.end()
    made.accumulator.move(batch, ELSEWHERE)
    assert made.queue(0).is_closing
    assert made.queue(1).is_closing


def test_what_a_future_waits_for_is_known() -> None:
    """Its batches, until each has ended; so a caller that drives its own send knows which."""
    made = Accumulated()
    listed = made.append(b"a", b"b", b"c", b"d")
    other = made.append(b"e")
    batches = made.take()
    assert set(made.accumulator.unfinished(listed)) == set(batches)
    assert made.accumulator.unfinished(other) == [other]
    made.accumulator.done(batches[0])
    assert made.accumulator.unfinished(listed) == [batches[1]]
    assert made.accumulator.close_all() == {listed, other}
    assert made.taken() == [[b"e"]]
