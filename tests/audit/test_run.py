"""What one run of the audit keeps for the next one."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest

from kafka2011.audit.compare import Ledger, TierCount, WindowAccount
from kafka2011.audit.report import AuditReport
from kafka2011.audit.run import Outcome, Scope, check, keep
from kafka2011.audit.scan import AuditScan, Rules
from kafka2011.audit.state import KEEP_MS, AuditState, AuditStateError, ReadPlace
from kafka2011.audit.verdict import Verdict

PLACE = ReadPlace(None, {(0, 0): 5}, {(0, 0): 9})
AGAIN_MS = 20


def account(start_ms: int) -> WindowAccount:
    return WindowAccount("views", start_ms, (TierCount("producer", 1, 1, 0, 0),))


def kept(settled_ms: int | None, before: AuditState | None = None, starts: range = range(0, 100, 10)) -> AuditState:
    """Keep what is judged when windows have begun at these times; the one at 10 has a gap."""
    accounts = [account(start_ms) for start_ms in starts]
    verdict = Verdict(accounts, [each for each in accounts if each.start_ms == 10], [], 0, settled_ms)
    scope = Scope(("views", "clicks"), ("producer",), None, 100, Rules())
    return keep(Outcome(verdict, 0, 10, 0), PLACE, "here", scope, before, AGAIN_MS)


def test_windows_with_a_final_verdict_are_kept_with_their_gaps() -> None:
    """All but the last ones, which may be judged again."""
    found = kept(55)
    assert (found.until_ms, found.windows) == (30, {account(0): False, account(10): True, account(20): False})
    assert (found.home, found.tiers, found.topics, found.window_ms) == ("here", ("producer",), ("clicks", "views"), 10)
    assert found.place == PLACE


def test_what_was_kept_stays() -> None:
    """With what has come to it; unknowns take nothing back."""
    first = kept(55)
    assert kept(None, first, range(30, 100, 10)) == first
    assert kept(45, first, range(30, 100, 10)) == first
    found = kept(70, first, range(30, 100, 10))
    assert found.until_ms == 50
    assert [each.start_ms for each in found.windows] == [0, 10, 20, 30, 40]
    assert [each.start_ms for each, is_gap in found.windows.items() if is_gap] == [10]


def test_nothing_is_judged_for_good_while_all_is_unknown() -> None:
    """Then the next run begins where this one did."""
    found = kept(None)
    assert (found.until_ms, found.windows) == (None, {})


def test_windows_are_kept_for_a_week() -> None:
    """As long as brokers keep reports unless told otherwise."""
    first = kept(55)
    old = account(100 - KEEP_MS - 10)
    found = kept(55, replace(first, windows={old: True, account(100 - KEEP_MS): True, **first.windows}))
    assert [each.start_ms for each in found.windows] == [100 - KEEP_MS, 0, 10, 20]


def test_a_state_of_another_cluster_or_other_windows_is_refused() -> None:
    """Its windows cannot stand beside those that were read."""
    state, ledger = kept(55), Ledger(io.BytesIO())
    there, here = AuditScan(at_ms=0, home="there"), AuditScan(at_ms=0, home="here")
    with pytest.raises(AuditStateError, match="the state is of cluster here, and this one is there"):
        check(state, there, ledger)
    check(state, here, ledger)
    report = AuditReport(tier="a", instance="b", topic="c", window_ms=20, start_ms=0, ids=np.ones(2, np.uint64))
    ledger.add(report)
    with pytest.raises(AuditStateError, match="windows of 10 ms, and now they have 20"):
        check(state, here, ledger)
