"""When a batch is ready, what is in it, and how much may wait."""

from __future__ import annotations

import threading

import pytest

from kafka2011.producer.broker_queue import BrokerQueue, Urgency
from kafka2011.producer.errors import ProducerClosedError, QueueFullError
from kafka2011.producer.parcel import Parcel, PartitionSet, Ticket
from kafka2011.producer.queue_bound import QueueBound
from zk.cluster import TopicPartition

HOUR_MS = 3_600_000
WAIT_S = 20.0


def parcel(messages: int = 1, key: str | None = "k", topic: str = "t") -> Parcel:
    return Parcel(Ticket(topic, key, messages, 1), TopicPartition("t", 0, 0), [b"x"] * messages, None, messages)


def a_queue(batch: int = 3, linger_ms: int = HOUR_MS, urgency: Urgency | None = None) -> BrokerQueue:
    return BrokerQueue(batch, linger_ms, urgency or Urgency())


def test_a_batch_is_cut_at_its_size() -> None:
    """Parcels stay whole, so a batch may be larger by one parcel."""
    queue = a_queue(batch=3)
    parcels = [parcel(2), parcel(2), parcel(1), parcel(1)]
    queue.put(parcels)
    assert queue.has_batch
    assert queue.take().parcels == parcels[:2]
    assert not queue.has_batch
    assert not queue.take()
    queue.close()
    assert queue.take(None).parcels == parcels[2:]
    assert not queue.take(None)


def test_what_lingers_goes_when_hurried() -> None:
    """Once, until the queue is empty."""
    queue = a_queue()
    queue.hurry()  # nothing is there to hurry
    queue.put([parcel()])
    assert not queue.take()
    queue.hurry()
    assert queue.take()
    queue.put([parcel()])
    assert not queue.take()


def test_nothing_lingers_while_somebody_waits() -> None:
    """Urgency is shared by all queues, for what is put later too."""
    urgency = Urgency()
    queue = a_queue(urgency=urgency)
    urgency.add(1)
    queue.put([parcel()])
    assert queue.take()
    urgency.add(-1)
    queue.put([parcel()])
    assert not queue.take()


def test_an_empty_set_is_taken_too() -> None:
    """A send of nothing, which creates its topic, does not wait for ever."""
    queue = a_queue(batch=1)
    queue.put([parcel(0)])
    assert len(queue.take(None).parcels) == 1


def test_moved_sets_come_first_and_at_once() -> None:
    """They are older than everything else."""
    queue = a_queue()
    queue.put([parcel()])
    moved = PartitionSet("t", TopicPartition("t", 0, 0), False, b"", [])
    queue.put_moved([moved])
    batch = queue.take(None)
    assert (batch.moved, len(batch.parcels)) == ([moved], 1)


def test_parcels_can_be_taken_out() -> None:
    """The others stay in order."""
    queue = a_queue()
    unkeyed, keyed, other = parcel(key=None), parcel(), parcel(key=None, topic="other")
    queue.put([unkeyed, keyed, other])
    assert queue.take_out(lambda each: each.ticket.key is None and each.ticket.topic == "t") == [unkeyed]
    assert queue.take_all().parcels == [keyed, other]


def test_a_waiting_taker_is_woken() -> None:
    """By a full batch, by hurry, and by close."""
    queue = a_queue(batch=2)
    batches: list[int] = []
    taken = threading.Semaphore(0)

    def take() -> None:
        while batch := queue.take(None):
            batches.append(len(batch.parcels))
            taken.release()

    taker = threading.Thread(target=take)
    taker.start()
    queue.put([parcel()])
    queue.put([parcel()])
    assert taken.acquire(timeout=WAIT_S)
    queue.put([parcel()])
    queue.hurry()
    assert taken.acquire(timeout=WAIT_S)
    queue.put([parcel()])
    queue.close()
    taker.join(WAIT_S)
    assert not taker.is_alive()
    assert batches == [2, 1, 1]
    with pytest.raises(ProducerClosedError):
        queue.put([parcel()])


def test_room_is_given_back_to_who_waits() -> None:
    """A send waits while there is no room, unless its timeout or the end of the producer comes first."""
    bound = QueueBound("broker 0", 3)
    bound.acquire(2, 0)
    for timeout_ms in (0, 1):
        with pytest.raises(QueueFullError, match=r"queue of broker 0 within .* queue\.size is 3"):
            bound.acquire(2, timeout_ms)
    waiter = threading.Thread(target=bound.acquire, args=(2, -1))
    waiter.start()
    bound.release(2)
    waiter.join(WAIT_S)
    assert not waiter.is_alive()
    assert bound.held == 2
    bound.close()
    with pytest.raises(ProducerClosedError):
        bound.acquire(2, -1)


def test_a_send_larger_than_the_queue_has_it_alone() -> None:
    """It is not refused for ever."""
    bound = QueueBound("broker 0", 3)
    bound.acquire(10, 0)
    with pytest.raises(QueueFullError):
        bound.acquire(1, 0)
    bound.release(10)
    bound.acquire(3, 0)
