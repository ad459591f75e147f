"""Sends the sets of one source into the target, and settles them in order once they are confirmed or left out."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kafka2011.counters import Counters
from kafka2011.errors import InvalidMessageError, KafkaError
from kafka2011.message.message_set import MessageSet, decode
from kafka2011.message.topic import InvalidTopicError
from kafka2011.mirror.commit_window import CommitWindow, SentSet
from kafka2011.mirror.partition_choice import PartitionChoice
from kafka2011.mirror.pieces import halves, pieces
from kafka2011.producer.encoder import checked_topic_field
from kafka2011.producer.errors import SetRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Future

    from kafka2011.consumer.feed import StoredSet
    from kafka2011.message.message_set import Message
    from kafka2011.mirror.target import Target
    from kafka2011.producer.batch import Receipt
    from zk.cluster import TopicPartition

logger = logging.getLogger(__name__)

WINDOW_BYTES = 64 * 1024 * 1024
_LOOK_S = 0.1
_REPORT_AGAIN_S = 1.0


class MirrorError(KafkaError):
    """Means that the target cannot accept a message; the text has its topic, partition, offset and the reason."""


class Counting(Protocol):
    """Counts what passes, for the audit."""

    def count_messages(self, messages: Sequence[Message]) -> object:
        """Count messages of one source partition, which the target has confirmed.

        Raises KafkaError when they are counted, but what is held has to be reported and cannot be.
        """

    def report(self) -> object:
        """Publish what was counted; when it returns, that is confirmed."""


@dataclass(slots=True)
class ForwardCounts(Counters):
    """Counts confirmed sets, messages (a compressed set counts as one) and bytes, and what was left out.

    `repeated_bytes` were sent and not committed when a partition was given up, and may come twice.
    """

    sets: int = 0
    messages: int = 0
    bytes: int = 0
    skipped: int = 0
    skipped_bytes: int = 0
    repeated_bytes: int = 0


class Forwarder:
    """Forwards sets of one source. Threads may share it, as long as each partition's sets come from one at a time.

    `sources` gives the partitions of a source topic; `to_topic` renames, None keeps each name. What the target does not
    take is a MirrorError, or with `skip_refused` is left out, logged and counted. `forward` raises it. If it turns out
    later, the partition is halted, and `failed` is called with the partition and the error. `stop` ends every wait.
    """

    def __init__(
        self,
        target: Target,
        sources: Callable[[str], Sequence[TopicPartition]],
        *,
        stop: threading.Event,
        failed: Callable[[TopicPartition, Exception], object],
        window_bytes: int = WINDOW_BYTES,
        to_topic: str | None = None,
        skip_refused: bool = False,
        counter: Counting | None = None,
    ) -> None:
        self._target = target
        self._sources = sources
        self._stop = stop
        self._failed = failed
        self._to_topic = to_topic
        self._skip_refused = skip_refused
        self._counter = counter
        self._choice = PartitionChoice()
        self._choosing = threading.Lock()
        self._settling = threading.RLock()
        self._adding = threading.Lock()
        self._halted: set[TopicPartition] = set()
        self.window = CommitWindow(window_bytes)
        self.counts = ForwardCounts()

    def forward(self, stored: StoredSet) -> None:
        """Send a set, once there is room for it; nothing after `stop`, or when its partition has gone or is halted.

        While its broker in the target is away, a set of a stream is put back: it comes again once that broker answers.
        Raises MirrorError for what the target does not take.
        """
        try:
            checked_topic_field(self._topic_for(stored.where))
        except InvalidTopicError as error:
            self._leave_out(stored, stored.offset, len(stored.data), str(error))
            return
        try:
            message_set = MessageSet.from_bytes(stored.data)
        except InvalidMessageError:
            self._forward_pieces(stored)
            return
        if message_set.largest_payload_bytes > self._target.max_payload_bytes:
            self._forward_pieces(stored)
        else:
            self._send(stored, stored.offset, message_set)

    def settle(self) -> None:
        """Settle what is confirmed, partition by partition; `failed` gets what cannot be, and others go on."""
        with self._settling:
            for sent in self.window.done():
                try:
                    self._end(sent)
                except MirrorError as error:
                    self.halt(sent.where)
                    self.counts.add(repeated_bytes=self.window.cut(sent.where))
                    self._failed(sent.where, error)
                else:
                    self.window.settle(sent)

    def await_confirmation(self, partitions: Iterable[TopicPartition], timeout_s: float) -> None:
        """Wait until all that was sent of some partitions is confirmed, at most so long."""
        wait(self.window.futures_of(partitions), timeout_s)

    def due(self, timeout_s: float) -> dict[TopicPartition, int]:
        """Settle, and return what may be committed, which is reported to the audit by then.

        Raises KafkaError when it cannot be reported, or when another thread has waited for that for so long.
        """
        if not self._settling.acquire(timeout=timeout_s):
            raise KafkaError(f"something that the target or the audit has to confirm is waited for since {timeout_s} s")
        try:
            self.settle()
            due = self.window.due()
            if due and self._counter is not None:
                self._counter.report()
            return due
        finally:
            self._settling.release()

    def halt(self, where: TopicPartition) -> None:
        """Send nothing more of a partition until it was dropped. What was sent before can still be committed."""
        with self._adding:
            self._halted.add(where)

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that go to another."""
        for where in partitions:
            with self._adding:
                self._halted.discard(where)
                repeated_bytes = self.window.drop(where)
            if repeated_bytes:
                self.counts.add(repeated_bytes=repeated_bytes)
                logger.warning("%s: %d bytes were sent and not committed: they may arrive twice", where, repeated_bytes)

    # Inside ------------------------------------------------------------------------------------------------------

    def _send(self, stored: StoredSet, offset: int, message_set: MessageSet) -> None:
        """Send a set once its broker's share of the window has room, or put it back if that broker seems to be away."""
        end_offset = offset + len(bytes(message_set))
        while not self._stop.is_set():
            to = self._choose(stored.where)
            broker_id = None if to is None else to.broker_id
            if self._has_room(end_offset - offset, broker_id):
                if self._is_wanted(stored):
                    future = self._publish(stored.where, message_set, to)
                    self._add(stored, SentSet(stored.where, offset, end_offset, message_set, future, broker_id))
                return
            awaited = self.window.awaited(broker_id)
            if self.window.is_stuck(broker_id) and awaited and self._put_back(stored, offset, awaited[0]):
                return
            wait(awaited, _LOOK_S, return_when=FIRST_COMPLETED)

    def _has_room(self, size_bytes: int, broker_id: int | None) -> bool:
        if self.window.fits(size_bytes, broker_id):
            return True
        self.settle()
        return self.window.fits(size_bytes, broker_id)

    def _put_back(self, stored: StoredSet, offset: int, future: Future[Receipt]) -> bool:
        """Leave a partition alone until a broker has confirmed something, so that its stream goes on with others."""
        resume = stored.put_back(offset)
        if resume is None:
            return not stored.is_current
        logger.info("%s waits at offset %d: its broker in the target confirms nothing", stored.where, offset)
        future.add_done_callback(lambda _: resume())
        return True

    def _choose(self, where: TopicPartition) -> TopicPartition | None:
        """Return the target's partition for a source's; None where any will do."""
        targets = self._target.partitions(self._topic_for(where))
        with self._choosing:
            return self._choice.choose(where, self._sources(where.topic), targets)

    def _publish(self, where: TopicPartition, message_set: MessageSet, to: TopicPartition | None) -> Future[Receipt]:
        return self._target.send(self._topic_for(where), message_set, to)

    def _topic_for(self, where: TopicPartition) -> str:
        return where.topic if self._to_topic is None else self._to_topic

    def _add(self, stored: StoredSet, sent: SentSet) -> None:
        """Add to the window, unless the partition has gone or was halted meanwhile: then the set is read again."""
        with self._adding:  # a partition that has gone is dropped only after its sets know it
            if self._is_wanted(stored):
                self.window.add(sent)
            elif sent.future is not None:
                self.counts.add(repeated_bytes=sent.next_offset - sent.offset)

    def _is_wanted(self, stored: StoredSet) -> bool:
        return stored.is_current and stored.where not in self._halted

    def _end(self, sent: SentSet) -> None:
        if sent.future is not None and sent.message_set is not None:
            error = sent.future.exception()
            if error is None:
                self._passed(sent, sent.message_set)
            else:
                self._refused(sent, sent.message_set, error)

    def _passed(self, sent: SentSet, message_set: MessageSet) -> None:
        if self._counter is not None:
            self._count(self._counter, sent, message_set)
        self.counts.add(sets=1, messages=message_set.outer_messages, bytes=len(bytes(message_set)))

    def _count(self, counter: Counting, sent: SentSet, message_set: MessageSet) -> None:
        """Open a copy of a set and count what is in it."""
        try:
            messages = list(decode(bytes(message_set), *sent.where, sent.offset))
        except InvalidMessageError as error:
            logger.warning("the target has confirmed messages that the audit cannot count: %s", error)
        else:
            try:
                counter.count_messages(messages)
            except KafkaError as error:  # they are counted, but no more may be held
                self._await_report(counter, error)

    def _await_report(self, counter: Counting, error: KafkaError) -> None:
        """Go on once the counts are reported, or after `stop`."""
        logger.warning("waiting until the audit's counts are reported: %s", error)
        while not self._stop.wait(_REPORT_AGAIN_S):
            try:
                counter.report()
            except KafkaError as still:
                logger.info("the audit's counts are still not reported: %s", still)
            else:
                return

    # What the target does not take -------------------------------------------------------------------------------

    def _forward_pieces(self, stored: StoredSet) -> None:
        """Send what is good of a set, and leave the rest out if that is wanted."""
        for start, end, fault in pieces(stored.data, self._target.max_payload_bytes):
            if not self._is_wanted(stored):  # another has it, or it comes again from here on
                return
            if fault is None:
                self._send(stored, stored.offset + start, MessageSet.from_bytes(stored.data[start:end]))
            else:
                self._leave_out(stored, stored.offset + start, end - start, fault)

    def _leave_out(self, stored: StoredSet, offset: int, size_bytes: int, why: str) -> None:
        self._note_left_out(f"{size_bytes} bytes at offset {offset} of {stored.where}", size_bytes, why)
        self._add(stored, SentSet(stored.where, offset, offset + size_bytes, None, None))

    def _refused(self, sent: SentSet, message_set: MessageSet, error: BaseException) -> None:
        """Leave out the messages for which a broker refused a set, and send the others again, one half at a time."""
        what = f"{counted(message_set)} at offset {sent.offset} of {sent.where}"
        if not isinstance(error, SetRefusedError):
            raise MirrorError(f"{what}: {error}") from error
        divided = halves(bytes(message_set)) if self._skip_refused else None
        if divided is None:
            self._note_left_out(what, len(bytes(message_set)), str(error))
            return
        offset = sent.offset
        for half in map(MessageSet.from_bytes, divided):
            future = self._publish(sent.where, half, self._choose(sent.where))
            again = SentSet(sent.where, offset, offset + len(bytes(half)), half, future)
            offset = again.next_offset
            failure = self._outcome(future)
            if failure is None:
                self._passed(again, half)
            else:
                self._refused(again, half, failure)

    def _outcome(self, future: Future[Receipt]) -> BaseException | None:
        while not future.done():
            if self._stop.is_set():
                return MirrorError("not confirmed before the end")
            wait([future], _LOOK_S)
        return future.exception()

    def _note_left_out(self, what: str, size_bytes: int, why: str) -> None:
        if not self._skip_refused:
            raise MirrorError(f"{what}: {why}")
        self.counts.add(skipped=1, skipped_bytes=size_bytes)
        logger.warning("left out %s: %s", what, why)


def counted(message_set: MessageSet) -> str:
    """Return how many messages a set has, in words."""
    messages = message_set.outer_messages
    return "a message" if messages == 1 else f"a set of {messages} messages, {len(bytes(message_set))} bytes,"
