"""Publishing what a topic holds again, into another topic or cluster: 0.7's ReplayLogProducer."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka2011.consumer.feed import StoredSet
from kafka2011.errors import KafkaError
from kafka2011.message.message_set import complete_prefix_bytes, scan

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Sequence

    from kafka2011.consumer.simple_consumer import SimpleConsumer
    from kafka2011.mirror.forwarder import Forwarder
    from zk.cluster import TopicPartition

_LOOK_S = 0.1


@dataclass(slots=True)
class ReplayRange:
    """What is to be replayed of a partition: from an offset to another; `offset` moves on."""

    where: TopicPartition
    consumer: SimpleConsumer
    offset: int
    end_offset: int


def replay(
    ranges: Sequence[ReplayRange],
    forwarder: Forwarder,
    *,
    fetch_bytes: int,
    stop: threading.Event,
    max_messages: int | None = None,
    delay_ms: int = 0,
) -> None:
    """Forward ranges of partitions, in turns, and return when all is confirmed or left out, or after `stop`.

    At most `max_messages` in all, where a compressed set counts as one; with a pause of `delay_ms` after each set of
    up to `fetch_bytes`. Raises MirrorError for what the target does not take, KafkaError for what cannot be read.
    """
    for stored in stored_sets(ranges, fetch_bytes, max_messages):
        forwarder.forward(stored)
        if stop.wait(delay_ms / 1000):
            break
    while (oldest := forwarder.window.oldest()) and not stop.is_set():
        wait([sent.future for sent in oldest if sent.future is not None], _LOOK_S, return_when=FIRST_COMPLETED)
        forwarder.settle()


def stored_sets(
    ranges: Sequence[ReplayRange], fetch_bytes: int, max_messages: int | None = None
) -> Iterator[StoredSet]:
    """Yield what ranges hold, one fetch of each in turn."""
    left = max_messages
    waiting = [replayed for replayed in ranges if replayed.offset < replayed.end_offset]
    while waiting:
        for replayed in waiting:
            data = _fetch(replayed, fetch_bytes)
            if left is not None:
                taken = scan(data, max_messages=left)
                if taken.fault is None:
                    data = data[: taken.end]
                left -= taken.messages
            offset, replayed.offset = replayed.offset, replayed.offset + len(data)
            yield StoredSet(*replayed.where, offset, replayed.offset, data)
            if left == 0:
                return
        waiting = [replayed for replayed in waiting if replayed.offset < replayed.end_offset]


def _fetch(replayed: ReplayRange, fetch_bytes: int) -> bytes:
    """Return whole messages from where a range stands, none from beyond its end."""
    topic, _, partition = replayed.where
    fetched = replayed.consumer.fetch(
        topic, partition, replayed.offset, min(fetch_bytes, replayed.end_offset - replayed.offset)
    )
    complete_bytes = complete_prefix_bytes(fetched.data)
    if not complete_bytes:
        next(iter(fetched), None)  # raises what is wrong
        raise KafkaError(
            f"{replayed.where} ends at offset {replayed.offset}, before {replayed.end_offset}, where it ended before"
        )
    return fetched.data[:complete_bytes]
