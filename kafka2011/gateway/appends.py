"""Appends what today's clients send to one partition: sent, readable, and then answered.

Each stored set has a mark, and is looked for behind the old end of the log: other producers append there too, so no
number is ever guessed. What comes meanwhile is sent behind it on the same connection, without waiting. A set whose fate
is unknown is sent again as it was: of two with one mark the first counts.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import gevent
from gevent.event import Event

from kafka2011.errors import BrokerConnectionError, KafkaError
from kafka2011.gateway.numbering.producers import SequenceAnswer
from kafka2011.gateway.numbering.senders import MOST_MARKS
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.wire.protocol import produce_frame, produce_head, topic_field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka2011.gateway.links import BrokerLink, BrokerLinks
    from kafka2011.gateway.numbering.boundaries import Numbered
    from kafka2011.gateway.numbering.producers import ProducerStates, SequenceVerdict
    from kafka2011.gateway.partition_log import PartitionLog
    from kafka2011.gateway.records.found import Origin
    from kafka2011.gateway.tail import BrokerTail

logger = logging.getLogger(__name__)

MOST_BYTES = 4 * 1024 * 1024
MOST_SETS = MOST_MARKS // 2
"""How many sets of a partition are under way at most: they may have to be sent again, and the marks of the first copies
must still be known when the second ones come."""
RETRY_S = 0.2
_REFUSALS = {
    SequenceAnswer.OUT_OF_ORDER: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    SequenceAnswer.DUPLICATE: ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    SequenceAnswer.FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
}
GAP_S = 30.0
"""For how long a batch may be missing before others of its producer: it was refused, or waits at another appender."""
UNSEEN_S = 2.0
"""How long a batch from the middle of an unknown producer's sequence waits for those before it."""
SETTLE_S = 2.0
"""How long the end of a log may take to become known again before sets of unknown fate are sent again."""


@dataclass(eq=False)
class Append:
    """Some sets for one partition, and what became of them: `error` and `first_number` once `done` is set.

    `first_number` is -1 where it is not known. Plain sets have no origin.
    """

    sets: list[tuple[bytes, Origin | None]] = field(default_factory=list)
    batch: Origin | None = None
    """The whole batch of an idempotent producer."""
    log: PartitionLog | None = None
    """The log that it is appended to; None for what is refused before."""
    is_acknowledged: bool = True
    error: ErrorCode = ErrorCode.NONE
    first_number: int = -1
    deadline_s: float = 0.0
    """Until when it must be readable, once it has begun."""
    is_in_flight: bool = False
    """Whether the partition's producers know it as being appended."""
    is_sent: bool = False
    refused_on: int = -1
    """The connection to the tail that was open when the broker refused it alone; -1 if it did not."""
    is_partial: bool = False
    is_repeated: bool = False
    """Whether the log held some of it already, sent by another gateway or before a kill."""
    text: str = ""
    records: int = 0
    numbers: dict[bytes, int] = field(default_factory=dict)
    done: Event = field(default_factory=Event)
    repeats: list[Append] = field(default_factory=list)
    """The same batch, sent again before it was answered."""

    @property
    def size(self) -> int:
        """How many bytes its sets have."""
        return sum([len(data) for data, _ in self.sets])

    @property
    def is_plain(self) -> bool:
        """Whether it will not be found, as plain sets have no marks; the broker has to confirm it."""
        return bool(self.sets) and self.sets[0][1] is None

    @property
    def needs_number(self) -> bool:
        """Whether it must be found in the log."""
        return self.batch is not None or (self.is_acknowledged and not self.is_plain)

    @property
    def missing(self) -> list[tuple[bytes, Origin | None]]:
        """The sets that have not been found in the log."""
        return [(data, origin) for data, origin in self.sets if origin is None or origin.mark not in self.numbers]

    @property
    def base(self) -> int:
        """The number of its first record, if all others follow it, as clients take for granted; else -1."""
        base = following = -1
        if self.is_partial:
            return -1
        for _, origin in self.sets:
            number = -1 if origin is None else self.numbers.get(origin.mark, -1)
            if origin is None or number < 0 or following not in {-1, number}:
                return -1
            base = number if base < 0 else base
            following = number + origin.records
        return base

    def finish(self, error: ErrorCode = ErrorCode.NONE, first_number: int = -1) -> None:
        """Say what became of it, and wake who waits."""
        if not self.done.is_set():
            self.error, self.first_number = error, first_number
            self.done.set()
            for repeat in self.repeats:
                repeat.finish(error, first_number)


class Appender:
    """Appends to one partition in the order in which it is asked. `holds` says whether this gateway still may."""

    def __init__(
        self,
        log: PartitionLog,
        links: BrokerLinks,
        tail: BrokerTail,
        holds: Callable[[], bool],
        timeout_s: float,
    ) -> None:
        self._log = log
        self._links = links
        self._tail = tail
        self._holds = holds
        self._timeout_s = timeout_s
        self._topic = topic_field(log.where.topic)
        self._waiting: deque[Append] = deque()
        self._begun: list[Append] = []  # and not ended, in the order in which they are sent
        self._awaited: dict[bytes, Append] = {}
        self._moved = Event()  # something has come, or was found
        self._has_failed = False  # the connection on which something was sent
        self._gaps: dict[int, float] = {}  # since when batches are missing, by the producer
        self._is_running = False
        log.on_pieces = self._note
        log.sent_sets = self._sent_sets

    def append(self, append: Append) -> None:
        """Begin to append; its `done` is set at the end."""
        self._waiting.append(append)
        self._moved.set()
        if not self._is_running:
            self._is_running = True
            gevent.spawn(self._run)

    def _run(self) -> None:
        try:
            while self._waiting or self._begun:
                self._pass()
        finally:
            self._is_running = False

    def _pass(self) -> None:
        """Append what waits; what was begun and was not found is sent again."""
        try:
            if not self._log.is_current and any(append.needs_number for append in (*self._begun, *self._waiting)):
                self._settle()
            self._stream()
            self._has_failed = False
        except BrokerConnectionError as error:
            logger.info("%s: sends are tried again: %s", self._log.where, error)
            self._has_failed = True
            gevent.sleep(RETRY_S)
        except Exception:
            logger.exception("an append to %s failed", self._log.where)
            self._begun += self._waiting
            self._waiting.clear()
            self._give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _stream(self) -> None:
        """Send on one connection what waits and what comes meanwhile, until nothing is under way.

        Raises BrokerConnectionError if the connection is lost: nobody knows what the broker has kept.
        """
        with self._links.link() as link:
            unsent, send = [*self._begun], self._send_alone if self._has_failed else self._send
            unsent += self._begin_waiting()
            while True:
                self._moved.clear()
                if not self._may_go_on():
                    return
                if unsent:
                    send(link, unsent)
                    unsent, send = [], self._send
                self._end_done()
                if not self._begun:
                    return
                self._tail.want(self._log)
                if not self._moved.wait(RETRY_S):
                    link.confirm()  # which fails if the broker has crashed, or has refused something
                self._end_done()
                if self._waiting and self._log.is_current:
                    unsent += self._begin_waiting()
                if not self._begun:
                    return

    def _begin_waiting(self) -> list[Append]:
        """Begin with those that wait and may be under way with the others; return those that have to be sent."""
        size, sets = sum([each.size for each in self._begun]), sum([len(each.sets) for each in self._begun])
        unsent: list[Append] = []
        while self._waiting:
            append = self._waiting[0]
            size, sets = size + append.size, sets + len(append.sets)
            if self._begun and (size > MOST_BYTES or sets > MOST_SETS):
                break
            self._begun.append(self._waiting.popleft())
            if self._begin(append):
                unsent.append(append)
            else:
                self._begun.remove(append)
        return unsent

    def _begin(self, append: Append) -> bool:
        """Say whether it has to be appended; answer it if not."""
        append.deadline_s = time.monotonic() + self._timeout_s
        try:
            states = self._log.index().producers
        except (KafkaError, OSError) as error:
            logger.info("%s cannot be appended to: %s", self._log.where, error)
            append.finish(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return False
        if append.needs_number and not self._log.is_current:
            # Its sequence may be in what has not been read yet; and what cannot be found would be sent again and again.
            self._gaps.clear()  # later batches wait for this one from now on
            append.finish(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return False
        if append.batch is not None and self._may_be_early(append.batch, states):
            append.finish(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return False
        if append.batch is not None and not self._is_new(append, states.check(append.batch), append.batch):
            return False
        if append.batch is not None:
            self._gaps.pop(append.batch.producer_id, None)
            states.begin(append.batch)
            append.is_in_flight = True
        for _, origin in append.sets:
            if origin is not None:
                self._awaited[origin.mark] = append
        return True

    def _is_new(self, append: Append, verdict: SequenceVerdict, batch: Origin) -> bool:
        """Say whether a batch of an idempotent producer has to be appended, or the rest of it; answer it if not."""
        if verdict.answer is SequenceAnswer.IN_FLIGHT:
            in_flight = (each for each in self._begun if each.is_in_flight and each.batch is not None)
            first = next(each for each in in_flight if each.batch is not None and each.batch[:3] == batch[:3])
            first.repeats.append(append)
            if first.done.is_set():
                append.finish(first.error, first.first_number)
        elif verdict.answer is SequenceAnswer.REPEAT:
            append.finish(first_number=verdict.first_number)
        elif verdict.answer is SequenceAnswer.OUT_OF_ORDER and self._may_close(batch, GAP_S):
            append.finish(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif verdict.answer is not SequenceAnswer.APPEND:
            append.finish(_REFUSALS[verdict.answer])
        elif verdict.stored:  # a crash has cut the rest: its numbers will not adjoin
            stored = verdict.stored
            while stored > 0 and append.sets:
                _, origin = append.sets.pop(0)
                stored -= origin.records if origin is not None else 0
            append.is_partial = True
            if stored:
                append.finish(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        return not append.done.is_set() and verdict.answer is SequenceAnswer.APPEND

    def _may_be_early(self, batch: Origin, states: ProducerStates) -> bool:
        """Say whether a batch may have overtaken the first ones of its producer, of which nothing is known.

        Those may have been refused a moment ago, when the end of the log was not known. librdkafka takes a later batch
        that is stored for the proof that all before it are, and never sends them again. It sends them in order once
        this one is refused, too.
        """
        return bool(batch.first_sequence) and not states.knows(batch.producer_id) and self._may_close(batch, UNSEEN_S)

    def _may_close(self, batch: Origin, gap_s: float) -> bool:
        """Say whether the batches that are missing before this one may still come.

        When a broker has moved, those that were under way are answered late, and come again behind others. A client
        that is told of a gap takes a new epoch and sends all of them again, also what is stored.
        """
        now_s = time.monotonic()
        self._gaps = {producer: since_s for producer, since_s in self._gaps.items() if now_s - since_s < 2 * GAP_S}
        return now_s - self._gaps.setdefault(batch.producer_id, now_s) < gap_s

    def _may_go_on(self) -> bool:
        """Say whether what is under way may be sent and waited for; answer all of it if not."""
        if not self._holds():
            self._give_up(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return False
        if self._begun and self._begun[0].deadline_s <= time.monotonic():
            logger.warning("%s: %d sends could not be confirmed in time", self._log.where, len(self._begun))
            self._give_up(ErrorCode.REQUEST_TIMED_OUT)
            return False
        return True

    def _give_up(self, error: ErrorCode) -> None:
        """Answer all that is under way. What was sent may be stored, and clients must not think otherwise."""
        for append in self._begun:
            append.finish(ErrorCode.REQUEST_TIMED_OUT if append.is_sent else error)
        self._end_done()

    def _send(self, link: BrokerLink, appends: list[Append]) -> None:
        parts = [part for append in appends for part in self._frame(append)]
        if any(append.is_acknowledged and append.is_plain for append in appends):
            link.confirm(*parts)
        else:
            link.send(*parts)
        self._finish_sent(appends)

    def _send_alone(self, link: BrokerLink, appends: list[Append]) -> None:
        """Send one by one, to see whether the broker refuses one of them for its size: 0.7 does not say why.

        It counts as refused if that happens twice, each time right after an empty set was taken, while the connection
        to the tail stays: so the broker has not crashed, and takes other sets for this partition.
        """
        for append in appends:
            link.confirm(produce_frame(self._topic, self._log.where.partition, b""))
            connections = self._tail.connections
            try:
                link.confirm(*self._frame(append))
            except BrokerConnectionError:
                if append.refused_on == self._tail.connections:
                    self._refuse(append)
                append.refused_on = connections
                raise
            self._finish_sent([append])

    def _refuse(self, append: Append) -> None:
        size = max(len(data) for data, _ in append.sets)
        append.text = f"the broker refuses a message of {size} bytes: its max.message.size is below the gateway's"
        logger.warning("%s: %s", self._log.where, append.text)
        append.finish(ErrorCode.MESSAGE_TOO_LARGE)

    def _frame(self, append: Append) -> list[bytes]:
        append.is_sent = True
        sets = [data for data, _ in append.missing]
        return [produce_head(self._topic, self._log.where.partition, sum(map(len, sets))), *sets]

    @staticmethod
    def _finish_sent(appends: list[Append]) -> None:
        """Answer those that will not be found: nobody waits for them, or they have no marks."""
        for append in appends:
            if not append.is_acknowledged or append.is_plain:
                append.finish()

    def _settle(self) -> None:
        """Let the end of the log be read: what is there is not sent again, and what comes will be found."""
        deadline_s = time.monotonic() + SETTLE_S
        while not self._log.is_current and self._holds() and time.monotonic() < deadline_s:
            self._tail.want(self._log)
            self._log.changes.wait(RETRY_S)

    def _sent_sets(self) -> Iterator[tuple[bytes, Origin]]:
        """Give the sets that are looked for, in the order in which they were sent, up to one without a mark."""
        for append in self._begun:
            if not append.is_sent or append.is_plain:
                return
            yield from [(data, origin) for data, origin in append.missing if origin is not None]

    def _note(self, pieces: list[Numbered]) -> None:
        """Note which sets have become readable, and with which numbers."""
        for piece, first_number, is_repeat in pieces:
            append = self._awaited.pop(piece.origin.mark, None) if piece.origin is not None else None
            if append is None or piece.origin is None:
                continue
            number = first_number
            if is_repeat:  # sent by a gateway before this one, and stored late
                number = self._log.index().producers.stored_at(piece.origin)
            append.numbers[piece.origin.mark] = number
            append.is_repeated |= is_repeat
            if len(append.numbers) == len(append.sets):
                self._finish_found(append)

    def _finish_found(self, append: Append) -> None:
        """Answer what is readable, unless it does not count: a newer epoch of its producer was stored before it."""
        error = ErrorCode.NONE
        if append.batch is not None and append.is_repeated:
            states = self._log.index().producers
            states.end(append.batch)
            error = _REFUSALS.get(states.check(append.batch).answer, error)
        append.finish(error, append.base)
        self._tail.note_wait(time.monotonic() - append.deadline_s + self._timeout_s)
        self._moved.set()

    def _end_done(self) -> None:
        """End those that are answered."""
        if not self._begun:
            return
        done = [append for append in self._begun if append.done.is_set()]
        if not done:
            return
        self._begun = [append for append in self._begun if not append.done.is_set()]
        index = self._log.known_index
        for append in done:
            if append.is_in_flight and append.batch is not None and index is not None:
                index.producers.end(append.batch)
            for _, origin in append.sets:
                if origin is not None:
                    self._awaited.pop(origin.mark, None)
