"""The loader as a tier of the audit: it counts a load's rows, and says up to what time the topic is complete.

Counts are reported before the commit. Whatever a load reported before it died, the next one reports again for the
same places, so it counts once.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import tempfile
from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO, Self, cast

from kafka2011.audit.compare import Ledger, is_before
from kafka2011.audit.complete import complete
from kafka2011.audit.progress import Instance
from kafka2011.audit.publishing import open_publisher
from kafka2011.audit.reader import AuditReader, has_audit
from kafka2011.audit.received import AGAIN_MS, ReceivedReports
from kafka2011.audit.report import AuditReport
from kafka2011.audit.run import expect
from kafka2011.audit.unpublished import FOREVER_S, UnpublishedReports
from kafka2011.audit.windows import Windows
from kafka2011.errors import KafkaError
from zk.clock import SYSTEM_CLOCK
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka2011.audit.pipeline import Pipeline
    from kafka2011.audit.progress_report import ProgressReport
    from kafka2011.audit.publishing import ReportPublisher
    from kafka2011.audit.received import AuditScan
    from kafka2011.audit.unpublished import TimedEnds
    from kafka2011.warehouse.loading.load_job import Count
    from kafka2011.warehouse.table.commits import Commit
    from zk.clock import Clock
    from zk.cluster import TopicPartition

logger = logging.getLogger(__name__)

MAX_HELD_MESSAGES = 500_000
LOOK_INTERVAL_S = 60.0
"""The shortest time between two looks at what all tiers have reported: loads may be much more frequent."""
_SOON_S = 1.0
"""After all counts of a load, and before it has an end."""


class LoadAudit:
    """Counts loads of one topic as a tier. `begin` a new account for each load; a context manager."""

    def __init__(
        self,
        topic: str,
        tier: str,
        zk_connect: str,
        windows: Windows | None = None,
        clock: Clock = SYSTEM_CLOCK,
        pipeline: Pipeline | None = None,
    ) -> None:
        self.topic = topic
        self.pipeline = pipeline
        self.tier = tier
        self.zk_connect = zk_connect
        self.reader = AuditReader()
        self._windows = windows or Windows()
        self._instance = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._publisher: ReportPublisher | None = None
        self._unpublished: UnpublishedReports | None = None
        self._unconfirmed: list[AuditReport | ProgressReport] = []
        self._clock = clock
        self._looked_s = -LOOK_INTERVAL_S

    def begin(self) -> LoadAccount:
        """Return a new account, which looks at what was reported unless one has done so lately."""
        now_s = self._clock.monotonic_s()
        is_due = now_s - self._looked_s >= LOOK_INTERVAL_S
        if is_due:
            self._looked_s = now_s
        return LoadAccount(self, is_due)

    def unpublished(self) -> UnpublishedReports:
        """Return what sorts rows into windows, and says what was loaded. Raises KafkaError."""
        if self._publisher is None:
            self._publisher = open_publisher(self.zk_connect)
        if self._unpublished is None:
            self._unpublished = UnpublishedReports(
                Instance(self.tier, self._instance, self._publisher.home), self._windows
            )
            self._unconfirmed += self._unpublished.begin_reader(self.topic, _now_us())
        return self._unpublished

    def publish(self, before_s: float = FOREVER_S, ends: TimedEnds | None = None) -> list[AuditReport]:
        """Publish what is not yet, and return its reports when all is confirmed. Raises KafkaError."""
        unpublished = self.unpublished()
        assert self._publisher is not None
        taken = unpublished.take(_now_us(), before_s, None if ends is None else {self.topic: ends})
        self._unconfirmed += taken
        self._publisher.publish(self._unconfirmed)
        self._unconfirmed.clear()
        return [report for report in taken if isinstance(report, AuditReport)]

    def close(self) -> None:
        """Close the publisher."""
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None


class LoadAccount:
    """The audit's knowledge at one load. A context manager."""

    def __init__(self, audit: LoadAudit, is_due: bool) -> None:
        self._audit = audit
        self._is_due = is_due
        self._stack = ExitStack()
        file = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (closed with the account)
        self._ledger = Ledger(cast("BinaryIO", file), 0)
        self._received = ReceivedReports()
        self._scan: AuditScan | None = None

    def read(self, stored: Mapping[TopicPartition, int], before_ms: int | None) -> None:
        """Read what is reported by now, before anybody looks where partitions end.

        `stored` is up to where the table has everything, and `before_ms` through when it was complete. Of this tier
        only what the table has is taken: a load that died may have reported more.
        """
        if not self._is_due:
            return
        audit = self._audit
        try:
            with connect(audit.zk_connect) as client:
                if not has_audit(client):
                    return
                if audit.pipeline is not None:
                    expected = expect(client, audit.pipeline, audit.zk_connect)
                    expected.asking, expected.is_partial = audit.tier, before_ms is not None
                    self._received.expected = expected
                for report in audit.reader.read(client, [audit.topic], _again_from(before_ms), self._received):
                    if report.tier != audit.tier or is_before(report, stored):
                        self._ledger.add(report)
            self._scan = audit.reader.scan
        except KafkaError as error:
            logger.warning("topic %s: through when it is complete is not known now: %s", audit.topic, error)

    def count(self, counts: Iterable[Count], offsets: Mapping[TopicPartition, int]) -> None:
        """Count rows that were written for a commit with these offsets. Raises KafkaError."""
        unpublished = self._audit.unpublished()
        for window_count in counts:
            unpublished.count_read(*window_count, None, 0.0)
            if unpublished.messages >= MAX_HELD_MESSAGES:
                self._report(offsets, before_s=_SOON_S)

    def tell_counted(self, commit: Commit, ends: Mapping[TopicPartition, int | None], at_ms: int) -> None:
        """Report that all rows of a commit were counted. Raises KafkaError.

        Partitions ended at `ends` at that time, None for those whose broker is away; without any nobody has looked.
        """
        unpublished = self._audit.unpublished()
        for loaded in commit.ranges:
            unpublished.note_read(loaded.partition, loaded.start, loaded.end)
        for where, end in ends.items():  # those with nothing new too
            if end is not None:
                unpublished.note_read(where, end, end)
        self._report(commit.offsets, ends=_timed_ends(ends, at_ms))

    def tell(self, ends: Mapping[TopicPartition, int | None], at_ms: int) -> None:
        """Report that the table had everything up to where partitions ended at that time."""
        if not ends or not self._is_due:
            return
        try:
            unpublished = self._audit.unpublished()
            for where, end in ends.items():
                if end is not None:
                    unpublished.note_read(where, end, end)
            self._audit.publish(ends=_timed_ends(ends, at_ms))
        except KafkaError as error:
            logger.warning("topic %s: that nothing is new is not reported: %s", self._audit.topic, error)

    def _report(
        self, offsets: Mapping[TopicPartition, int], before_s: float = FOREVER_S, ends: TimedEnds | None = None
    ) -> None:
        for report in self._audit.publish(before_s, ends):
            self._received.add(report)
            if is_before(report, offsets):
                self._ledger.add(report)

    def through_ms(self, seen_ms: int, before_ms: int | None) -> int | None:
        """Say through when the topic is complete in the table; None where nobody can tell.

        The ends of all partitions that the table has reached were seen at `seen_ms`.
        """
        if self._scan is None or not seen_ms:
            return None
        audit = self._audit
        completeness = complete(
            self._ledger,
            self._received,
            audit.topic,
            audit.tier,
            self._scan,
            read_ms=seen_ms,
            from_ms=_again_from(before_ms),
            before_ms=before_ms,
        )
        if completeness is None:
            return None
        if completeness.missing:
            logger.warning(
                "topic %s: %d messages are missing in the window that begins at %d ms",
                *(audit.topic, completeness.missing, completeness.through_ms),
            )
        if before_ms is not None and completeness.through_ms is not None and completeness.through_ms < before_ms:
            why = "; ".join(unknown.why for unknown in completeness.unknowns) or "messages are missing"
            logger.warning(
                "topic %s was said to be complete through %d ms, and is through %d ms only: %s",
                *(audit.topic, before_ms, completeness.through_ms, why),
            )
        return completeness.through_ms

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _again_from(before_ms: int | None) -> int | None:
    """Return from when on windows are looked at, when it was complete through a time."""
    return None if before_ms is None else before_ms - AGAIN_MS


def _timed_ends(ends: Mapping[TopicPartition, int | None], at_ms: int) -> TimedEnds | None:
    return (at_ms, {where: None if end is None else (0, end) for where, end in ends.items()}) if ends else None


def _now_us() -> int:
    return int(SYSTEM_CLOCK.wall_s() * 1_000_000)
