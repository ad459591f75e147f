"""The counter: counts what one process of a tier publishes or reads, and reports it (paper, section 4)."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kafka2011.audit.cluster_clock import earlier_ms
from kafka2011.audit.progress import Instance
from kafka2011.audit.report import AUDIT_TOPIC, INDEX_TYPE, OFFSET_TYPE, AuditReport, Places, is_uuid, short_ids
from kafka2011.audit.stamp_columns import stamp_columns
from kafka2011.audit.unpublished import FOREVER_S, UnpublishedReports
from kafka2011.audit.windows import Windows
from kafka2011.errors import KafkaError
from kafka2011.events.codec import read_stamps
from kafka2011.left_open import note_closed, note_opened
from kafka2011.outages import Outages
from zk import forks
from zk.clock import SYSTEM_CLOCK
from zk.closing import Closing
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from kafka2011.audit.progress_report import ProgressReport
    from kafka2011.audit.unpublished import TimedEnds
    from kafka2011.events.codec import Stamp
    from kafka2011.message.message_set import Message
    from zk.clock import Clock

logger = logging.getLogger(__name__)

_POLL_INTERVAL_S = 1.0
_LATE_S = 1.0
"""How long past a window's length its first report waits for messages still being confirmed."""
_STAMPS = 1000
"""How many stamps from producers, which may count one message at a time, are sorted into windows at once."""
_MANY = 64
"""From so many messages on it is faster to read all of them at once than one by one."""
_CLOSE_S = 30.0


class Publisher(Protocol):
    """Publishes reports; `publishing.ReportPublisher` is one."""

    def publish(self, reports: Sequence[AuditReport | ProgressReport]) -> None:
        """Publish reports, and return when they are confirmed. Raises KafkaError."""

    def close(self) -> None:
        """Release what it has opened."""


class EndsLookup(Protocol):
    """Looks up where partitions begin and end; `ends_lookup.ClusterEndsLookup` is one."""

    def look_up(self, topic: str) -> Mapping[TopicPartition, tuple[int, int] | None] | None:
        """Return each partition's bounds, None if its broker is away; None altogether if nothing can be looked up."""

    def clock_ms(self) -> int | None:
        """Return the time of the cluster, in ms since 1970; None if it cannot be asked."""

    def close(self) -> None:
        """Let go of what it has opened."""


@dataclass(frozen=True, slots=True)
class CounterLimits:
    """What a counter holds at most before it reports."""

    max_messages: int = 1_000_000
    max_windows: int = 10_000


class AuditCounter(Closing):
    """Counts the messages that one process of a tier publishes or reads; a context manager, shared by threads.

    The counter's thread reports a window once it has been counted for a window's length; later messages make another
    report. It holds at most what its limits say, messages and windows; at half of either it reports
    everything at once. A process that dies loses what it has not reported, so call `report` before committing offsets.
    It also reports its progress (see `progress_report`). For that a producer stamps its events here, and a reader is
    given `ends_lookup`, which is closed with the counter. `home` is the id of the cluster it reports to. It `follows`
    instances that have ended if everything they did not report is sent again.
    Unreadable messages, such as those that are not events, cannot be counted: `counts()` has their number.
    A forked child starts from zero, as an instance of its own.
    """

    def __init__(
        self,
        tier: str,
        publisher: Publisher,
        *,
        cluster: str = "",
        home: str = "",
        follows: Sequence[str] = (),
        ends_lookup: EndsLookup | None = None,
        windows: Windows | None = None,
        limits: CounterLimits = CounterLimits(),
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._tier = tier
        self.publisher = publisher
        self._closing = threading.Event()
        self.wake = threading.Event()
        self._has_ended = False
        self._cluster = cluster
        self._home = home
        self._ends_lookup = ends_lookup
        self._windows = windows or Windows()
        self._limits = limits
        self._clock = clock
        self._begin(tuple(follows))
        forks.register(self)
        note_opened(self)

    def __repr__(self) -> str:
        return f"<AuditCounter of {self._tier}, {self.instance}>"

    def begin(self, topic: str, now_us: int | None = None) -> None:
        """Announce that events of a topic are published from now on, and return when that is confirmed.

        `now_us` is the time on the clock that stamps them. Does nothing the next time. Raises KafkaError when it is not
        confirmed: then publish nothing.
        """
        if topic == AUDIT_TOPIC or topic in self._begun:
            return
        with self._lock:
            self.unconfirmed += self.unpublished.begin_source(topic, self._now_us() if now_us is None else now_us)
        self._publish(-FOREVER_S)
        self._begun.add(topic)
        self._start()

    def has_begun(self, topic: str) -> bool:
        """Say whether `begin` was confirmed for a topic."""
        return topic in self._begun

    def begin_reading(self, topic: str, copies: str = "") -> None:
        """Announce that messages of a topic are passed on from now on, and return when that is confirmed.

        With `copies` the topic is `audit`, and that cluster's reports (by its id) are copied. Raises as `begin` does.
        """
        if topic in self._begun:
            return
        with self._lock:
            self.unconfirmed += self.unpublished.begin_reader(topic, self._now_us(), copies)
        self._publish(-FOREVER_S)
        self._begun.add(topic)
        self._start()

    def stamp(self, topic: str, now_us: int) -> int:
        """Return the `published_at` of an event sent now, in microseconds; never before a time stated to be over.

        Call `ended` when the event was counted or has failed. Raises as `begin` does.
        """
        if topic == AUDIT_TOPIC:
            return now_us
        self.begin(topic, now_us)
        with self._lock:
            return self.unpublished.stamp(topic, now_us)

    def ended(self, topic: str, stamped_us: Iterable[int]) -> None:
        """Note that the events stamped with these times were counted or failed."""
        if topic == AUDIT_TOPIC:
            return
        with self._lock:
            if topic in self._begun:  # else they were stamped before a fork
                self.unpublished.ended(topic, stamped_us)

    def count(self, topic: str, stamps: Sequence[Stamp]) -> None:
        """Count published events, by their stamps. Never waits: messages beyond the limit are dropped and logged."""
        if topic == AUDIT_TOPIC or not stamps:
            return
        with self._lock:
            self.unconfirmed += self.unpublished.begin_source(topic, self._first_us(stamps))
            if self._held_messages() + len(stamps) > self._limits.max_messages:
                self._drop(topic, stamps)
                return
            waiting = self._stamps.setdefault(topic, [])
            waiting += stamps
            self.waiting_messages += len(stamps)
            if len(waiting) >= _STAMPS:
                self._sort(topic)
            is_full = self._is_half_full()
        if is_full:
            self.wake.set()
        self._start()

    def count_messages(self, messages: Sequence[Message]) -> None:
        """Count messages read from one partition, in order.

        Pass the messages of a compressed set one by one, as `decode` returns them. Call it before their offset can be
        committed. Reports when half of the limit is reached, and then raises as `report` does.
        """
        if not messages:
            return
        topic, broker_id, partition = messages[0][:3]
        if messages[-1][:3] != messages[0][:3]:
            raise ValueError(f"messages of {messages[0][:3]} and {messages[-1][:3]}: give those of one partition")
        where = TopicPartition(topic, -1 if broker_id is None else broker_id, partition)
        read = (messages[0].offset, messages[-1].next_offset)
        if topic == AUDIT_TOPIC:
            self._copied(where, read)
            return
        payloads = [message.payload for message in messages]
        is_many = len(payloads) >= _MANY
        is_good, published_at_us, ids = stamp_columns(payloads) if is_many else columns_of_stamps(read_stamps(payloads))
        offsets = np.array([message.offset for message in messages], OFFSET_TYPE)[is_good]
        indexes = np.array([message.index_in_set for message in messages], INDEX_TYPE)[is_good]
        places = Places(offsets, indexes)
        with self._lock:
            self._note(topic, len(ids), len(messages) - len(ids), f" from offset {messages[0].offset} on")
            self.unconfirmed += self.unpublished.begin_reader(topic, self._now_us())
            self.unpublished.count_read(where, published_at_us, ids, places, read, self._clock.monotonic_s())
            is_full = self._is_half_full()
        self._start()
        if is_full:
            self.report()

    def report(self) -> None:
        """Report everything counted so far, and return when that is confirmed: its offsets may then be committed.

        Raises KafkaError when it is not confirmed; nothing is lost, and the next call publishes it again.
        """
        self._publish(FOREVER_S)

    def close(self) -> None:
        """Report what is left, state that nothing more comes, and stop; may be called twice.

        Raises KafkaError when it cannot be reported.
        """
        note_closed(self)
        self._closing.set()
        self.wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_S)
        try:
            is_last, self._has_ended = not self._has_ended, True
            self._publish(FOREVER_S, self._ends_now() if is_last else None, is_last=is_last)
        finally:
            self.publisher.close()
            if self._ends_lookup is not None:
                self._ends_lookup.close()

    def close_at_exit(self) -> None:
        """Close it for a program that has not."""
        self.close()

    def counts(self) -> dict[str, int]:
        """Return the numbers of messages `counted`, `unreadable`, `dropped`, of `reports` and `failed_reports`."""
        with self._lock:
            return dict(self._counts)

    # Inside ----------------------------------------------------------------------------------------------------------

    def _begin(self, follows: tuple[str, ...] = ()) -> None:
        self.instance = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._lock = threading.Lock()  # of all below
        self._stamps: dict[str, list[Stamp]] = {}  # by topic, not yet sorted into windows
        self.waiting_messages = 0
        who = Instance(self._tier, self.instance, self._home, self._cluster, follows)
        self.unpublished = UnpublishedReports(who, self._windows)
        self._begun: set[str] = set()  # topics for which that is confirmed
        self._has_ended = False
        self._ends_known_s = self._clock.monotonic_s()
        self.unconfirmed: list[AuditReport | ProgressReport] = []
        self._unconfirmed_messages = 0
        self._counts: Counter[str] = Counter(counted=0, reports=0, failed_reports=0, unreadable=0, dropped=0)
        self._publishing = threading.Lock()  # one report at a time
        self.wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def forget_after_fork(self) -> None:
        """In a forked child, leave the parent's counts to the parent."""
        self._begin()

    def _sort(self, topic: str) -> None:
        """Sort a topic's waiting stamps into windows."""
        stamps = self._stamps.pop(topic)
        self.waiting_messages -= len(stamps)
        _, published_at_us, ids = columns_of_stamps(stamps)
        self._note(topic, len(ids), len(stamps) - len(ids))
        if len(ids):
            self.unpublished.count(topic, published_at_us, ids, self._clock.monotonic_s())

    def _copied(self, where: TopicPartition, read: tuple[int, int]) -> None:
        """Note that reports were passed on, if `begin_reading` was called with `copies`."""
        with self._lock:
            if where.topic in self.unpublished.read_topics:
                nothing = np.empty(0, np.int64)
                places = Places(nothing, nothing.astype(INDEX_TYPE))
                self.unpublished.count_read(where, nothing, nothing.astype(np.uint64), places, read, 0.0)

    def _now_us(self) -> int:
        return int(self._clock.wall_s() * 1_000_000)

    def _first_us(self, stamps: Sequence[Stamp]) -> int:
        """Return the time from which it counts, for callers that did not call `begin`."""
        return min(self._now_us(), *(stamp.published_at_us for stamp in stamps))

    def _note(self, topic: str, counted: int, unreadable: int, where: str = "") -> None:
        self._counts["counted"] += counted
        if unreadable:
            if not self._counts["unreadable"]:
                logger.warning("%d messages of topic %s%s cannot be counted: no events", unreadable, topic, where)
            self._counts["unreadable"] += unreadable

    def _drop(self, topic: str, stamps: Sequence[Stamp]) -> None:
        if not self._counts["dropped"]:
            held = self._held_messages()
            logger.error("Messages of topic %s are not counted: %d wait to be reported", topic, held)
        self._counts["dropped"] += len(stamps)
        self.unpublished.uncounted(topic, [stamp.published_at_us for stamp in stamps])
        self.wake.set()

    def _held_messages(self) -> int:
        return self.waiting_messages + self.unpublished.messages + self._unconfirmed_messages

    def _is_half_full(self) -> bool:
        held_windows = self.unpublished.windows + sum(isinstance(report, AuditReport) for report in self.unconfirmed)
        return 2 * self._held_messages() >= self._limits.max_messages or 2 * held_windows >= self._limits.max_windows

    def _ends_now(self) -> dict[str, TimedEnds]:
        """Look up where the partitions that are read end, as far as they can be looked up, and when that was."""
        self._ends_known_s = self._clock.monotonic_s()
        if self._ends_lookup is None:
            return {}
        with self._lock:
            topics = self.unpublished.read_topics
        ends: dict[str, TimedEnds] = {}
        if not topics:
            return ends
        cluster_ms = self._ends_lookup.clock_ms()
        if cluster_ms is None:
            return ends
        for topic in topics:
            now_ms = earlier_ms(self._now_us() // 1000, cluster_ms)
            looked_up = self._ends_lookup.look_up(topic)
            if looked_up is not None:
                ends[topic] = (now_ms, looked_up)
        return ends

    def _publish(self, before_s: float, ends: Mapping[str, TimedEnds] | None = None, *, is_last: bool = False) -> None:
        """Publish unconfirmed reports, then counts that began before a time and what they prove."""
        with self._publishing:
            with self._lock:
                for topic in list(self._stamps):
                    self._sort(topic)
                self.unconfirmed += self.unpublished.take(self._now_us(), before_s, ends, is_last=is_last)
                self._unconfirmed_messages = sum(_messages(report) for report in self.unconfirmed)
                reports = list(self.unconfirmed)
            if not reports:
                return
            try:
                self.publisher.publish(reports)
            except KafkaError:
                with self._lock:
                    self._counts["failed_reports"] += len(reports)
                raise
            with self._lock:
                del self.unconfirmed[: len(reports)]  # `begin` may have added more meanwhile
                self._unconfirmed_messages = sum(_messages(report) for report in self.unconfirmed)
                self._counts["reports"] += len(reports)

    # The thread ------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None and not self._closing.is_set():
                    self._thread = threading.Thread(target=self._run, name=f"audit {self._tier}", daemon=True)
                    self._thread.start()

    def _run(self) -> None:
        outages = Outages(logger)
        while not self._closing.is_set():
            self.wake.wait(_POLL_INTERVAL_S)
            self.wake.clear()
            with self._lock:
                is_full = self._is_half_full()
                is_reading = self._ends_lookup is not None and bool(self.unpublished.read_topics)
            length_s = self._windows.length_ms / 1000
            now_s = self._clock.monotonic_s()
            try:
                if is_reading and now_s - self._ends_known_s >= length_s:
                    self._publish(FOREVER_S, self._ends_now())
                else:
                    self._publish(FOREVER_S if is_full else now_s - length_s - _LATE_S)
            except KafkaError as error:
                outages.failed("Counts of tier %s are not reported for now: %s", self._tier, error)
                self._closing.wait(_POLL_INTERVAL_S)
            except Exception:
                logger.exception("An unexpected error while counts of tier %s were reported", self._tier)
                self._closing.wait(_POLL_INTERVAL_S)
            else:
                outages.over()


def _messages(report: AuditReport | ProgressReport) -> int:
    return report.count if isinstance(report, AuditReport) else 0


def columns_of_stamps(
    stamps: Sequence[Stamp | None],
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.uint64]]:
    """Return which stamps can be counted, and the publication times and short ids of those."""
    good = [stamp for stamp in stamps if stamp is not None]
    try:
        ids = short_ids([stamp.id for stamp in good])
        published_at_us = np.array([stamp.published_at_us for stamp in good], np.int64)
    except (ValueError, OverflowError):
        return columns_of_stamps([stamp if stamp is not None and _is_countable(stamp) else None for stamp in stamps])
    return np.array([stamp is not None for stamp in stamps], np.bool_), published_at_us, ids


def _is_countable(stamp: Stamp) -> bool:
    return is_uuid(stamp.id) and -(2**63) <= stamp.published_at_us < 2**63
