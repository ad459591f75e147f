"""A group member that is a tier of the audit: it reports what it has read before it commits."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Self

from kafka2011.config import ConsumerConfig
from kafka2011.consumer.connector import ConsumerConnector
from kafka2011.consumer.rebalance_listener import RebalanceListener
from kafka2011.errors import KafkaError
from kafka2011.outages import Outages
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    from kafka2011.audit.counter import AuditCounter
    from kafka2011.consumer.stream import MessageStream
    from kafka2011.message.message_set import Message

logger = logging.getLogger(__name__)

_JOIN_S = 10.0


class _InHand(NamedTuple):
    """A list that the program is still working on: its reader, and the ownership under which it was handed out."""

    reader: threading.Thread
    where: TopicPartition
    ownership: object
    messages: list[Message]


class AuditedConsumer(RebalanceListener):
    """Consumes with a `connector`; messages are counted, reported, and only then committed; a context manager.

        with open_counter("live", zk_connect) as counter, AuditedConsumer(settings, counter) as consumer:
            [stream] = consumer.connector.create_message_streams({"views": 1})["views"]
            for messages in consumer.batches(stream):
                ...

    So a member that is killed loses counts only of messages that the next owner counts again. Reports and commits every
    autocommit.interval.ms, before a partition is given up, and at the end. As always, a list is done when the program
    asks for the next one, and not done if an exception leaves the block. The counter stays the caller's.
    """

    def __init__(self, config: ConsumerConfig | Mapping[str, object], counter: AuditCounter) -> None:
        given = ConsumerConfig.of(config)
        self._interval_s = given.autocommit_interval_ms / 1000
        self._counter = counter
        self._lock = threading.Lock()
        self.in_hand: dict[MessageStream, _InHand] = {}
        self._ownerships: dict[TopicPartition, object] = {}  # a new object each time a partition is assigned
        self._ends: dict[TopicPartition, int] = {}  # the offset after what was counted
        self._committed: dict[TopicPartition, int] = {}
        self._committing = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audited commits", daemon=True)
        self.connector = ConsumerConnector(replace(given, autocommit_enable=False), self, explicit_commits=True)
        self._thread.start()

    def batches(self, stream: MessageStream, max_messages: int = 1000) -> Iterator[list[Message]]:
        """Yield lists as `stream.batches` does, and count each list when the program asks for the next one.

        Also raises KafkaError when counts could not be reported for so long that no more can be held.
        """
        lists = stream.batches(max_messages)
        while True:
            self._count_in_hand(stream)
            messages = next(lists, None)
            if messages is None:
                return
            topic, broker_id, partition = messages[0][:3]
            assert broker_id is not None, "a group reads from brokers that it knows"
            where = TopicPartition(topic, broker_id, partition)
            with self._lock:
                ownership = self._ownerships.get(where)
                self.in_hand[stream] = _InHand(threading.current_thread(), where, ownership, messages)
            yield messages

    def commit(self) -> None:
        """Commit what was counted, after reporting it; the list that this thread is processing counts as consumed.

        Raises KafkaError when it cannot be reported, and then nothing is committed, or when it cannot be committed.
        """
        with self._lock:
            mine = [stream for stream, held in self.in_hand.items() if held.reader is threading.current_thread()]
        for stream in mine:
            self._count_in_hand(stream)
        self._commit()

    def close(self) -> None:
        """Leave the group after a report and a commit; the list that this thread is processing counts as consumed."""
        self._close(is_done=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close(is_done=exc_type is None)

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Note that nothing was committed here for these partitions yet."""
        with self._lock:
            for where in partitions:
                self._ownerships[where] = object()
                self._forget(where)

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Report and commit what was counted of these partitions before they are given up."""
        try:
            self._commit()
        finally:
            with self._lock:
                for where in partitions:
                    self._ownerships.pop(where, None)
                    self._forget(where)

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget these partitions: their new owner counts the messages again."""
        with self._lock:
            for where in partitions:
                self._ownerships.pop(where, None)
                self._forget(where)

    # Inside ----------------------------------------------------------------------------------------------------------

    def _forget(self, where: TopicPartition) -> None:
        self._ends.pop(where, None)
        self._committed.pop(where, None)

    def _count_in_hand(self, stream: MessageStream) -> None:
        """Count the list of a stream that the program has finished with."""
        with self._lock:
            held = self.in_hand.pop(stream, None)
        if held is None:
            return
        self._counter.count_messages(held.messages)
        with self._lock:
            if held.ownership is not None and self._ownerships.get(held.where) is held.ownership:
                self._ends[held.where] = held.messages[-1].next_offset

    def _commit(self) -> None:
        with self._committing:
            with self._lock:
                ends = dict(self._ends)
            self._counter.report()
            with self._lock:  # the new owner of a lost partition may have got further by now
                ends = {where: end for where, end in ends.items() if where in self._ends}
            owned = set(self.connector.owned_partitions())
            due: dict[tuple[str, int, int], int] = {
                where: end for where, end in ends.items() if where in owned and self._committed.get(where) != end
            }
            if due:
                self.connector.commit_offsets(due)
                with self._lock:
                    self._committed.update({where: end for where, end in ends.items() if where in self._ends})

    def _run(self) -> None:
        outages = Outages(logger)
        while not self._closing.wait(self._interval_s):
            try:
                self._commit()
                outages.over()
            except KafkaError as error:
                outages.failed("%s: offsets are not committed for now: %s", self.connector.consumer_id, error)
            except Exception:
                logger.exception("%s: an unexpected error in its commits", self.connector.consumer_id)

    def _close(self, *, is_done: bool) -> None:
        self._closing.set()
        if self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)
        try:
            if is_done:
                self.commit()
        finally:
            if is_done:
                self.connector.shutdown()
            else:
                self.connector.__exit__(KafkaError, None, None)
