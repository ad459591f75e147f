"""An audit that runs again and again on where it ended, beside the loader, and what it may judge for good."""

from __future__ import annotations

import io
from random import Random
from typing import TYPE_CHECKING, Any

from kafka2011.audit.cluster_clock import earlier_ms
from kafka2011.audit.compare import Ledger
from kafka2011.audit.progress_report import ProgressReport
from kafka2011.audit.received import ReceivedReports
from kafka2011.audit.report import AUDIT_TOPIC, AuditReport
from kafka2011.audit.run import Outcome, Scope, keep
from kafka2011.audit.scan import AuditScan, Rules
from kafka2011.audit.state import AuditState, ReadPlace
from kafka2011.audit.verdict import Verdict, judge
from tests.models.audit.clusters import BROKERS, VIEWS, AwayError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator

    from kafka2011.audit.expected import ExpectedReports
    from kafka2011.audit.pipeline import Pipeline
    from tests.models.audit.clusters import Cluster

TIERS = ("producer", "load")


class Auditor:
    """Judges what the loader has counted. It draws from chance of its own, so that walks are as they are without it."""

    def __init__(self, seed: int, cluster: Cluster, rules: Rules, window_ms: int, again_ms: int) -> None:
        self.chance = Random(f"{seed} audit")
        self.kept: AuditState | None = None
        self.skew_ms = 0
        self.expect: Callable[[AuditState | None], ExpectedReports | None] = lambda _before: None
        self.pipeline: Pipeline | None = None
        self._cluster = cluster
        self._rules = rules
        self._window_ms = window_ms
        self._again_ms = again_ms

    def running(
        self, now_ms: Callable[[], int], check: Callable[[Verdict, set[str], int], None]
    ) -> Generator[None, None, None]:
        """Read, judge and keep, again and again; `check` gets each verdict and who was heard of for it."""
        while True:
            before, found, faults = self.kept, list[Any](), list[str]()
            clock_ms = self._cluster.clock_ms(now_ms())
            at_ms = earlier_ms(now_ms() + self.skew_ms, clock_ms)
            tiers = [tier.name for tier in self.pipeline.tiers] if self.pipeline else TIERS
            from_ms = None if before is None else before.until_ms
            known_ends = {} if before is None else before.place.ends
            ends, is_late = dict(known_ends), False
            for broker in BROKERS:
                try:
                    for offset, entry in list(self._cluster.read(AUDIT_TOPIC, broker, 0, now_ms())):
                        ends[broker, 0] = offset + 1
                        if from_ms is None or entry.appended_ms >= from_ms - self._again_ms:
                            found.append(entry.payload)
                        is_late |= offset >= known_ends.get((broker, 0), 0) and _is_before(
                            entry.payload, from_ms, tiers
                        )
                except AwayError:
                    if broker in self._cluster.noted:
                        faults.append(f"broker {broker} is away")
                yield
            if is_late:
                self.kept = None
                continue
            scope = Scope((VIEWS,), None if self.pipeline else TIERS, None, at_ms, self._rules, self.pipeline)
            scan = AuditScan(at_ms=at_ms, clock_ms=clock_ms, home=self._cluster.home, faults=tuple(faults))
            outcome = self._judge(found, scan, scope, before)
            if outcome is None:
                self.kept = None
                continue
            check(outcome.verdict, {each.instance for each in found if isinstance(each, ProgressReport)}, at_ms)
            place = ReadPlace(from_ms, {}, ends)
            self.kept = keep(outcome, place, self._cluster.home, scope, before, self._again_ms)
            yield

    def _judge(self, found: list[Any], scan: AuditScan, scope: Scope, before: AuditState | None) -> Outcome | None:
        """Judge what was found; None where something counts no more that was judged for good."""
        expected = self.expect(before)
        received, ledger = ReceivedReports(expected), Ledger(io.BytesIO(), 0)
        from_ms = None if before is None else before.until_ms
        for each in found:
            received.add(each)
            if isinstance(each, AuditReport) and not _is_before(each, from_ms):
                ledger.add(each)
        verdict = judge(
            ledger,
            received,
            scan,
            scope.topics,
            scope.tiers,
            from_ms=from_ms,
            until_ms=scope.until_ms,
            rules=scope.rules,
            state=before,
        )
        if before is not None and not scan.faults and received.gone_back(before.tables):
            return None
        tables = before.tables if before is not None and scan.faults else received.marks()
        heard = frozenset(expected.heard if expected else ())
        return Outcome(verdict, 0, self._window_ms, 0, heard=heard, tables=tables)


def _is_before(each: object, from_ms: int | None, tiers: Collection[str] | None = None) -> bool:
    """Say whether it counts a window from before a time, for one of the tiers if some are given."""
    is_of = isinstance(each, AuditReport) and (tiers is None or each.tier in tiers)
    return isinstance(each, AuditReport) and is_of and from_ms is not None and each.start_ms < from_ms
