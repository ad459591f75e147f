"""MessageStream alone: what it hands out, what counts as consumed, and how a partition is given up."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, cast

import pytest

from kafka2011.consumer.feed import RESTART_PAUSE_S, PartitionFeed, State
from kafka2011.consumer.owned_partition import OwnedPartition
from kafka2011.consumer.stream import BATCH_MESSAGES, LOOK_INTERVAL_S, MessageStream
from kafka2011.errors import (
    InvalidMessageError,
    InvalidMessageSizeError,
    KafkaError,
    MissingExtraError,
    NotAllowedError,
)
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import Message, MessageSet, decode, decode_shallow, encode
from tests.support.clocks import ManualClock
from tests.support.leases import LeaseInMemory
from tests.support.waiting import eventually, is_waiting
from zk.clock import SYSTEM_CLOCK
from zk.cluster import Broker, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from kafka2011.consumer.group_registries import GroupSession

WAIT_S = 20
ONE = 11  # bytes of a message with one byte of payload


class Rig(ManualClock):
    """A stream with a clock that a test moves by hand, and logs to fetch from."""

    def __init__(self, *, max_chunks: int = 10, timeout_ms: int = 0, shallow: bool = False) -> None:
        super().__init__(now_s=10.0)
        self.lease = LeaseInMemory(until_s=1000)
        self.rooms_made = 0
        self.stream = MessageStream(
            "g_m-0",
            max_chunks=max_chunks,
            timeout_ms=timeout_ms,
            shallow=shallow,
            clock=self,
            room_made=self.make_room,
        )

    def make_room(self) -> None:
        self.rooms_made += 1

    def own(self, number: int = 0, start: int = 0, *, broker_id: int = 0) -> PartitionFeed:
        feed = self.stream.feed(TopicPartition("t", broker_id, number), self.lease)
        feed.start_at(start)
        return feed

    def fetch(self, feed: PartitionFeed, data: bytes) -> bool:
        """Deliver what a fetch brought, if one is to be made."""
        reserved = feed.reserve()
        if reserved is None:
            return False
        offset, epoch = reserved
        feed.deliver(epoch, offset, data)
        return True

    def release(self, feed: PartitionFeed, wait_s: float = 0.0) -> None:
        feed.begin_release()
        feed.end_release(self.now_s + wait_s)


def messages(payloads: Iterable[bytes], codec: Codec = Codec.NONE) -> bytes:
    return bytes(MessageSet(payloads, codec))


def payloads(stream: MessageStream) -> list[bytes]:
    return [message.payload for message in stream]


def in_thread(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


# Consumed ------------------------------------------------------------------------------------------------------------


def test_a_message_is_consumed_when_the_application_comes_back() -> None:
    """Not when it was fetched, and not while it is in hand."""
    rig = Rig()
    feed = rig.own()
    rig.fetch(feed, messages([b"a", b"b"]))
    assert (feed.fetch_offset, feed.consumed_offset) == (2 * ONE, 0)
    assert next(rig.stream).offset == 0
    assert feed.consumed_offset == 0
    assert next(rig.stream).offset == ONE
    assert feed.consumed_offset == ONE
    with pytest.raises(StopIteration):
        next(rig.stream)
    assert feed.consumed_offset == 2 * ONE
    assert rig.stream.delivered_messages == 2


def test_whoever_asks_is_seen_to_ask() -> None:
    """Each message that is handed out is progress, and each question, answered or not, and nothing else is."""
    rig = Rig()
    stream = rig.stream
    rig.fetch(rig.own(), messages([b"a", b"b", b"c", b"d", b"e"]))
    lists, sets, each = stream.batches(1), stream.sets(), iter(stream)
    seen = {stream.progress}
    asks: list[Callable[[], object]] = [
        *(lambda: next(each), lambda: next(each), lambda: next(lists)),
        *(stream.poll, lambda: next(sets), stream.poll),
    ]
    for number, ask in enumerate(asks, 2):
        ask()
        seen.add(stream.progress)
        assert len(seen) == number
    assert not stream.is_asked
    asking = in_thread(lambda: stream.poll(60))
    eventually(lambda: stream.is_asked)
    stream.close()
    asking.join(20)
    assert not stream.is_asked


def test_messages_carry_where_they_are_from() -> None:
    """Topic, broker, partition, offsets and payload."""
    rig = Rig()
    feed = rig.own(number=3, start=40)
    rig.fetch(feed, messages([b"a"]))
    assert tuple(next(rig.stream)) == ("t", 0, 3, 40, 40 + ONE, 0, b"a")


def test_many_messages_are_all_consumed_one_by_one() -> None:
    """Decoding ahead changes nothing in what counts."""
    rig = Rig()
    feed = rig.own()
    every = [b"%d" % number for number in range(3 * BATCH_MESSAGES + 7)]
    rig.fetch(feed, messages(every))
    seen = []
    for message in rig.stream:
        assert feed.consumed_offset == message.offset
        seen.append(message.payload)
        assert rig.stream.delivered_messages == len(seen)
    assert seen == every
    assert feed.consumed_offset == feed.fetch_offset == len(messages(every))


def test_a_compressed_set_is_consumed_whole() -> None:
    """All its messages but the last leave the offset at its start, so a crash replays it whole."""
    rig = Rig()
    feed = rig.own()
    data = messages([b"a", b"b", b"c"], Codec.GZIP)
    rig.fetch(feed, data + messages([b"d"]))
    for expected in (0, 0, 0, len(data)):
        next(rig.stream)
        assert feed.consumed_offset == expected


def test_a_partition_with_no_more_than_a_partial_message_behind_waits_for_the_rest() -> None:
    """The next fetch begins where the complete messages end."""
    rig = Rig()
    feed = rig.own()
    data = messages([b"a", b"b"])
    rig.fetch(feed, data[: ONE + 5])
    assert payloads(rig.stream) == [b"a"]
    assert feed.consumed_offset == feed.fetch_offset == ONE
    rig.fetch(feed, data[ONE:])
    assert payloads(rig.stream) == [b"b"]


def test_empty_compressed_sets_are_stepped_over() -> None:
    """They hold nothing to hand out, and are consumed all the same."""
    rig = Rig()
    feed = rig.own()
    data = encode(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00", Codec.GZIP)
    rig.fetch(feed, data)
    assert payloads(rig.stream) == []
    assert feed.consumed_offset == len(data)


def test_only_the_thread_that_took_a_message_counts_it_as_done() -> None:
    """As commit_offsets and shutdown do; another thread cannot know."""
    rig = Rig()
    feed = rig.own()
    rig.fetch(feed, messages([b"a", b"b"]))
    next(rig.stream)
    in_thread(rig.stream.count_in_hand_as_done).join(WAIT_S)
    assert feed.consumed_offset == 0
    rig.stream.count_in_hand_as_done()
    assert feed.consumed_offset == ONE
    assert payloads(rig.stream) == [b"b"]


def test_a_message_is_in_the_hand_of_the_thread_that_took_it_last() -> None:
    """Not of the one that took the message before."""
    rig = Rig()
    feed = rig.own()
    rig.fetch(feed, messages([b"a", b"b", b"c"]))
    next(rig.stream)
    in_thread(lambda: next(rig.stream)).join(WAIT_S)
    rig.stream.count_in_hand_as_done()
    assert feed.consumed_offset == ONE, "the other one has the second message"
    next(rig.stream)
    rig.stream.count_in_hand_as_done()
    assert feed.consumed_offset == 3 * ONE


def test_an_offset_never_goes_back_when_a_partition_is_given_up_or_rewound() -> None:
    """It is not noted for each message, so it has to be when they no longer flow."""
    rig = Rig()
    feed = rig.own()
    rig.fetch(feed, messages([b"a", b"b", b"c"]))
    for _ in range(3):
        next(rig.stream)
    rig.release(feed)
    assert feed.consumed_offset == 2 * ONE
    assert payloads(rig.stream) == []
    assert feed.consumed_offset == 2 * ONE


def test_a_thread_with_the_id_of_a_dead_one_does_not_count_its_message_as_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system uses ids of threads again: who died with a message in hand had not finished it."""
    rig = Rig()
    feed = rig.own()
    rig.fetch(feed, messages([b"a", b"b"]))
    died = in_thread(lambda: next(rig.stream))
    died.join(WAIT_S)
    for _ in range(10_000):
        other = in_thread(rig.stream.count_in_hand_as_done)
        other.join(WAIT_S)
        if other.ident == died.ident:  # which soon comes true
            break
    else:
        pytest.fail("no thread got the same id")
    assert feed.consumed_offset == 0


def test_shallow_iteration_gives_compressed_sets_closed() -> None:
    """Each as one message, consumed as one."""
    rig = Rig(shallow=True)
    feed = rig.own()
    data = messages([b"a", b"b"], Codec.GZIP)
    rig.fetch(feed, data)
    message = next(rig.stream)
    assert message.payload == data[10:]
    assert message.next_offset == len(data)


# Lists ---------------------------------------------------------------------------------------------------------------


def test_a_list_is_consumed_when_the_application_comes_back() -> None:
    """As many messages of one partition as are there, up to the number asked for; all of it counts at once."""
    rig = Rig()
    feed, other = rig.own(), rig.own(1)
    every = [b"%d" % number for number in range(10)]
    size = len(messages(every))
    rig.fetch(feed, messages(every))
    rig.fetch(other, messages([b"x", b"y"]))
    lists = rig.stream.batches(max_messages=4)
    assert [message.payload for message in next(lists)] == every[:4]
    assert feed.consumed_offset == 0
    assert [message.payload for message in next(lists)] == every[4:8]
    assert feed.consumed_offset == 4 * size // 10
    assert [message.payload for message in next(lists)] == every[8:]
    assert [message.payload for message in next(lists)] == [b"x", b"y"]
    assert (feed.consumed_offset, other.consumed_offset) == (size, 0)
    assert list(lists) == []
    assert other.consumed_offset == other.fetch_offset
    assert rig.stream.delivered_messages == 12


def test_a_list_may_be_longer_than_what_is_decoded_ahead() -> None:
    """It holds what one fetch brought, if it may."""
    rig = Rig()
    every = [b"%d" % number for number in range(5 * BATCH_MESSAGES)]
    rig.fetch(rig.own(), messages(every))
    assert [len(each) for each in rig.stream.batches(max_messages=3 * BATCH_MESSAGES)] == [300, 200]


def test_lists_and_single_messages_may_follow_one_another() -> None:
    """Coming back for either counts what was in hand."""
    rig = Rig()
    feed = rig.own()
    rig.fetch(feed, messages([b"a", b"b", b"c", b"d"]))
    assert len(next(rig.stream.batches(2))) == 2
    assert next(rig.stream).payload == b"c"
    assert feed.consumed_offset == 2 * ONE
    assert [message.payload for message in next(rig.stream.batches(2))] == [b"d"]
    assert feed.consumed_offset == 3 * ONE
    assert rig.stream.poll() is None
    assert feed.consumed_offset == 4 * ONE


def test_what_is_taken_within_a_loop_is_not_handed_out_again_by_it() -> None:
    """Whichever way, and although the next chunk was begun meanwhile; each coming back counts for what was in hand."""
    rig = Rig()
    feed, other = rig.own(0), rig.own(1)
    rig.fetch(feed, messages([b"a", b"b", b"c"]))
    rig.fetch(other, messages([b"x", b"y", b"z"]))
    loop = iter(rig.stream)
    assert next(loop).payload == b"a"
    assert next(rig.stream).payload == b"b"
    assert [message.payload for message in next(rig.stream.batches())] == [b"c"]
    polled = rig.stream.poll()
    assert polled is not None
    assert polled.payload == b"x"
    assert feed.consumed_offset == 3 * ONE
    assert next(loop).payload == b"y"
    assert other.consumed_offset == ONE
    assert [message.payload for message in loop] == [b"z"]
    assert (feed.consumed_offset, other.consumed_offset) == (3 * ONE, 3 * ONE)


def test_a_list_taken_within_a_loop_is_consumed_when_the_loop_goes_on() -> None:
    """Though the loop's next messages were ready, and would have passed without another look."""
    rig = Rig()
    feed = rig.own()
    rig.fetch(feed, messages([b"a", b"b", b"c", b"d", b"e", b"f"]))
    loop = iter(rig.stream)
    assert [next(loop).payload for _ in range(2)] == [b"a", b"b"]
    assert [message.payload for message in next(rig.stream.batches(2))] == [b"c", b"d"]
    assert next(loop).payload == b"e"
    assert feed.consumed_offset == 4 * ONE


def test_a_list_has_one_message_at_least() -> None:
    """One is enough, none is an error at once."""
    rig = Rig()
    rig.fetch(rig.own(), messages([b"a", b"b"]))
    assert [[message.payload for message in each] for each in rig.stream.batches(1)] == [[b"a"], [b"b"]]
    with pytest.raises(ValueError, match="max_messages is 0"):
        next(rig.stream.batches(0))


def test_a_loop_does_not_go_on_with_a_chunk_that_was_finished_elsewhere() -> None:
    """What it flowed from is gone, although nobody stopped it."""
    rig = Rig()
    feed, other = rig.own(0), rig.own(1)
    rig.fetch(feed, messages([b"a", b"b"]))
    rig.fetch(other, messages([b"x", b"y"]))
    loop = iter(rig.stream)
    assert [next(loop).payload, next(loop).payload] == [b"a", b"b"]
    assert next(rig.stream).payload == b"x"
    assert next(loop).payload == b"y"
    assert other.consumed_offset == ONE


def test_a_list_that_ends_inside_a_compressed_set_leaves_the_offset_at_its_start() -> None:
    """So a crash replays the set; and when the partition is given up, the rest of the set comes, and no more."""
    rig = Rig()
    feed = rig.own()
    until_e = messages([b"a"]) + messages([b"b", b"c", b"d"], Codec.GZIP)
    rig.fetch(feed, until_e + messages([b"e"]))
    lists = rig.stream.batches(max_messages=2)
    assert [message.payload for message in next(lists)] == [b"a", b"b"]
    feed.begin_release()
    assert [message.payload for message in next(lists)] == [b"c"]
    assert feed.consumed_offset == ONE
    assert [message.payload for message in next(lists)] == [b"d"]
    assert next(lists, None) is None
    assert feed.consumed_offset == len(until_e)


def test_good_messages_before_a_corrupt_one_are_a_list() -> None:
    """The error comes with the next one, and what stands there is fetched again."""
    rig = Rig()
    feed = rig.own()
    data = bytearray(messages([b"a", b"b", b"c"]))
    data[-1] ^= 1
    rig.fetch(feed, bytes(data))
    lists = rig.stream.batches()
    assert [message.payload for message in next(lists)] == [b"a", b"b"]
    with pytest.raises(InvalidMessageError):
        next(lists)
    assert feed.fetch_offset == feed.consumed_offset == 2 * ONE


def test_lists_end_at_the_timeout_and_without_a_lease_nothing_is_listed() -> None:
    """As iteration does."""
    rig = Rig()
    feed = rig.own()
    assert list(rig.stream.batches()) == []
    rig.lease.until_s = rig.now_s
    rig.fetch(feed, messages([b"a"]))
    assert list(rig.stream.batches()) == []
    rig.lease.until_s = rig.now_s + 1
    assert [len(each) for each in rig.stream.batches()] == [1]
    with pytest.raises(ValueError, match="max_messages is 0"):
        next(rig.stream.batches(0))


def test_one_message_can_be_polled_for() -> None:
    """None when there is none in time, whatever consumer.timeout.ms says."""
    rig = Rig(timeout_ms=-1)
    feed = rig.own()
    assert rig.stream.poll() is None
    rig.fetch(feed, messages([b"a"]))
    polled = rig.stream.poll()
    assert polled is not None
    assert polled.payload == b"a"
    assert feed.consumed_offset == 0
    assert rig.stream.poll() is None
    assert feed.consumed_offset == ONE
    rig.stream.close()
    assert rig.stream.poll(60.0) is None


# Waiting -------------------------------------------------------------------------------------------------------------


def test_iteration_ends_at_the_timeout_and_can_go_on() -> None:
    """consumer.timeout.ms ends the `for`; another one goes on."""
    rig = Rig(timeout_ms=20)
    feed = rig.own()
    rig.stream._now_s = time.monotonic
    rig.lease.until_s = float("inf")
    assert payloads(rig.stream) == []
    feed.not_before_s = 0
    rig.fetch(feed, messages([b"a"]))
    assert payloads(rig.stream) == [b"a"]
    assert payloads(rig.stream) == []


def test_a_waiting_application_is_woken_by_a_delivery_and_by_the_end() -> None:
    """Without a timeout iteration waits for ever, but not after close."""
    rig = Rig(timeout_ms=-1)
    feed = rig.own()
    seen: list[bytes] = []
    thread = in_thread(lambda: seen.extend(payloads(rig.stream)))
    rig.fetch(feed, messages([b"a", b"b"]))
    eventually(lambda: feed.consumed_offset == 2 * ONE)
    rig.stream.close()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert seen == [b"a", b"b"]
    assert not rig.fetch(feed, messages([b"c"]))


def test_a_poll_waits_for_its_time() -> None:
    """On the stream's clock, which stands still here: so it waits until something comes."""
    rig = Rig()
    feed = rig.own()
    polled: list[Message | None] = []
    polling = in_thread(lambda: polled.append(rig.stream.poll(1.0)))
    eventually(lambda: is_waiting(polling))
    rig.fetch(feed, messages([b"a"]))
    polling.join(WAIT_S)
    assert [message.payload for message in polled if message is not None] == [b"a"]


def test_partitions_take_turns_in_the_order_of_their_fetches() -> None:
    """One chunk after another; each partition in its own order."""
    rig = Rig()
    first, second = rig.own(0), rig.own(1)
    rig.fetch(first, messages([b"a"]))
    rig.fetch(second, messages([b"x"]))
    rig.fetch(first, messages([b"b"]))
    assert payloads(rig.stream) == [b"a", b"x", b"b"]


# Prefetch ------------------------------------------------------------------------------------------------------------


def test_no_more_is_fetched_than_there_is_room_for() -> None:
    """queuedchunks.max counts fetches under way too; whoever found no room hears of it when there is some."""
    rig = Rig(max_chunks=2)
    feed = rig.own()
    assert rig.fetch(feed, messages([b"a"]))
    assert feed.reserve() == (ONE, feed.epoch)
    assert feed.reserve() is None
    feed.cancel()
    assert rig.fetch(feed, messages([b"b"]))
    assert feed.reserve() is None
    assert rig.rooms_made == 0
    next(rig.stream)
    assert rig.rooms_made == 1
    assert feed.reserve() == (2 * ONE, feed.epoch)


def test_a_large_set_has_the_room_of_several() -> None:
    """While it waits, and until it is dropped; what its fetch has reserved beyond that is given back."""
    rig = Rig(max_chunks=4)
    feed = rig.own()
    for drop in (lambda: next(rig.stream), lambda: feed.start_at(0)):
        feed.start_at(0)
        assert [feed.reserve() is not None for _ in range(5)] == [True, True, True, True, False]
        feed.deliver(feed.epoch, 0, messages([b"a", b"b", b"c"]), room=3)
        feed.cancel()
        assert [feed.reserve() is not None for _ in range(2)] == [True, False]
        feed.cancel()
        drop()
        assert [feed.reserve() is not None for _ in range(5)] == [True, True, True, True, False]
        feed.recall()


def test_a_large_set_for_which_others_have_taken_the_room_is_fetched_again() -> None:
    """Nothing is lost by that, and no more is held than there is room for."""
    rig = Rig(max_chunks=2)
    feed, other = rig.own(), rig.own(1, broker_id=1)
    assert feed.reserve() is not None
    assert feed.reserve() is not None
    assert rig.fetch(other, messages([b"x"]))
    feed.deliver(feed.epoch, 0, messages([b"a", b"b"]), room=2)
    assert payloads(rig.stream) == [b"x"]
    assert rig.fetch(feed, messages([b"a", b"b"]))
    assert payloads(rig.stream) == [b"a", b"b"]


def test_room_is_made_by_a_rewind_too() -> None:
    """What was queued is dropped."""
    rig = Rig(max_chunks=1)
    feed = rig.own()
    rig.fetch(feed, messages([b"a"]))
    assert feed.reserve() is None
    feed.start_at(0)
    assert rig.rooms_made == 1
    assert feed.reserve() is not None


@pytest.mark.parametrize("give_up", [PartitionFeed.begin_release, PartitionFeed.abandon])
def test_room_is_made_by_giving_a_partition_up(give_up: Callable[[PartitionFeed], None]) -> None:
    """What waits of it will not be handed out, so others of its broker may be fetched at once."""
    rig = Rig(max_chunks=1)
    feed, other = rig.own(0), rig.own(1)
    rig.fetch(feed, messages([b"a"]))
    assert other.reserve() is None
    give_up(feed)
    assert rig.rooms_made == 1
    assert rig.fetch(other, messages([b"x"]))


def test_brokers_share_the_room_as_long_as_they_are_fetched_from() -> None:
    """However often that was; once all that are fetched are given up, all of it is for the others."""
    rig = Rig(max_chunks=4)
    feeds, others = [rig.own(number) for number in range(3)], [rig.own(number, broker_id=1) for number in range(4)]
    for feed in (feeds[0], feeds[0], feeds[0], feeds[1]):
        assert feed.reserve() is not None
        feed.cancel()
    assert [other.reserve() is not None for other in others] == [True, True, False, False]
    rig.release(feeds[0])
    feeds[2].abandon()  # which was never fetched
    assert others[2].reserve() is None
    rig.release(feeds[1])
    assert [other.reserve() is not None for other in others[2:]] == [True, True]


def test_what_two_fetchers_bring_twice_is_queued_once() -> None:
    """For a moment a broker that moved has a fetcher at each address."""
    rig = Rig()
    feed = rig.own()
    first, second = feed.reserve(), feed.reserve()
    assert first == second
    assert first is not None
    for _ in range(2):
        feed.deliver(first[1], first[0], messages([b"a"]))
    assert payloads(rig.stream) == [b"a"]


def test_a_stream_holds_no_more_than_its_room_however_many_brokers_share_it() -> None:
    """Each may fetch one set while nothing waits; what comes too late is fetched again, and lost never."""
    rig = Rig(max_chunks=1)
    feeds = [rig.own(broker_id=number) for number in range(3)]
    under_way = [feed.reserve() for feed in feeds]
    for feed, reserved in zip(feeds, under_way, strict=True):
        assert reserved is not None
        feed.deliver(reserved[1], reserved[0], messages([b"%d" % feed.where.broker_id]))
    assert payloads(rig.stream) == [b"0"]
    for feed in feeds[1:]:
        assert rig.fetch(feed, messages([b"%d" % feed.where.broker_id]))
        assert payloads(rig.stream) == [b"%d" % feed.where.broker_id]


def test_pauses_grow_until_there_is_a_start() -> None:
    """So that a partition which its broker does not have costs it little."""
    rig = Rig()
    feed = rig.own()
    feed.start_at(0)
    pauses = []
    for _ in range(5):
        feed.back_off(2, 10)
        pauses.append(feed.not_before_s - rig.now_s)
        rig.now_s = feed.not_before_s
    assert pauses == [2, 4, 8, 10, 10]
    feed.start_at(0)
    feed.back_off(2, 10)
    assert feed.not_before_s - rig.now_s == 2


# Errors --------------------------------------------------------------------------------------------------------------


def test_a_corrupt_message_is_an_error_after_all_good_ones_and_is_fetched_again() -> None:
    """What the network did is mended by then; nothing is skipped."""
    rig = Rig()
    feed = rig.own()
    good = messages([b"a", b"b", b"c"])
    bad = bytearray(good)
    bad[2 * ONE - 1] ^= 1
    rig.fetch(feed, bytes(bad))
    assert next(rig.stream).payload == b"a"
    with pytest.raises(InvalidMessageError, match=f"t/0-0 at offset {ONE}"):
        next(rig.stream)
    assert feed.consumed_offset == ONE
    assert not rig.fetch(feed, good[ONE:]), "fetched again at once: that would be a busy loop"
    rig.now_s += RESTART_PAUSE_S
    assert rig.fetch(feed, good[ONE:])
    assert payloads(rig.stream) == [b"b", b"c"]


def test_a_message_larger_than_a_fetch_is_an_error_that_names_the_size() -> None:
    """It is said again at every try, and nothing is fetched meanwhile."""
    rig = Rig()
    feed = rig.own()
    for _ in range(2):
        assert rig.fetch(feed, encode(b"x" * 100)[:50])
        assert not rig.fetch(feed, b"")
        with pytest.raises(InvalidMessageSizeError, match="110"):
            next(rig.stream)
        rig.now_s += RESTART_PAUSE_S
    feed.start_at(110)
    rig.fetch(feed, messages([b"b"]))
    assert payloads(rig.stream) == [b"b"]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, MemoryError])
def test_an_interruption_while_messages_flow_loses_nothing(interruption: type[BaseException]) -> None:
    """The message that was on its way is fetched again, and so is the one in hand."""

    def interrupt() -> None:
        raise interruption

    rig = Rig()
    feed = rig.own()
    ready = Meddled()
    rig.stream._ready = ready
    data = messages([b"a", b"b", b"c"])
    rig.fetch(feed, data)
    loop = iter(rig.stream)
    assert [next(loop).payload for _ in range(2)] == [b"a", b"b"]
    ready.meddle = interrupt
    with pytest.raises(interruption):
        next(loop)
    assert feed.fetch_offset == feed.consumed_offset == ONE
    rig.now_s += RESTART_PAUSE_S
    assert rig.fetch(feed, data[ONE:])
    assert payloads(rig.stream) == [b"b", b"c"]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize("take", [next, lambda stream: next(stream.batches())], ids=["message", "list"])
def test_an_interruption_while_decoding_loses_nothing(
    interruption: type[BaseException], take: Callable[[MessageStream], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was on its way to the application is fetched again, and nothing else."""
    rig = Rig()
    feed = rig.own()
    data = messages([b"a", b"b", b"c"])
    rig.fetch(feed, data)
    decode = rig.stream._decode

    def interrupted(*arguments: object) -> Iterable[Message]:
        yield from list(decode(*arguments))[:2]  # type: ignore[arg-type]
        raise interruption

    monkeypatch.setattr(rig.stream, "_decode", interrupted)
    with pytest.raises(interruption):
        take(rig.stream)
    monkeypatch.undo()
    assert feed.consumed_offset == feed.fetch_offset == 0
    rig.now_s += RESTART_PAUSE_S
    assert rig.fetch(feed, data)
    assert payloads(rig.stream) == [b"a", b"b", b"c"]
    assert rig.stream.delivered_messages == 3


class Interrupted:
    """A lock whose holder is interrupted once, after it has let go."""

    def __init__(self, lock: AbstractContextManager[object], interruption: type[BaseException]) -> None:
        self._lock = lock
        self._interruptions = [interruption]

    def __enter__(self) -> None:
        self._lock.__enter__()

    def __exit__(self, *raised: Any) -> None:
        self._lock.__exit__(*raised)
        if self._interruptions:
            raise self._interruptions.pop()


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize(
    "take",
    [next, lambda stream: next(stream.batches()), lambda stream: next(stream.sets())],
    ids=["message", "list", "set"],
)
def test_an_interruption_at_the_last_moment_loses_nothing(
    interruption: type[BaseException], take: Callable[[MessageStream], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the application did not get does not count as in its hand."""
    rig = Rig()
    feed = rig.own()
    data = messages([b"a", b"b", b"c"])
    rig.fetch(feed, data)
    monkeypatch.setattr(rig.stream, "_lock", Interrupted(rig.stream._lock, interruption))
    with pytest.raises(interruption):
        take(rig.stream)
    assert feed.consumed_offset == feed.fetch_offset == 0
    rig.now_s += RESTART_PAUSE_S
    assert rig.fetch(feed, data)
    assert payloads(rig.stream) == [b"a", b"b", b"c"]
    assert rig.stream.delivered_messages == 3


# Rewind --------------------------------------------------------------------------------------------------------------


def test_a_rewind_while_a_message_is_in_hand_is_not_undone_by_coming_back() -> None:
    """Neither by the message in hand nor by what was queued or is being fetched."""
    rig = Rig()
    feed = rig.own()
    data = messages([b"a", b"b", b"c"])
    rig.fetch(feed, data)
    next(rig.stream)
    next(rig.stream)
    under_way = feed.reserve()
    assert under_way is not None
    assert feed.start_at(0)
    feed.deliver(under_way[1], under_way[0], messages([b"d"]))
    assert feed.consumed_offset == 0
    assert payloads(rig.stream) == []
    assert feed.consumed_offset == 0
    rig.fetch(feed, data)
    assert payloads(rig.stream) == [b"a", b"b", b"c"]


def test_a_set_that_is_put_back_comes_again_when_its_partition_goes_on() -> None:
    """From the message on that was not taken, and not before; meanwhile other partitions have all the room."""
    rig = Rig(max_chunks=2)
    held, other = rig.own(0), rig.own(1)
    rig.fetch(held, messages([b"a", b"b"]))
    rig.fetch(held, messages([b"c"]))
    sets = rig.stream.sets()
    stored = next(sets)
    go_on = stored.put_back(ONE)
    assert go_on is not None
    assert not stored.is_current
    assert stored.put_back(ONE) is None
    rig.now_s += 100
    assert not rig.fetch(held, b""), "nothing is fetched of it"
    for payload in (b"x", b"y"):
        assert rig.fetch(other, messages([payload]))
    assert [list(MessageSet.from_bytes(each.data)) for each in rig.stream.sets()] == [[b"x"], [b"y"]]
    assert held.consumed_offset == ONE
    go_on()
    assert rig.fetch(held, messages([b"b", b"c"]))
    [again] = rig.stream.sets()
    assert (again.offset, list(MessageSet.from_bytes(again.data))) == (ONE, [b"b", b"c"])
    assert held.consumed_offset == 3 * ONE


def test_a_partition_that_is_held_can_be_rewound_and_given_up() -> None:
    """What it waited for changes nothing then."""
    rig = Rig()
    feed = rig.own()
    rig.fetch(feed, messages([b"a"]))
    go_on = next(rig.stream.sets()).put_back(0)
    assert go_on is not None
    feed.start_at(5)
    assert feed.reserve() == (5, feed.epoch)
    feed.cancel()
    feed.postpone(1)
    go_on()
    assert feed.reserve() is None, "the postponement is another's"
    rig.release(feed)
    assert feed.hold(feed.epoch, 0) is None


def test_a_rewind_forgets_what_was_decoded() -> None:
    """Messages that were not handed out are not counted, and an error among them is nobody else's."""
    rig = Rig()
    feed, other = rig.own(0), rig.own(1)
    rig.fetch(feed, messages([b"a", b"b", b"c"]) + messages([b"d"])[:-1] + b"?")
    assert next(rig.stream).payload == b"a"
    assert rig.stream.delivered_messages == 1
    assert feed.start_at(ONE)
    rig.fetch(other, messages([b"x"]))
    assert payloads(rig.stream) == [b"x"]
    assert rig.stream.delivered_messages == 2
    assert feed.open_chunk is other.open_chunk is None


def test_a_start_found_late_does_not_undo_a_rewind() -> None:
    """The question was asked in an earlier epoch."""
    rig = Rig()
    feed = rig.own()
    asked = feed.epoch
    assert feed.start_at(5 * ONE)
    assert not feed.start_at(0, asked)
    assert feed.consumed_offset == 5 * ONE


def test_a_rewind_keeps_explicit_commits_explicit() -> None:
    """The group's offset goes back, and what is consumed then does not move it on."""
    rig = Rig()
    feed = rig.own()
    owned = OwnedPartition(feed, cast("GroupSession", None), Broker(0, "h", 1), is_explicit=True)
    owned.start_at(0)
    rig.fetch(feed, messages([b"a"]))
    assert payloads(rig.stream) == [b"a"]
    assert (feed.consumed_offset, owned.commit_offset) == (ONE, 0)


# Release -------------------------------------------------------------------------------------------------------------


def test_nothing_is_handed_out_of_a_partition_given_up() -> None:
    """Neither what is decoded, nor what is queued, nor what a fetch under way brings; its room is free again."""
    rig = Rig(max_chunks=2)
    feed, other = rig.own(0), rig.own(1)
    rig.fetch(feed, messages([b"a", b"b"]))
    next(rig.stream)
    rig.stream.count_in_hand_as_done()
    rig.fetch(feed, messages([b"c"]))
    under_way = feed.reserve()
    assert under_way is not None
    rig.release(feed)
    feed.deliver(under_way[1], under_way[0], messages([b"d"]))
    assert payloads(rig.stream) == []
    assert (feed.state, feed.consumed_offset) == (State.RELEASED, ONE)
    assert rig.stream.unfinished_releases == 0
    assert rig.fetch(other, messages([b"x"]))
    assert rig.fetch(other, messages([b"y"]))
    assert not feed.start_at(0)


def test_a_release_waits_for_the_message_in_hand() -> None:
    """And ends as soon as the application is back, which then gets nothing more of the partition."""
    rig = Rig(timeout_ms=-1)
    feed, other = rig.own(0), rig.own(1)
    rig.fetch(feed, messages([b"a", b"b"]))
    taken, go_on, seen = threading.Event(), threading.Event(), []

    def application() -> None:
        for message in rig.stream:
            seen.append(message.payload)
            taken.set()
            assert go_on.wait(WAIT_S)

    thread = in_thread(application)
    assert taken.wait(WAIT_S)
    releasing = in_thread(lambda: rig.release(feed, WAIT_S))
    eventually(lambda: feed.state is State.RELEASING)
    assert feed.consumed_offset == 0
    go_on.set()
    releasing.join(WAIT_S)
    assert (feed.state, feed.consumed_offset) == (State.RELEASED, ONE)
    rig.fetch(other, messages([b"x"]))
    eventually(lambda: other.consumed_offset == ONE)
    rig.stream.close()
    thread.join(WAIT_S)
    assert seen == [b"a", b"x"]
    assert rig.stream.unfinished_releases == 0


@pytest.mark.parametrize("wait_s", [1.0, 1000.0])
def test_a_release_ends_when_what_is_in_hand_is_counted_as_done(wait_s: float) -> None:
    """Without another look at the stream, as when the application commits at the end of its loop."""
    rig = Rig()
    feed = rig.own()
    rig.fetch(feed, messages([b"a", b"b"]))
    next(rig.stream)
    releasing = in_thread(lambda: rig.release(feed, wait_s))  # on a clock that stands still
    eventually(lambda: feed.state is not State.ACTIVE and is_waiting(releasing))
    rig.stream.count_in_hand_as_done()
    releasing.join(WAIT_S)
    assert (feed.state, feed.consumed_offset) == (State.RELEASED, ONE)
    assert rig.stream.unfinished_releases == 0


def test_a_release_ends_when_the_application_is_interrupted() -> None:
    """What it had in hand is not consumed, and nothing of it is waited for any more."""
    rig = Rig()
    feed = rig.own()
    ready = Meddled()
    rig.stream._ready = ready
    rig.fetch(feed, messages([b"a", b"b", b"c"]))
    loop = iter(rig.stream)
    next(loop)
    releasing: list[threading.Thread] = []

    def interrupt() -> None:
        releasing.append(in_thread(lambda: rig.release(feed, 1000.0)))
        eventually(lambda: feed.state is State.RELEASING and is_waiting(releasing[0]))
        raise KeyboardInterrupt

    ready.meddle = interrupt
    with pytest.raises(KeyboardInterrupt):
        next(loop)
    releasing[0].join(WAIT_S)
    assert (feed.state, feed.consumed_offset) == (State.RELEASED, 0)
    assert rig.stream.unfinished_releases == 0


def test_nothing_is_begun_of_a_partition_that_is_being_given_up() -> None:
    """Neither uncompressed messages nor a compressed set of which the application has had nothing."""
    for codec in (Codec.NONE, Codec.GZIP):
        rig = Rig()
        feed = rig.own()
        rig.fetch(feed, messages([b"a", b"b"], codec))
        feed.begin_release()
        assert payloads(rig.stream) == []
        rig.release(feed)
        assert rig.stream.unfinished_releases == 0


class Meddled(deque[Message]):
    """What a stream has ready, with something that happens just before the next message is taken from it."""

    meddle: Callable[[], object] | None = None

    def popleft(self) -> Message:
        meddle, self.meddle = self.meddle, None
        if meddle is not None:
            meddle()
        return super().popleft()


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("what", ["release", "abandon", "rewind", "close"])
def test_a_flow_stopped_at_the_last_moment_hands_out_nothing_more(what: str, codec: Codec) -> None:
    """Also between the look at the clock and the message: the application has come back, and gets what it may get."""
    rig = Rig()
    feed = rig.own()
    ready = Meddled()
    rig.stream._ready = ready
    data = messages([b"a", b"b", b"c"], codec)
    rig.fetch(feed, data)
    stops: dict[str, Callable[[], object]] = {
        "release": feed.begin_release,
        "abandon": feed.abandon,
        "rewind": lambda: feed.start_at(0),
        "close": rig.stream.close,
    }
    seen: list[bytes] = []
    for message in rig.stream:
        if not seen:
            ready.meddle = stops[what]
        seen.append(message.payload)
    assert ready.meddle is None, "the flow was not met"
    is_whole = what == "release" and codec is Codec.GZIP
    assert seen == ([b"a", b"b", b"c"] if is_whole else [b"a"])
    if what in {"abandon", "rewind"}:
        assert feed.consumed_offset == 0
    elif codec is Codec.NONE:
        assert feed.consumed_offset == ONE
    else:
        assert feed.consumed_offset == (len(data) if is_whole else 0)
    assert rig.stream.unfinished_releases == (what == "abandon")


def test_a_release_waits_for_the_rest_of_a_compressed_set() -> None:
    """Which alone is still handed out, so that the set does not come again."""
    rig = Rig(timeout_ms=-1)
    feed = rig.own()
    data = messages([b"a", b"b", b"c"], Codec.GZIP)
    rig.fetch(feed, data + messages([b"d"]))
    taken, go_on, seen = threading.Event(), threading.Event(), []

    def application() -> None:
        for message in rig.stream:
            seen.append(message.payload)
            taken.set()
            assert go_on.wait(WAIT_S)

    thread = in_thread(application)
    assert taken.wait(WAIT_S)
    releasing = in_thread(lambda: rig.release(feed, WAIT_S))
    eventually(lambda: feed.state is State.RELEASING)
    go_on.set()
    releasing.join(WAIT_S)
    rig.stream.close()
    thread.join(WAIT_S)
    assert seen == [b"a", b"b", b"c"]
    assert (feed.state, feed.consumed_offset) == (State.RELEASED, len(data))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_release_waits_no_longer_than_it_may(codec: Codec, caplog: pytest.LogCaptureFixture) -> None:
    """The message, or the set, will come again: logged, counted, and not consumed here any more."""
    rig = Rig()
    feed = rig.own()
    rig.fetch(feed, messages([b"a", b"b"], codec))
    next(rig.stream)
    with caplog.at_level(logging.WARNING):
        thread = in_thread(lambda: rig.release(feed))
        thread.join(WAIT_S)
    assert not thread.is_alive()
    assert rig.stream.unfinished_releases == 1
    assert "t/0-0 at offset 0: it will be redelivered" in caplog.text
    assert payloads(rig.stream) == []
    assert (feed.state, feed.consumed_offset) == (State.RELEASED, 0)


def test_a_thread_does_not_wait_for_itself() -> None:
    """As in shutdown, or when an exception leaves the with block: the message in hand is not counted."""
    rig = Rig()
    feed = rig.own()
    rig.fetch(feed, messages([b"a"]))
    next(rig.stream)
    rig.release(feed, WAIT_S)
    assert feed.consumed_offset == 0
    assert rig.stream.unfinished_releases == 1


def test_a_partition_lost_with_its_session_is_abandoned_at_once() -> None:
    """Nobody waits; what comes back later counts for nothing, and the message in hand is counted as coming again."""
    rig = Rig()
    feed, other = rig.own(0), rig.own(1)
    rig.fetch(feed, messages([b"a", b"b"]))
    rig.fetch(other, messages([b"x"]))
    next(rig.stream)
    feed.abandon()
    assert rig.stream.unfinished_releases == 1
    assert payloads(rig.stream) == [b"x"]
    assert feed.consumed_offset == 0


def test_a_partition_taken_again_has_nothing_to_do_with_what_it_was() -> None:
    """The message in hand from before its release moves nothing."""
    rig = Rig()
    before = rig.own()
    rig.fetch(before, messages([b"a", b"b"]))
    next(rig.stream)
    rig.release(before)
    after = rig.own()
    rig.fetch(after, messages([b"a", b"b"]))
    assert payloads(rig.stream) == [b"a", b"b"]
    assert (before.consumed_offset, after.consumed_offset) == (0, 2 * ONE)


# Sets as they are stored ---------------------------------------------------------------------------------------------


def test_sets_are_the_bytes_that_were_fetched() -> None:
    """Whole messages only, wrappers closed, and consumed when the application comes back."""
    rig = Rig()
    feed = rig.own(number=3)
    data = messages([b"a", b"b"]) + messages([b"c", b"d"], Codec.GZIP)
    rig.fetch(feed, data + messages([b"half"])[:-1])
    rig.fetch(feed, messages([b"e"]) + messages([b"half"])[:-1])
    sets = rig.stream.sets()
    first = next(sets)
    assert (first.where, first.offset, first.next_offset, first.data) == (feed.where, 0, len(data), data)
    assert feed.consumed_offset == 0
    second = next(sets)
    assert (second.offset, second.data) == (len(data), messages([b"e"]))
    assert feed.consumed_offset == len(data)
    assert list(sets) == []
    assert feed.consumed_offset == len(data) + ONE


def test_messages_and_sets_take_turns() -> None:
    """A set begins after the message in hand; a compressed set that was begun comes whole."""
    rig = Rig()
    feed = rig.own()
    wrapped = messages([b"c", b"d"], Codec.GZIP)
    rig.fetch(feed, messages([b"a", b"b"]) + wrapped)
    rig.fetch(feed, wrapped)
    rig.fetch(feed, messages([b"e"]))
    assert next(rig.stream).payload == b"a"
    assert next(rig.stream.sets()).data == messages([b"b"]) + wrapped
    assert next(rig.stream).payload == b"c"
    assert next(rig.stream.sets()).data == wrapped
    assert payloads(rig.stream) == [b"e"]
    assert feed.consumed_offset == 3 * ONE + 2 * len(wrapped)
    rig.fetch(feed, messages([b"f"]))
    rig.fetch(feed, messages([b"g"]))
    assert next(rig.stream.sets()).data == messages([b"f"])
    assert payloads(rig.stream) == [b"g"]
    assert rig.stream.delivered_messages == 4


def test_what_messages_found_wrong_is_handed_out_with_a_set() -> None:
    """Whoever takes it may decide what to do; messages go on behind it."""
    rig = Rig()
    feed = rig.own()
    corrupt = messages([b"c"])[:-1] + b"?"
    rig.fetch(feed, messages([b"a", b"b"]) + corrupt)
    rig.fetch(feed, messages([b"d"]))
    assert next(rig.stream).payload == b"a"
    assert next(rig.stream.sets()).data == messages([b"b"]) + corrupt
    assert payloads(rig.stream) == [b"d"]


def test_a_set_knows_when_its_partition_has_gone() -> None:
    """Whether given up or rewound, while being released it is still ours."""
    rig = Rig()
    feed, rewound = rig.own(0), rig.own(1)
    for each in (feed, rewound):
        rig.fetch(each, messages([b"a"]))
    one, other = (next(rig.stream.sets()) for _ in range(2))
    feed.begin_release()
    assert one.is_current
    feed.end_release(0)
    rewound.start_at(0)
    assert not one.is_current
    assert not other.is_current


def test_a_partition_that_is_released_gives_no_more_sets() -> None:
    """Not even the rest of a compressed set that was begun by messages."""
    rig = Rig()
    feed = rig.own()
    rig.fetch(feed, messages([b"a", b"b"], Codec.GZIP))
    assert [next(rig.stream).payload for _ in range(2)] == [b"a", b"b"]
    rig.fetch(feed, messages([b"c", b"d"], Codec.GZIP))
    assert next(rig.stream).payload == b"c"
    feed.begin_release()
    assert list(rig.stream.sets()) == []
    feed.end_release(0)
    assert feed.consumed_offset == len(messages([b"a", b"b"], Codec.GZIP))


def test_sets_say_what_stands_where_no_message_does() -> None:
    """A message that is larger than the fetch, and a length that cannot be one."""
    rig = Rig()
    feed = rig.own()
    rig.fetch(feed, messages([b"x" * 100])[:50])
    with pytest.raises(InvalidMessageSizeError, match="t/0-0 at offset 0, which needs 110"):
        next(rig.stream.sets())
    rig.now_s += RESTART_PAUSE_S
    rig.fetch(feed, messages([b"a"]) + bytes(20))
    assert next(rig.stream.sets()).data == messages([b"a"])
    rig.fetch(feed, bytes(20))
    with pytest.raises(InvalidMessageError, match=f"t/0-0 at offset {ONE}: length 0"):
        next(rig.stream.sets())
    assert feed.consumed_offset == ONE


# Columns -------------------------------------------------------------------------------------------------------------


def rows(batch: Any) -> list[Message]:
    return [Message(**row) for row in batch.to_pylist()]


def test_batches_of_columns_are_the_messages() -> None:
    """The same as lists are, compressed sets opened; each is consumed when the application comes back."""
    data = messages([b"a"]) + messages([b"b", b"c"], Codec.GZIP) + messages([b"d"])
    rig = Rig()
    feed = rig.own(start=40)
    rig.fetch(feed, data)
    batches = rig.stream.arrow()
    batch = next(batches)
    assert rows(batch) == list(decode(data, "t", 0, 0, 40))
    assert feed.consumed_offset == 40
    assert rig.stream.delivered_messages == 4
    assert next(batches, None) is None
    assert feed.consumed_offset == 40 + len(data)


def test_batches_of_columns_have_a_limit() -> None:
    """In messages, except that a compressed set comes whole; of one partition each."""
    rig = Rig()
    first, second = rig.own(0), rig.own(1)
    rig.fetch(first, messages([b"a"] * 3) + messages([b"b"] * 3, Codec.SNAPPY) + messages([b"c"]))
    rig.fetch(second, messages([b"d"]))
    found = [[message.payload for message in rows(batch)] for batch in rig.stream.arrow(2)]
    assert found == [[b"a"] * 2, [b"a", b"b", b"b", b"b"], [b"c"], [b"d"]]
    with pytest.raises(ValueError, match="max_messages is 0"):
        next(rig.stream.arrow(0))


def test_columns_are_polled_for() -> None:
    """What is there comes at once, and None where nothing is; a batch is consumed when the application comes back."""
    rig = Rig()
    feed = rig.own()
    assert rig.stream.poll_arrow() is None
    rig.fetch(feed, messages([b"a", b"b"]))
    batch = rig.stream.poll_arrow()
    assert [message.payload for message in rows(batch)] == [b"a", b"b"]
    assert feed.consumed_offset == 0
    assert rig.stream.poll_arrow() is None
    assert feed.consumed_offset == 2 * ONE
    with pytest.raises(ValueError, match="max_messages is 0"):
        rig.stream.poll_arrow(0)


def test_messages_and_columns_take_turns() -> None:
    """None is missing and none comes twice, but of a compressed set that was begun all comes again."""
    rig = Rig()
    feed = rig.own()
    rig.fetch(feed, messages([b"%d" % number for number in range(6)]) + messages([b"x", b"y"], Codec.GZIP))
    assert next(rig.stream).payload == b"0"
    assert [message.payload for message in rows(next(rig.stream.arrow(2)))] == [b"1", b"2"]
    assert feed.consumed_offset == ONE
    assert next(rig.stream).payload == b"3"
    assert feed.consumed_offset == 3 * ONE
    assert [message.payload for message in next(rig.stream.batches(2))] == [b"4", b"5"]
    assert next(rig.stream).payload == b"x"
    assert [message.payload for message in rows(next(rig.stream.arrow()))] == [b"x", b"y"]
    assert rig.stream.delivered_messages == 9
    assert rig.stream.poll() is None
    assert feed.consumed_offset == feed.fetch_offset


def test_a_corrupt_message_ends_a_batch_and_is_an_error_that_comes_again() -> None:
    """Good messages before it are consumed; it is fetched anew after a pause."""
    rig = Rig()
    feed = rig.own()
    rig.fetch(feed, messages([b"a"]) + encode(b"b")[:-1] + b"?")
    batches = rig.stream.arrow()
    assert [message.payload for message in rows(next(batches))] == [b"a"]
    with pytest.raises(InvalidMessageError, match=f"t/0-0 at offset {ONE}"):
        next(batches)
    assert (feed.consumed_offset, feed.fetch_offset) == (ONE, ONE)
    rig.now_s += RESTART_PAUSE_S
    rig.fetch(feed, encode(b"b"))
    assert [message.payload for message in rows(next(rig.stream.arrow()))] == [b"b"]


def test_a_message_larger_than_a_fetch_is_an_error_of_columns_too() -> None:
    """And one that follows others is no error yet."""
    rig = Rig()
    feed = rig.own()
    rig.fetch(feed, messages([b"a"]) + encode(b"b")[:-1])
    rig.fetch(feed, encode(b"b")[:-1])
    batches = rig.stream.arrow()
    assert next(batches).num_rows == 1
    with pytest.raises(InvalidMessageSizeError, match=f"t/0-0 at offset {ONE}"):
        next(batches)


def test_a_release_waits_for_the_batch_in_hand_and_begins_no_other() -> None:
    """The partition is given up once the application comes back, also within what was fetched."""
    rig = Rig()
    feed = rig.own()
    rig.fetch(feed, messages([b"a"] * 3))
    batches = rig.stream.arrow(2)
    next(batches)
    feed.begin_release()
    assert next(batches, None) is None
    feed.end_release(rig.now_s)
    assert feed.consumed_offset == 2 * ONE
    assert not rig.stream.unfinished_releases


def test_a_batch_that_is_interrupted_on_its_way_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was not handed out, so it counts for nothing."""
    rig = Rig()
    feed = rig.own()
    rig.fetch(feed, messages([b"a"]))

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(threading, "current_thread", interrupt)
    with pytest.raises(KeyboardInterrupt):
        next(rig.stream.arrow())
    monkeypatch.undo()
    assert (rig.stream.delivered_messages, feed.consumed_offset) == (0, 0)
    rig.now_s += RESTART_PAUSE_S
    rig.fetch(feed, messages([b"a"]))
    assert next(rig.stream.arrow()).num_rows == 1


def test_shallow_streams_give_compressed_sets_closed_as_columns() -> None:
    """As iterating does."""
    data = messages([b"a", b"b"], Codec.GZIP)
    rig = Rig(shallow=True)
    rig.fetch(rig.own(), data)
    [batch] = rig.stream.arrow()
    assert rows(batch) == list(decode_shallow(data, "t", 0, 0, 0))


def test_columns_without_pyarrow_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install, before anything is waited for."""
    monkeypatch.setitem(sys.modules, "kafka2011.message.columns", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError):
        next(Rig(timeout_ms=-1).stream.arrow())


# The lease -----------------------------------------------------------------------------------------------------------


def test_nothing_is_handed_out_without_a_lease() -> None:
    """Neither fresh chunks nor what is decoded already; when it comes back in the same session, all goes on."""
    rig = Rig()
    feed = rig.own()
    rig.lease.until_s = rig.now_s + 5
    rig.fetch(feed, messages([b"a", b"b"]))
    rig.fetch(feed, messages([b"c"]))
    assert next(rig.stream).payload == b"a"
    rig.now_s += 5
    assert payloads(rig.stream) == []
    assert feed.consumed_offset == ONE, "the application did come back"
    rig.lease.until_s = rig.now_s + 1
    assert payloads(rig.stream) == [b"b", b"c"]


@pytest.mark.parametrize("step_s", [0.001, LOOK_INTERVAL_S / 2, LOOK_INTERVAL_S, 0.3])
def test_the_last_message_is_handed_out_before_the_lease_ends(step_s: float) -> None:
    """However the clock moves on between two messages."""
    rig = Rig()
    feed = rig.own()
    rig.lease.until_s = rig.now_s + 0.4
    rig.fetch(feed, messages([b"x"] * 1000))
    for _ in rig.stream:
        assert rig.now_s < rig.lease.until_s
        rig.now_s += step_s
    assert rig.now_s >= rig.lease.until_s
    assert rig.stream.delivered_messages == pytest.approx(0.4 / step_s, abs=1)


def test_nothing_flows_at_the_moment_when_the_lease_ends() -> None:
    """It is over then, not after."""
    rig = Rig()
    feed = rig.own()
    rig.lease.until_s = rig.now_s + LOOK_INTERVAL_S / 2
    rig.fetch(feed, messages([b"a", b"b", b"c"]))
    loop = iter(rig.stream)
    assert [next(loop).payload for _ in range(2)] == [b"a", b"b"]
    rig.now_s = rig.lease.until_s
    assert list(loop) == []


def test_a_stream_waits_for_its_lease_without_being_told() -> None:
    """It looks every now and then."""
    rig = Rig(timeout_ms=-1)
    feed = rig.own()
    rig.lease.until_s = 0
    rig.fetch(feed, messages([b"a"]))
    seen: list[Message] = []
    thread = in_thread(lambda: seen.append(next(rig.stream)))
    rig.lease.until_s = rig.now_s + 1
    thread.join(WAIT_S)
    assert [message.payload for message in seen] == [b"a"]


@pytest.mark.parametrize("is_locked", [False, True])
def test_a_forked_child_is_told_that_the_stream_is_the_parents(is_locked: bool) -> None:
    """Nobody fetches for it there; also where another thread of the parent is at the stream, and in mid-iteration."""
    rig = Rig(timeout_ms=-1)
    feed = rig.own()
    rig.fetch(feed, messages([b"a", b"b", b"c"]))
    iteration = iter(rig.stream)
    assert next(iteration).payload == b"a"
    with rig.stream._queue.lock if is_locked else contextlib.nullcontext():
        child = os.fork()
        if child == 0:
            signal.alarm(WAIT_S)  # it would wait for ever
            refused = 0
            for use in (
                lambda: next(iteration),
                lambda: next(rig.stream),
                lambda: next(rig.stream.batches()),
                lambda: next(rig.stream.sets()),
                rig.stream.poll,
            ):
                try:
                    use()
                except KafkaError:
                    refused += 1
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    assert [next(iteration).payload for _ in range(2)] == [b"b", b"c"]


READS: dict[str, Callable[[MessageStream], Any]] = {
    "each": next,
    "lists": lambda stream: next(stream.batches()),
    "sets": lambda stream: next(stream.sets()),
    "arrow": lambda stream: next(stream.arrow()),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_an_error_that_a_fetch_got_comes_behind_what_was_fetched_before(read: Callable[[MessageStream], Any]) -> None:
    """And again when the application goes on, until the broker answers otherwise."""
    rig = Rig()
    feed = rig.own()
    rig.fetch(feed, messages([b"a"]))
    assert read(rig.stream) is not None
    for _ in range(2):
        feed.refuse(feed.epoch, NotAllowedError("not you"))
        assert feed.reserve() is None
        with pytest.raises(NotAllowedError, match="not you"):
            read(rig.stream)
        rig.now_s += RESTART_PAUSE_S
    rig.fetch(feed, messages([b"b"]))
    assert [message.payload for message in rig.stream] == [b"b"]
    feed.refuse(feed.epoch - 1, NotAllowedError("of before a rewind"))
    assert list(rig.stream) == []


def test_a_second_thread_that_waits_for_the_same_stream_gets_an_error() -> None:
    """Each would take the other's message in hand for done."""
    stream = MessageStream("g_m-0", max_chunks=1, timeout_ms=-1, shallow=False, clock=SYSTEM_CLOCK)
    ended: list[object] = []
    reader = threading.Thread(target=lambda: ended.append(next(stream, None)), daemon=True)
    reader.start()
    eventually(lambda: stream.is_asked)
    with pytest.raises(KafkaError, match="g_m-0 is read by another thread: each needs a stream of its own"):
        next(stream)
    stream.close()
    reader.join(WAIT_S)
    assert ended == [None]
    assert next(stream, None) is None  # one after the other they may
