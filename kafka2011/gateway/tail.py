"""Follows the ends of one broker's logs: one fetch that waits at the broker, for all partitions that somebody wants.

Where a large set of the gateway's own is to come next, only its head is fetched, and the rest is what was sent. What
can be read always ends behind a whole message, so a set whose head can be read, with its length, its CRC and its mark,
is there as a whole. Those behind it are asked for in the same way, where they must be if nobody else has appended.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections import deque
from itertools import islice, takewhile
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import gevent
from gevent.event import Event

from kafka2011.errors import BrokerConnectionError, ErrorCodes, KafkaError, NotAllowedError, OffsetOutOfRangeError
from kafka2011.gateway.links import BARRIER
from kafka2011.gateway.partition_log import FETCH_BYTES
from kafka2011.gateway.records.layout import HEAD_BYTES
from kafka2011.wire.protocol import (
    AT_ONCE,
    FetchRequest,
    FetchWait,
    MultiFetchRequest,
    decode_multifetch_body,
    encode_request,
)
from zk.errors import ZkError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka2011.gateway.links import BrokerLink, BrokerLinks
    from kafka2011.gateway.partition_log import PartitionLog, SentSet

logger = logging.getLogger(__name__)

WAIT_S = 10.0
RETRY_S = 0.2
FETCHED_BYTES = 16 * 1024 * 1024
"""The most that one request asks for, of all partitions together."""
TURN_S = 0.02
LEAST_BYTES = 64 * 1024
MOST_PARTS = 1000
HEADS_FROM_BYTES = 32 * 1024
"""A set of this size costs more to fetch than one more request."""
MOST_HEADS = 32
JUDGED_WAITS = 20
_REFUSALS = {"TLSV13_ALERT_CERTIFICATE_REQUIRED", "TLSV1_ALERT_UNKNOWN_CA"}
"""The reasons of OpenSSL for a missing certificate and for one of an unknown authority."""
WANTED_S = 30.0
"""How long the end of a log is followed after somebody has asked for it."""
PAUSES_S = 0.2, 10.0
"""The first and the longest pause after a log could not be followed, as when the disk is full, seconds."""


class _Question(NamedTuple):
    """What is asked of one log at its end: `size` bytes. Where that is a head, those of `sets` behind one another.

    Without `sets`, it is the head of whatever comes next.
    """

    log: PartitionLog
    position: int
    sets: list[SentSet]
    size: int

    def fetches(self) -> Iterator[FetchRequest]:
        """Give what is fetched: one range, or that of each head."""
        position, where = self.position, self.log.where
        yield FetchRequest(where.topic, where.partition, position, self.size)
        for data, _ in self.sets[:-1]:
            position += len(data)
            yield FetchRequest(where.topic, where.partition, position, HEAD_BYTES)


def is_refusal(cause: BaseException | None) -> bool:
    """Say whether a broker refuses this gateway's certificate for good, not as while its clock is off."""
    return isinstance(cause, ssl.SSLError) and cause.reason in _REFUSALS


class BrokerTail:
    """Follows the logs of one broker, each as long as it is wanted. `connections` counts its connections."""

    def __init__(self, links: BrokerLinks) -> None:
        self._links = links
        self._link: BrokerLink = links.new()
        self._logs: dict[PartitionLog, None] = {}
        self._wanted = Event()
        self._is_parked = False
        self._nudges = 0
        self._own: set[PartitionLog] = set()  # where the newest set was a large one of the gateway's own
        self._behind: set[PartitionLog] = set()  # where more can be read at once
        self.connections = 0
        self._waits_s: deque[float] = deque(maxlen=JUDGED_WAITS)
        self._greenlet = gevent.spawn(self._run)

    def want(self, log: PartitionLog) -> None:
        """Follow a log from now on, for some time."""
        now_s = time.monotonic()
        log.wanted_until_s = now_s + WANTED_S
        if log not in self._logs:
            if now_s < log.paused_until_s:
                return
            log.is_current = False
            self._logs[log] = None
            self._wanted.set()
        if not log.is_current:
            self._nudge()

    def note_wait(self, seconds: float) -> None:
        """Keep how long something took from being sent until it could be read."""
        self._waits_s.append(seconds)

    @property
    def usual_wait_s(self) -> float:
        """The median of the newest of these waits; 0 while there were few."""
        return median(self._waits_s) if len(self._waits_s) == JUDGED_WAITS else 0.0

    def stop(self) -> None:
        """Follow nothing any more."""
        self._greenlet.kill()
        self._link.close()
        for log in self._logs:
            log.note_outage("the gateway serves this broker no more")

    def _nudge(self) -> None:
        """End the wait of the request that is parked at the broker."""
        if self._is_parked and not self._nudges:
            self._nudges += 1
            try:
                self._link.send(BARRIER)
            except BrokerConnectionError as error:
                logger.debug("the tail of broker %d cannot be woken: %s", self._links.broker.id, error)

    def _run(self) -> None:
        broker = self._links.broker
        while True:
            now_s = time.monotonic()
            for log in [log for log in self._logs if log.wanted_until_s <= now_s]:
                log.is_current = False
                del self._logs[log]
            if not self._logs:
                self._wanted.clear()
                self._wanted.wait()
                continue
            try:
                logs = [*self._logs][:MOST_PARTS]
                if len(self._logs) > MOST_PARTS:  # they take turns, and none waits at the broker
                    for log in logs:
                        self._logs[log] = self._logs.pop(log)
                    gevent.sleep(TURN_S)
                self._look(logs)
            except (BrokerConnectionError, ZkError) as error:
                self._link.close()
                is_refused = is_refusal(error.__cause__)
                logger.log(logging.WARNING if is_refused else logging.INFO, "broker %d: %s", broker.id, error)
                for log in [*self._logs]:
                    log.note_outage(str(error), is_refused=is_refused)
                gevent.sleep(RETRY_S)
            except Exception:
                logger.exception("the tail of broker %d", broker.id)
                gevent.sleep(RETRY_S)

    def _look(self, logs: list[PartitionLog]) -> None:
        logs = [log for log in logs if self._is_ready(log)]
        if not logs:
            return
        may_wait = len(logs) == len(self._logs) and all(log.is_current for log in logs) and not self._behind
        self._behind.clear()
        self._own.intersection_update(self._logs)
        size = min(FETCH_BYTES, max(LEAST_BYTES, FETCHED_BYTES // len(logs)))
        most_heads = 0 if may_wait else min(MOST_HEADS, MOST_PARTS // len(logs))
        questions = [self._question(log, size, most_heads) for log in logs]
        fetches = tuple(fetch for question in questions for fetch in question.fetches())
        request = MultiFetchRequest(fetches, FetchWait(int(WAIT_S * 1000), 1) if may_wait else AT_ONCE)
        answers = iter(self._ask(request, WAIT_S if may_wait else 0.0))
        for question in questions:
            error, data = next(answers)
            heads = [data, *(next(answers)[1] for _ in question.sets[1:])]
            sets = self._found(question, heads) if data and not error else []
            if sets or not data or question.size > HEAD_BYTES:
                self._take(question.log, error, question.position, data, sets)

    def _question(self, log: PartitionLog, size: int, most_heads: int) -> _Question:
        position = log.index().end.position
        sets: list[SentSet] = []
        if log not in self._own:
            return _Question(log, position, sets, size)
        size = 0
        for sent in islice(log.sent_sets(), most_heads):
            sets.append(sent)
            size += len(sent[0])
            if size >= FETCH_BYTES:
                break
        return _Question(log, position, sets, HEAD_BYTES)

    def _found(self, question: _Question, heads: list[bytes]) -> list[SentSet]:
        """Return the sets whose heads have come, none if somebody else has appended.

        Then the next question is for bytes. It is for heads after a large set of the gateway's own.
        """
        log, head = question.log, heads[0]
        sets = question.sets or [*islice(log.sent_sets(), 1)]
        is_own = bool(sets) and len(sets[0][0]) >= HEADS_FROM_BYTES and head.startswith(sets[0][0][:HEAD_BYTES])
        (self._own.add if is_own else self._own.discard)(log)
        if question.size > HEAD_BYTES:
            return []
        pairs = takewhile(lambda pair: pair[0][0][:HEAD_BYTES] == pair[1], zip(sets, heads, strict=False))
        found = [each for each, _ in pairs]
        if not found or (len(found) == len(heads) and any(islice(log.sent_sets(), len(found), None))):
            self._behind.add(log)
        return found

    def _is_ready(self, log: PartitionLog) -> bool:
        try:
            log.begin_following()
        except (BrokerConnectionError, ZkError):
            raise
        except (KafkaError, OSError) as failed:
            self._give_up(log, failed)
            return False
        return True

    def _ask(self, request: MultiFetchRequest, wait_s: float) -> list[tuple[int, bytes]]:
        link = self._link
        if not link.is_open:
            self.connections += 1
        try:
            link.send(encode_request(request))
            self._is_parked = wait_s > 0
            frame = link.receive(wait_s)
            self._is_parked = False
            while self._nudges:
                self._nudges -= 1
                link.receive()
        finally:
            self._is_parked = False
            self._nudges = 0
        return decode_multifetch_body(frame[2:], len(request.fetches))

    def _take(self, log: PartitionLog, error: int, position: int, data: bytes, sets: list[SentSet]) -> None:
        try:
            if error == OffsetOutOfRangeError.code:
                log.check()
            elif error != ErrorCodes.NONE:
                raise ErrorCodes.error_for(error, f"a fetch at the end of {log.where} was refused")
            elif sets:
                log.take_sent(position, sets)
            elif data:
                log.take(position, data)
            elif position == log.index().end.position:
                log.note_current()
            log.pause_s = 0.0
        except (BrokerConnectionError, ZkError):
            raise
        except (KafkaError, OSError) as failed:  # such as a full disk: other partitions go on
            self._give_up(log, failed)

    def _give_up(self, log: PartitionLog, failed: Exception) -> None:
        """Follow a log no more until somebody wants it again, after a pause that doubles with each failure."""
        is_refused = isinstance(failed, NotAllowedError)
        known_by = self._links.broker.security or "no certificate: zk.connect names no file"
        who = f" (the broker knows this gateway by {known_by})" if is_refused else ""
        logger.warning("%s cannot be followed: %s%s", log.where, failed, who)
        first_s, longest_s = PAUSES_S
        log.pause_s = min(max(2 * log.pause_s, first_s), longest_s)
        log.paused_until_s = time.monotonic() + log.pause_s
        log.note_outage(str(failed), is_refused=is_refused)
        self._logs.pop(log, None)
