"""Tells lost messages from late ones: a gap needs proof that a tier has read past the place of what it lacks. Pure.

A clock proves nothing about another one. So both sides of the proof are times of one ZooKeeper, that of the cluster
whose log holds the messages: by when all that a report counts was in that log, and when a reader looked where it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka2011.audit.reads import Flow
from kafka2011.audit.scan import Unknown
from kafka2011.audit.unknowns import Unknowns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka2011.audit.compare import Ledger, WindowAccount
    from kafka2011.audit.received import ReceivedReports
    from kafka2011.audit.scan import AuditScan, Rules


class GapFinder:
    """Finds which windows with missing messages are gaps for sure, and which tiers may be merely late."""

    def __init__(
        self,
        ledger: Ledger,
        received: ReceivedReports,
        read_until: Mapping[tuple[str, str], int | None],
        scan: AuditScan,
        rules: Rules,
    ) -> None:
        self._ledger = ledger
        self._received = received
        self._read_until = read_until
        self._scan = scan
        self._rules = rules
        self._flows: dict[str, Flow] = {}
        self._late: dict[tuple[str, str], int] = {}  # by topic and tier, the first window that may be merely late

    def is_gap(self, account: WindowAccount) -> bool:
        """Say whether messages are missing though the tier, and those before it where that matters, has read past them.

        Otherwise, note the tiers that say to have read the window, and may not have read these messages.
        """
        if not account.has_gap:
            return False
        topic, start_ms = account.topic, account.start_ms
        homes = self._homes_of(topic)
        all_read, first, before = True, _Counted(set(), 0), _Counted(set(), 0)
        late: list[str] = []
        for count in account.tiers:
            tier = count.tier
            until_ms = self._read_until.get((topic, tier))
            is_read = until_ms is not None and start_ms < self._ledger.window_of(until_ms)
            all_read = all_read and is_read
            counted = _Counted(homes.get(tier, set()), self._ledger.counted_by_ms(topic, start_ms, tier))
            lacks, lacks_first = count.missing and is_read, count.missing_since_first and all_read
            if (lacks and self._has_passed(topic, tier, before)) or (
                lacks_first and self._has_passed(topic, tier, first)
            ):
                return True
            if lacks or lacks_first:
                late.append(tier)
            is_source = tier not in self._received.readers_of(topic)
            if is_source:
                first = _Counted(first.homes | counted.homes, max(first.at_ms, counted.at_ms))
            before = first if is_source else counted
        for tier in late:
            self._late[topic, tier] = min(start_ms, self._late.get((topic, tier), start_ms))
        return False

    def unknowns(self) -> list[tuple[str, Unknown]]:
        """Return, by topic, since when tiers lack messages that they may not have come to yet."""
        return [
            (topic, Unknown(start_ms, f"tier {tier} lacks messages that it may not have come to yet"))
            for (topic, tier), start_ms in sorted(self._late.items())
        ]

    def _has_passed(self, topic: str, tier: str, counted: _Counted) -> bool:
        if self._scan.faults:  # what it has counted may be in what cannot be read now
            return False
        if topic not in self._flows:
            reads = Unknowns(self._received, self._scan, self._rules).reads_of(topic)
            self._flows[topic] = Flow(reads, self._rules.visible_ms)
        return self._flows[topic].has_passed(tier, counted.homes, counted.at_ms)

    def _homes_of(self, topic: str) -> dict[str, set[str]]:
        """Return, by tier, the clusters whose logs have what the tier counts: those that it reports to."""
        homes: dict[str, set[str]] = {}
        for tier, home in self._received.sources_of(topic):
            homes.setdefault(tier, set()).add(home)
        for tier, places in self._received.readers_of(topic).items():
            homes.setdefault(tier, set()).update(home for _, home in places)
        return homes


class _Counted(NamedTuple):
    """What a tier has counted was in the logs of these clusters by a time of their ZooKeepers; 0 if that is unknown."""

    homes: set[str]
    at_ms: int
