"""Appends what today's clients send to one partition, in rounds: sent, confirmed, readable, and then answered.

Each stored set has a mark, and is looked for behind the old end of the log: other producers append there too, so no
number is ever guessed. A set whose fate is unknown is sent again as it was: of two with one mark the first counts.
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
from kafka2011.wire.protocol import produce_frame, topic_field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka2011.gateway.links import BrokerLinks
    from kafka2011.gateway.numbering.boundaries import Numbered
    from kafka2011.gateway.numbering.producers import SequenceVerdict
    from kafka2011.gateway.partition_log import PartitionLog
    from kafka2011.gateway.records.found import Origin
    from kafka2011.gateway.tail import BrokerTail

logger = logging.getLogger(__name__)

ROUND_BYTES = 4 * 1024 * 1024
ROUND_SETS = MOST_MARKS // 2
"""A round may have to be sent again, and the marks of the first copy must still be known when the second one comes."""
RETRY_S = 0.2
_REFUSALS = {
    SequenceAnswer.OUT_OF_ORDER: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    SequenceAnswer.DUPLICATE: ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    SequenceAnswer.FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
}
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
    is_acknowledged: bool = True
    error: ErrorCode = ErrorCode.NONE
    first_number: int = -1
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
        return sum(len(data) for data, _ in self.sets)

    @property
    def needs_number(self) -> bool:
        """Whether it must be found in the log."""
        return self.batch is not None or (self.is_acknowledged and all(origin is not None for _, origin in self.sets))

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
        self._awaited: dict[bytes, Append] = {}
        self._in_flight: list[Append] = []
        self._is_running = False
        log.on_pieces = self._note

    def append(self, append: Append) -> None:
        """Begin to append; its `done` is set at the end."""
        self._waiting.append(append)
        if not self._is_running:
            self._is_running = True
            gevent.spawn(self._run)

    def _run(self) -> None:
        try:
            while self._waiting:
                self._round()
        finally:
            self._is_running = False

    def _round(self) -> None:
        begun: list[Append] = []
        appends: list[Append] = []
        self._settle()
        try:
            for append in self._next():
                begun.append(append)
                if self._begin(append):
                    appends.append(append)
            self._complete(appends)
        except Exception:
            logger.exception("an append to %s failed", self._log.where)
        finally:
            for append in begun:
                self._end(append)

    def _next(self) -> Iterator[Append]:
        """Take those that wait and fit into one round."""
        size = sets = 0
        while self._waiting:
            append = self._waiting[0]
            size, sets = size + append.size, sets + len(append.sets)
            if size > append.size and (size > ROUND_BYTES or sets > ROUND_SETS):
                return
            yield self._waiting.popleft()

    def _begin(self, append: Append) -> bool:
        """Say whether it has to be appended; answer it if not."""
        try:
            states = self._log.index().producers
        except (KafkaError, OSError) as error:
            logger.info("%s cannot be appended to: %s", self._log.where, error)
            append.finish(ErrorCode.LEADER_NOT_AVAILABLE)
            return False
        if append.needs_number and not self._log.is_current:
            # Its sequence may be in what has not been read yet; and what cannot be found would be sent again and again.
            append.finish(ErrorCode.LEADER_NOT_AVAILABLE)
            return False
        if append.batch is not None and not self._is_new(append, states.check(append.batch), append.batch):
            return False
        if append.batch is not None:
            states.begin(append.batch)
            self._in_flight.append(append)
        for _, origin in append.sets:
            if origin is not None:
                self._awaited[origin.mark] = append
        return True

    def _is_new(self, append: Append, verdict: SequenceVerdict, batch: Origin) -> bool:
        """Say whether a batch of an idempotent producer has to be appended, or the rest of it; answer it if not."""
        if verdict.answer is SequenceAnswer.IN_FLIGHT:
            first = next(other for other in self._in_flight if other.batch is not None and other.batch[:3] == batch[:3])
            first.repeats.append(append)
        elif verdict.answer is SequenceAnswer.REPEAT:
            append.finish(first_number=verdict.first_number)
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

    def _complete(self, appends: list[Append]) -> None:
        """Send what is to be appended, and wait until all of it is readable, or its time is over."""
        deadline_s = time.monotonic() + self._timeout_s
        lost = ErrorCode.NOT_LEADER_OR_FOLLOWER
        while unfinished := [append for append in appends if not append.done.is_set()]:
            self._settle()
            if not self._holds():
                for append in unfinished:
                    append.finish(lost)
                return
            if time.monotonic() >= deadline_s:
                logger.warning("%s: %d sends could not be confirmed in time", self._log.where, len(unfinished))
                for append in unfinished:
                    append.finish(ErrorCode.REQUEST_TIMED_OUT)
                return
            connections = self._tail.connections
            lost = ErrorCode.REQUEST_TIMED_OUT  # from here on it may be stored, and clients must not think otherwise
            try:
                self._send(unfinished)
            except BrokerConnectionError as error:
                logger.info("%s: sends are tried again: %s", self._log.where, error)
                gevent.sleep(RETRY_S)
            else:
                self._await(unfinished, connections, deadline_s)

    def _send(self, appends: list[Append]) -> None:
        frames = [
            produce_frame(self._topic, self._log.where.partition, b"".join(data for data, _ in append.missing))
            for append in appends
        ]
        with self._links.link() as link:
            if any(append.is_acknowledged for append in appends):
                link.confirm(*frames)
            else:
                link.send(*frames)
        for append in appends:
            if not append.is_acknowledged or any(origin is None for _, origin in append.sets):
                append.finish()

    def _await(self, appends: list[Append], connections: int, deadline_s: float) -> None:
        """Wait until all sets were found, unless the broker was lost meanwhile: then nobody knows what it has kept.

        It was lost if the connection that reads the end of the log is another one by then.
        """
        for append in appends:
            while not append.done.is_set() and self._tail.connections == connections and self._holds():
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    return
                self._tail.want(self._log)
                append.done.wait(min(left_s, RETRY_S))

    def _settle(self) -> None:
        """Let the end of the log be read: what is there is not sent again, and what comes will be found."""
        deadline_s = time.monotonic() + SETTLE_S
        while not self._log.is_current and time.monotonic() < deadline_s:
            self._tail.want(self._log)
            self._log.changes.wait(RETRY_S)

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
            if not append.missing:
                self._finish_found(append)

    def _finish_found(self, append: Append) -> None:
        """Answer what is readable, unless it does not count: a newer epoch of its producer was stored before it."""
        error = ErrorCode.NONE
        if append.batch is not None and append.is_repeated:
            states = self._log.index().producers
            states.end(append.batch)
            error = _REFUSALS.get(states.check(append.batch).answer, error)
        append.finish(error, append.base)

    def _end(self, append: Append) -> None:
        append.finish(ErrorCode.UNKNOWN_SERVER_ERROR)
        index = self._log.known_index
        if append in self._in_flight and append.batch is not None:
            self._in_flight.remove(append)
            if index is not None:
                index.producers.end(append.batch)
        for _, origin in append.sets:
            if origin is not None:
                self._awaited.pop(origin.mark, None)
