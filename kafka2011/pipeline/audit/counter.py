"""The counter: counts what one process of a tier publishes or reads, and reports it (paper, section 4)."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Protocol, Self

import numpy as np

from kafka2011.errors import KafkaError
from kafka2011.pipeline.audit.report import AUDIT_TOPIC, INDEX_TYPE, OFFSET_TYPE, Places, Report, short_ids
from kafka2011.pipeline.audit.tally import Tally
from kafka2011.pipeline.audit.windows import Windows
from kafka2011.pipeline.events import read_stamps
from zk.clock import SYSTEM_CLOCK
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from numpy.typing import NDArray

    from kafka2011.message import Message
    from kafka2011.pipeline.events import Stamp
    from zk.clock import Clock

logger = logging.getLogger(__name__)

MAX_HELD_MESSAGES = 1_000_000
MAX_HELD_WINDOWS = 10_000
_LOOK_INTERVAL_S = 1.0
_LATE_S = 1.0
"""How long after the length of a window its first report waits for messages that are just being confirmed."""
_STAMPS = 1000
"""Of producers, which may count one message at a time, so many are sorted into windows at once."""
_CLOSE_S = 30.0


class Publisher(Protocol):
    """Publishes reports; `publishing.ReportPublisher` is one."""

    def publish(self, reports: Sequence[Report]) -> None:
        """Publish reports, and return when they are confirmed. Raises KafkaError."""

    def close(self) -> None:
        """Let go of what it has opened."""


class AuditCounter:
    """Counts the messages that one process of a tier publishes or reads. May be shared by threads; a context manager.

    A window is reported when it has been counted for as long as it is, by the thread of the counter; what comes later
    is one more report. At most `max_messages` are held, and `max_windows` counts of windows: when half of that is
    reached all is reported at once. A process that dies loses what it has not reported, so whoever commits offsets
    calls `report` before that.
    Events that are not readable, such as messages that are no events, cannot be counted: `counts()` has their number.
    A forked child begins anew, as an instance of its own.
    """

    def __init__(
        self,
        tier: str,
        publisher: Publisher,
        *,
        cluster: str = "",
        windows: Windows | None = None,
        max_messages: int = MAX_HELD_MESSAGES,
        max_windows: int = MAX_HELD_WINDOWS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._tier = tier
        self._publisher = publisher
        self._cluster = cluster
        self._windows = windows or Windows()
        self._max_messages = max_messages
        self._max_windows = max_windows
        self._clock = clock
        self._begin()
        _COUNTERS.add(self)

    def __repr__(self) -> str:
        return f"<AuditCounter of {self._tier}, {self.instance}>"

    def count(self, topic: str, stamps: Sequence[Stamp]) -> None:
        """Count published events, by their stamps. Never waits: what is too much to be held is dropped, and logged."""
        if topic == AUDIT_TOPIC or not stamps:
            return
        with self._lock:
            if self._held_messages() + len(stamps) > self._max_messages:
                self._drop(topic, len(stamps))
                return
            waiting = self._stamps.setdefault(topic, [])
            waiting += stamps
            self._waiting_messages += len(stamps)
            if len(waiting) >= _STAMPS:
                self._sort(topic)
            is_full = self._is_half_full()
        if is_full:
            self._wake.set()
        self._start()

    def count_messages(self, messages: Sequence[Message]) -> None:
        """Count messages that were read from one partition, one after the other.

        Those of a compressed set one by one, as `decode` gives them. Call it before their offset can be committed.
        Reports when half of what may be held is reached, and raises as `report` does then.
        """
        if not messages or messages[0].topic == AUDIT_TOPIC:
            return
        topic, broker_id, partition = messages[0][:3]
        if messages[-1][:3] != messages[0][:3]:
            raise ValueError(f"messages of {messages[0][:3]} and {messages[-1][:3]}: give those of one partition")
        stamps = read_stamps([message.payload for message in messages])
        is_good, published_at_us, ids = _columns(stamps)
        offsets = np.array([message.offset for message in messages], OFFSET_TYPE)[is_good]
        indexes = np.array([message.index_in_set for message in messages], INDEX_TYPE)[is_good]
        where = TopicPartition(topic, -1 if broker_id is None else broker_id, partition)
        read = (messages[0].offset, messages[-1].next_offset)
        places = Places(offsets, indexes)
        with self._lock:
            self._note(topic, len(ids), len(stamps) - len(ids), f" from offset {messages[0].offset} on")
            if len(ids):
                now_s = self._clock.monotonic_s()
                self._tally.add(topic, published_at_us, ids, now_s, where=where, places=places, read=read)
            is_full = self._is_half_full()
        self._start()
        if is_full:
            self.report()

    def report(self) -> None:
        """Report all that was counted so far, and return when it is confirmed: now its offsets may be committed.

        Raises KafkaError when it is not; nothing is lost by that, and the next call publishes it again.
        """
        self._publish(float("inf"))

    def close(self) -> None:
        """Report what is left, and end; may be called twice. Raises KafkaError when it cannot be reported."""
        self._closing.set()
        self._wake.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CLOSE_S)
        try:
            self.report()
        finally:
            self._publisher.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def counts(self) -> dict[str, int]:
        """Return messages `counted`, `unreadable` and `dropped`; `reports` published, and `failed_reports`."""
        with self._lock:
            return dict(self._counts)

    # Inside ----------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.instance = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._lock = threading.Lock()  # of all below
        self._stamps: dict[str, list[Stamp]] = {}  # by topic, not yet sorted into windows
        self._waiting_messages = 0
        self._tally = Tally(self._tier, self.instance, self._cluster, self._windows)
        self._unconfirmed: list[Report] = []
        self._unconfirmed_messages = 0
        self._counts: Counter[str] = Counter(counted=0, reports=0, failed_reports=0, unreadable=0, dropped=0)
        self._publishing = threading.Lock()  # one report after the other
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def forget_after_fork(self) -> None:
        """In a forked child: leave what the parent has counted to the parent."""
        self._begin()

    def _sort(self, topic: str) -> None:
        """Sort what waits of a topic into windows."""
        stamps = self._stamps.pop(topic)
        self._waiting_messages -= len(stamps)
        _, published_at_us, ids = _columns(stamps)
        self._note(topic, len(ids), len(stamps) - len(ids))
        if len(ids):
            self._tally.add(topic, published_at_us, ids, self._clock.monotonic_s())

    def _note(self, topic: str, counted: int, unreadable: int, where: str = "") -> None:
        self._counts["counted"] += counted
        if unreadable:
            if not self._counts["unreadable"]:
                logger.warning("%d messages of topic %s%s cannot be counted: no events", unreadable, topic, where)
            self._counts["unreadable"] += unreadable

    def _drop(self, topic: str, messages: int) -> None:
        if not self._counts["dropped"]:
            held = self._held_messages()
            logger.error("Messages of topic %s are not counted: %d wait to be reported", topic, held)
        self._counts["dropped"] += messages
        self._wake.set()

    def _held_messages(self) -> int:
        return self._waiting_messages + self._tally.messages + self._unconfirmed_messages

    def _is_half_full(self) -> bool:
        held_windows = self._tally.windows + len(self._unconfirmed)
        return 2 * self._held_messages() >= self._max_messages or 2 * held_windows >= self._max_windows

    def _publish(self, before_s: float) -> None:
        """Publish counts that began before a time, after those that are not confirmed."""
        with self._publishing:
            with self._lock:
                for topic in list(self._stamps):
                    self._sort(topic)
                self._unconfirmed += self._tally.take(before_s)
                self._unconfirmed_messages = sum(report.count for report in self._unconfirmed)
                reports = list(self._unconfirmed)
            if not reports:
                return
            try:
                self._publisher.publish(reports)
            except KafkaError:
                with self._lock:
                    self._counts["failed_reports"] += len(reports)
                raise
            with self._lock:
                self._unconfirmed.clear()
                self._unconfirmed_messages = 0
                self._counts["reports"] += len(reports)

    # The thread ------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None and not self._closing.is_set():
                    self._thread = threading.Thread(target=self._run, name=f"audit {self._tier}", daemon=True)
                    self._thread.start()

    def _run(self) -> None:
        is_failing = False
        while not self._closing.is_set():
            self._wake.wait(_LOOK_INTERVAL_S)
            self._wake.clear()
            with self._lock:
                is_full = self._is_half_full()
            length_s = self._windows.length_ms / 1000 + _LATE_S
            try:
                self._publish(float("inf") if is_full else self._clock.monotonic_s() - length_s)
            except KafkaError as error:
                level = logging.INFO if is_failing else logging.WARNING  # a warning when it is the first in a row
                logger.log(level, "Counts of tier %s are not reported for now: %s", self._tier, error)
                is_failing = True
                self._closing.wait(_LOOK_INTERVAL_S)
            except Exception:
                logger.exception("An unexpected error while counts of tier %s were reported", self._tier)
                self._closing.wait(_LOOK_INTERVAL_S)
            else:
                is_failing = False


def _columns(stamps: Sequence[Stamp | None]) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.uint64]]:
    """Return which stamps are good, and of those the times of publication and the short ids."""
    good = [stamp for stamp in stamps if stamp is not None]
    try:
        ids = short_ids([stamp.id for stamp in good])
        published_at_us = np.array([stamp.published_at_us for stamp in good], np.int64)
    except (ValueError, OverflowError):
        return _columns([stamp if stamp is not None and _is_countable(stamp) else None for stamp in stamps])
    return np.array([stamp is not None for stamp in stamps], np.bool_), published_at_us, ids


def _is_countable(stamp: Stamp) -> bool:
    try:
        short_ids([stamp.id])
    except ValueError:
        return False
    return -(2**63) <= stamp.published_at_us < 2**63


_COUNTERS: weakref.WeakSet[AuditCounter] = weakref.WeakSet()


def _forget_after_fork() -> None:
    for counter in list(_COUNTERS):
        counter.forget_after_fork()


os.register_at_fork(after_in_child=_forget_after_fork)
