"""The verdict on tiers: which windows have a gap, and which cannot be judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka2011.audit.gaps import GapFinder
from kafka2011.audit.scan import DEFAULT_RULES, Unknown
from kafka2011.audit.unknowns import Unknowns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafka2011.audit.compare import Ledger, WindowAccount
    from kafka2011.audit.received import Expected, ReceivedReports
    from kafka2011.audit.scan import AuditScan, Rules
    from kafka2011.audit.state import AuditState


class Verdict(NamedTuple):
    """The findings about windows that end by a time.

    `gaps` are windows in which messages are missing for sure: the tier has reported that it read everything.
    `unknowns`, by topic, hold for part of the time; `lost_reports` counts the missing numbers. Windows that end by
    `settled_ms` are known for good, None if there are none.
    """

    accounts: list[WindowAccount]
    gaps: list[WindowAccount]
    unknowns: list[tuple[str, Unknown]]
    lost_reports: int
    settled_ms: int | None


def judge(
    ledger: Ledger,
    received: ReceivedReports,
    scan: AuditScan,
    topics: Sequence[str] = (),
    tiers: Sequence[str] | None = None,
    *,
    from_ms: int | None,
    until_ms: int,
    rules: Rules = DEFAULT_RULES,
    state: AuditState | None = None,
) -> Verdict:
    """Judge all windows that end by a time, for these topics, or for all if none are given.

    With `tiers`, each of them is expected to have counted every topic; without, only those that reported on it. If
    something is declared (`received.expected`), its topics are judged, in its tiers. The ledger and `from_ms` begin
    where `state` ends, whose windows count as they were judged. Windows of which reports may have been removed before
    they were read are not compared.
    """
    earlier: Mapping[WindowAccount, bool] = {} if state is None else state.windows
    ledger.believe(received.belief())
    expected = received.expected
    unknowns: list[tuple[str, Unknown]] = []
    if expected is None:
        chosen = sorted(topics or received.topics)
        accounts = _whole(ledger.accounts(until_ms, tiers), scan)
    else:
        chosen = expected.topics(topics, received)
        tiers_of = {topic: expected.tiers_of(topic) for topic in chosen}
        accounts = _whole(ledger.accounts(until_ms, tiers_of, expected.sources), scan)
        silent = () if topics else expected.unmatched(chosen)
        unknowns += [(pattern, Unknown(None, "no topic matches this declared pattern")) for pattern in silent]
    end_ms = ledger.window_of(until_ms)
    lost_reports, found = 0, Unknowns(received, scan, rules)
    read_until: dict[tuple[str, str], int | None] = {}
    for topic in chosen:
        if expected is not None:
            named = expected.tiers_of(topic)
        else:
            named = received.tiers_of(topic) if tiers is None else list(tiers)
        of_topic = found.of_topic(topic, named, from_ms)
        if not received.is_counted(topic) and not _is_quiet(topic, expected, accounts):
            of_topic.append(Unknown(None, "no producer has said anything of it"))
        unknowns += [(topic, unknown) for unknown in of_topic if unknown.since_ms is None or unknown.since_ms < end_ms]
        for tier in named:
            lost_reports += received.lost_reports(topic, tier, from_ms)
            of_tier = found.of_tier(topic, tier, from_ms)
            since = [unknown.since_ms for unknown in of_tier]
            known = [at_ms for at_ms in since if at_ms is not None]
            read_until[topic, tier] = None if len(known) < len(since) else min(known, default=until_ms)
    finder = GapFinder(ledger, received, read_until, scan, rules)
    gaps = [account for account in accounts if finder.is_gap(account)]
    unknowns += finder.unknowns()
    since_ms = [unknown.since_ms for _, unknown in unknowns]
    if not accounts and not earlier:
        unknowns.append((", ".join(chosen), Unknown(None, "no window was compared")))
    gaps = sorted([*gaps, *(account for account, is_gap in earlier.items() if is_gap)])
    is_settled = bool(chosen) and None not in since_ms
    settled_ms = min([end_ms, *(at_ms for at_ms in since_ms if at_ms is not None)]) if is_settled else None
    return Verdict(sorted([*earlier, *accounts]), gaps, unknowns, lost_reports, settled_ms)


def _whole(accounts: Iterable[WindowAccount], scan: AuditScan) -> list[WindowAccount]:
    """Return the accounts of windows of which no report was removed before it was read. Others may lack only counts."""
    return [account for account in accounts if scan.since_ms is None or account.start_ms >= scan.since_ms]


def _is_quiet(topic: str, expected: Expected | None, accounts: Sequence[WindowAccount]) -> bool:
    """Say whether a declared source was heard of once, and nobody has counted an event of its topic since."""
    was_counted = expected is not None and expected.was_counted(topic)
    return was_counted and all(account.topic != topic for account in accounts)
