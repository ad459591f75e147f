"""Finds the time up to which a tier has every event; loaders record it, so jobs need not guess how late events are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka2011.audit.scan import DEFAULT_RULES, Unknown
from kafka2011.audit.unknowns import Unknowns

if TYPE_CHECKING:
    from kafka2011.audit.compare import Ledger
    from kafka2011.audit.received import ReceivedReports
    from kafka2011.audit.scan import AuditScan, Rules


class Complete(NamedTuple):
    """States up to when a tier has every event of a topic: `through_ms`, by publishing time; None: unknown.

    `missing` is how many it misses in the window that begins then, or `unknowns` say why later windows have no
    verdict. An earlier result may be taken back, as when an instance is first known only now.
    """

    through_ms: int | None
    missing: int
    unknowns: tuple[Unknown, ...] = ()


def watermark(
    ledger: Ledger,
    received: ReceivedReports,
    topic: str,
    tier: str,
    scan: AuditScan,
    *,
    read_ms: int | None = None,
    from_ms: int | None = None,
    before_ms: int | None = None,
    rules: Rules = DEFAULT_RULES,
) -> Complete | None:
    """Return the time up to which a tier has every event of a topic; None if no producer counts the topic.

    `read_ms` is when the partition ends that the tier has now reached were looked up, if the caller knows; otherwise
    the tier's progress reports say. Only events published at `from_ms` or later are considered; the ledger has their
    reports. The tier was complete through `before_ms` at the last scan, which holds unless reports say otherwise.
    This tier is compared with those that read from no partition, such as producers and collectors. Windows of which
    reports may have been removed before they were read are not compared.

    `ledger` has the reports, `received` their numbers, and `scan` is that of the reader that read them. `rules` bound
    how far clocks may be apart, and how long an instance may be silent.
    """
    if not received.is_counted(topic):
        return None
    ledger.believe(received.belief())
    found = Unknowns(received, scan, rules)
    unknowns = found.of_topic(topic, [tier] if read_ms is None else [], from_ms)
    if read_ms is not None:
        unknowns += found.of_table(topic, tier, from_ms)
        unknowns.append(Unknown(read_ms - rules.margin_ms, f"tier {tier} has seen the ends of partitions then"))
    since_ms = min(unknown.since_ms for unknown in unknowns if unknown.since_ms is not None)
    wholly = tuple(unknown for unknown in unknowns if unknown.since_ms is None)
    if wholly and (before_ms is None or scan.faults):
        return Complete(None if before_ms is None else min(before_ms, ledger.window_of(since_ms)), 0, wholly)
    through_ms = ledger.window_of(since_ms)
    if wholly and before_ms is not None:
        through_ms = min(through_ms, before_ms)
    holding = wholly or tuple(unknown for unknown in unknowns if unknown.since_ms == since_ms)
    for start_ms, missing in ledger.missing(topic, tier, through_ms):
        if missing and (scan.since_ms is None or start_ms >= scan.since_ms):
            return Complete(start_ms, missing)
    return Complete(through_ms, 0, holding)


complete = watermark
"""The name of `watermark` in release 0.2.0, for programs that import it."""
