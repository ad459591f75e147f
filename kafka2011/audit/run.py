"""One run of the audit: scans the topic `audit`, judges, and keeps the final verdicts."""

from __future__ import annotations

import logging
import tempfile
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from kafka2011.audit.compare import Ledger
from kafka2011.audit.reader import AuditReader
from kafka2011.audit.received import AGAIN_MS, ReceivedReports, Rules
from kafka2011.audit.state import KEEP_MS, AuditState, AuditStateError, ReadPlace, until_when
from kafka2011.audit.verdict import Verdict, judge

if TYPE_CHECKING:
    from pathlib import Path

    from kafka2011.audit.received import AuditScan
    from kafka2011.config import SimpleConsumerConfig
    from zk.client import ZkClient

logger = logging.getLogger(__name__)


REPORTING_MS = 60_000
"""What tiers may take to report, beside the grace, which counts twice where a mirror passes reports on."""


def judgeable_until_ms(rules: Rules, now_ms: int) -> int:
    """Return by when windows must have ended for tiers to have reported on them by now."""
    return now_ms - 2 * rules.margin_ms - REPORTING_MS


class Scope(NamedTuple):
    """What to judge: topics, or all if there are none; tiers, or those that report; and which windows."""

    topics: tuple[str, ...]
    tiers: tuple[str, ...] | None
    from_ms: int | None
    until_ms: int
    rules: Rules


class Outcome(NamedTuple):
    """The verdict, how many windows cannot be judged yet, their length, and how many reports were not readable."""

    verdict: Verdict
    open_windows: int
    window_ms: int
    unreadable: int


def run(client: ZkClient, config: SimpleConsumerConfig, scope: Scope, path: Path | None = None) -> Outcome:
    """Judge a scope. With a state file at `path`, go on where the last run ended, and save how far this one got.

    A state needs a scope with tiers. Raises KafkaError, and AuditStateError if the state is of something else.
    """
    if path is None:
        return _run(client, config, scope, None)[0]
    assert scope.tiers is not None
    state = AuditState.load(path, scope.tiers, scope.topics, scope.from_ms)
    outcome, reader = _run(client, config, scope, state)
    if state is not None and (late := reader.late & set(state.tiers)):
        logger.warning("tier %s has reported on windows that were judged for good: all is read again", min(late))
        state = None
        outcome, reader = _run(client, config, scope, None)
    keep(outcome, reader.place, reader.scan.home, scope, state).save(path)
    return outcome


def _run(
    client: ZkClient, config: SimpleConsumerConfig, scope: Scope, state: AuditState | None
) -> tuple[Outcome, AuditReader]:
    from_ms = scope.from_ms
    if state is not None and state.until_ms is not None:
        from_ms = state.until_ms if from_ms is None else max(from_ms, state.until_ms)
    reader, received = AuditReader(config, place=None if state is None else state.place), ReceivedReports()
    with tempfile.TemporaryFile() as file:
        ledger = Ledger(cast("BinaryIO", file), 0)
        for report in reader.read(client, scope.topics, from_ms, received):
            ledger.add(report)
        if state is not None:
            check(state, reader.scan, ledger)
        verdict = judge(
            ledger,
            received,
            reader.scan,
            scope.topics,
            scope.tiers,
            from_ms=from_ms,
            until_ms=scope.until_ms,
            rules=scope.rules,
            state=None if state is None else state.ended_by(scope.until_ms),
        )
        window_ms = ledger.window_ms if ledger.topics or state is None else state.window_ms
        return Outcome(verdict, ledger.open_windows(scope.until_ms), window_ms, reader.unreadable), reader


def check(state: AuditState, scan: AuditScan, ledger: Ledger) -> None:
    """Raise AuditStateError if the state is of something else than what was read."""
    if state.home != scan.home:
        raise AuditStateError(f"the state is of cluster {state.home}, and this one is {scan.home}")
    if state.windows and ledger.topics and state.window_ms != ledger.window_ms:
        raise AuditStateError(f"the state has windows of {state.window_ms} ms, and now they have {ledger.window_ms}")


def keep(
    outcome: Outcome, place: ReadPlace, home: str, scope: Scope, before: AuditState | None, again_ms: int = AGAIN_MS
) -> AuditState:
    """Return what is judged for good after a run, in a cluster, that began where `before` ended. Pure.

    The last `again_ms` of what is known may be judged again.
    """
    verdict, window_ms = outcome.verdict, outcome.window_ms
    settled_ms = None if verdict.settled_ms is None else verdict.settled_ms // window_ms * window_ms
    until_ms = until_when(settled_ms, None if before is None else before.until_ms, again_ms)
    gaps = set(verdict.gaps)
    windows = {} if before is None else dict(before.windows)
    if until_ms is not None:
        new = [account for account in verdict.accounts if account not in windows and account.start_ms < until_ms]
        windows |= {account: account in gaps for account in new}
    assert scope.tiers is not None
    return AuditState(
        home=home,
        tiers=scope.tiers,
        topics=tuple(sorted(scope.topics)),
        from_ms=scope.from_ms,
        window_ms=window_ms,
        until_ms=until_ms,
        place=place,
        windows={
            account: is_gap for account, is_gap in windows.items() if account.start_ms >= scope.until_ms - KEEP_MS
        },
    )
