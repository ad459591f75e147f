"""One run of the audit: scans the topic `audit`, judges, and keeps the final verdicts."""

from __future__ import annotations

import logging
import tempfile
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from kafka2011.audit.cluster_clock import earlier_ms
from kafka2011.audit.compare import Ledger
from kafka2011.audit.expected import ExpectedReports
from kafka2011.audit.reader import AuditReader, zookeeper_ms
from kafka2011.audit.received import ReceivedReports
from kafka2011.audit.report import AUDIT_TOPIC
from kafka2011.audit.scan import AGAIN_MS, Rules
from kafka2011.audit.state import KEEP_MS, AuditState, AuditStateError, ReadPlace, until_when
from kafka2011.audit.verdict import Verdict, judge
from zk.audit import AuditNodes
from zk.brokers import BrokerRegistry
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kafka2011.audit.expected import Heard
    from kafka2011.audit.pipeline import Pipeline
    from kafka2011.audit.reported_tables import TableMark
    from kafka2011.audit.scan import AuditScan
    from kafka2011.config import SimpleConsumerConfig
    from zk.client import ZkClient

logger = logging.getLogger(__name__)


REPORTING_MS = 60_000
"""What tiers may take to report, beside the grace, which counts twice where a mirror passes reports on."""


def judgeable_until_ms(rules: Rules, now_ms: int) -> int:
    """Return by when windows must have ended for tiers to have reported on them by now."""
    return now_ms - 2 * rules.margin_ms - REPORTING_MS


def earlier_clock_ms(client: ZkClient) -> int:
    """Return the earlier of this machine's time and ZooKeeper's, in ms since 1970. Raises ZkError."""
    return earlier_ms(int(SYSTEM_CLOCK.wall_s() * 1000), zookeeper_ms(client))


class Scope(NamedTuple):
    """What to judge: topics, or all if there are none; tiers, or those that report; and which windows.

    With a declared `pipeline`, its topics in its tiers; the cluster that is read is at `zk_connect`.
    """

    topics: tuple[str, ...]
    tiers: tuple[str, ...] | None
    from_ms: int | None
    until_ms: int
    rules: Rules
    pipeline: Pipeline | None = None
    zk_connect: str = ""

    @property
    def digest(self) -> str:
        """The digest of what is declared; empty if nothing is."""
        return "" if self.pipeline is None else self.pipeline.digest


class Outcome(NamedTuple):
    """The verdict, how many windows cannot be judged yet, their length, and how many reports were not readable.

    `undeclared` is what was heard of beside what is declared, and `heard` what was heard of that. `tables` is how far
    each table has come, by topic and tier.
    """

    verdict: Verdict
    open_windows: int
    window_ms: int
    unreadable: int
    undeclared: tuple[str, ...] = ()
    heard: frozenset[Heard] = frozenset()
    tables: Mapping[tuple[str, str], TableMark] = MappingProxyType({})


def run(client: ZkClient, config: SimpleConsumerConfig, scope: Scope, path: Path | None = None) -> Outcome:
    """Judge a scope. With a state file at `path`, go on where the last run ended, and save how far this one got.

    A state needs a scope with tiers, or with a pipeline. Raises KafkaError, and AuditStateError if the state is of
    something else.
    """
    if path is None:
        return _run(client, config, scope, None)[0]
    state = AuditState.load(path, scope.tiers or (), scope.topics, scope.from_ms, scope.digest)
    outcome, reader, gone_back = _run(client, config, scope, state)
    if gone_back:
        logger.warning(
            "tier %s counts less than when its windows were decided: reading all reports again", gone_back[0]
        )
        state = None
        outcome, reader, _ = _run(client, config, scope, None)
    tiers = scope.tiers or () if scope.pipeline is None else [tier.name for tier in scope.pipeline.tiers]
    if state is not None and (late := reader.late.tiers(tiers)):
        logger.warning("tier %s has reported on windows that were decided: reading all reports again", late[0])
        state = None
        outcome, reader, _ = _run(client, config, scope, None)
    keep(outcome, reader.place, reader.scan.home, scope, state).save(path)
    return outcome


def _run(
    client: ZkClient, config: SimpleConsumerConfig, scope: Scope, state: AuditState | None
) -> tuple[Outcome, AuditReader, list[str]]:
    from_ms = scope.from_ms
    if state is not None and state.until_ms is not None:
        from_ms = state.until_ms if from_ms is None else max(from_ms, state.until_ms)
    expected = None
    if scope.pipeline is not None:
        expected = expect(client, scope.pipeline, scope.zk_connect)
        # Who reported on windows that were judged for good is remembered; without a state nothing is.
        expected.heard |= frozenset() if state is None else state.heard
        expected.is_partial = state is None and from_ms is not None
    reader = AuditReader(config, place=None if state is None else state.place)
    received = ReceivedReports(expected)
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
        is_blind = state is not None and bool(reader.scan.faults)  # what it cannot read now may be what counts
        tables = state.tables if state is not None and is_blind else received.marks()
        outcome = Outcome(verdict, ledger.open_windows(scope.until_ms), window_ms, reader.unreadable, tables=tables)
        if expected is not None:
            others = tuple(expected.undeclared(expected.topics(scope.topics, received), received))
            outcome = outcome._replace(undeclared=others, heard=frozenset(expected.heard))
        return outcome, reader, [] if state is None or is_blind else received.gone_back(state.tables)


def expect(client: ZkClient, pipeline: Pipeline, zk_connect: str) -> ExpectedReports:
    """Return what a pipeline lets expect of the cluster at a zk.connect. Raises PipelineError, ZkError."""
    home = AuditNodes(client).cluster_id()
    existing = [topic for topic in BrokerRegistry(client).topics() if topic != AUDIT_TOPIC]
    here = pipeline.cluster_here(zk_connect, home)
    return ExpectedReports(pipeline=pipeline, here=here, home=home, existing=existing)


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
    return AuditState(
        home=home,
        tiers=scope.tiers or (),
        topics=tuple(sorted(scope.topics)),
        from_ms=scope.from_ms,
        window_ms=window_ms,
        until_ms=until_ms,
        place=place,
        windows={
            account: is_gap for account, is_gap in windows.items() if account.start_ms >= scope.until_ms - KEEP_MS
        },
        pipeline=scope.digest,
        heard=outcome.heard,
        tables=outcome.tables,
    )
