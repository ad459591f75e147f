"""Publishes what the commits of a table say to the audit: their counts, and a report of what is in the table now.

Nothing is published of a commit before it is there. What a process that died has left unpublished, the next one
publishes from the table's files; reports have the ids that they had, so one that is published twice counts once.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kafka2011.audit.publishing import open_publisher
from kafka2011.audit.reader import AuditReader, has_audit
from kafka2011.audit.received import ReceivedReports
from kafka2011.errors import KafkaError
from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.loading.table_reports import (
    TierHolder,
    commits_since,
    counts_of,
    joined,
    report_of,
    seen_in,
    unpublished_of,
)
from kafka2011.warehouse.table.counts_store import CountsStore
from zk.audit import AuditNodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.audit.publishing import ReportPublisher
    from kafka2011.audit.report import AuditReport
    from kafka2011.audit.table_report import TableReport
    from kafka2011.warehouse.loading.table_reports import TimedEnds
    from kafka2011.warehouse.table.commits import Commit
    from kafka2011.warehouse.table.topic_table import TopicTable
    from zk.client import ZkClient

logger = logging.getLogger(__name__)

_TRIES = 20
"""So often another process may report the same table first."""


class TableReporter:
    """Reports one topic's table as a tier. For one thread.

    `replaces` is the id of a table whose place this one takes.
    """

    def __init__(self, topic: str, tier: str, zk_connect: str, replaces: str = "") -> None:
        self.holder = TierHolder(topic, tier, replaces)
        self._zk_connect = zk_connect
        self._publisher: ReportPublisher | None = None
        self.stated: tuple[int, str, frozenset[str]] | None = None
        """The newest commit that was reported, by number and attempt, and what was removed from the table by then."""
        self.published = 0
        """The counts of all commits up to this number are published."""

    def check(self, client: ZkClient, table_id: str | None) -> None:
        """Raise TierTakenError where another table reports as this tier. A table without id is not there yet."""
        claim = AuditNodes(client).claim_of(self.holder.topic, self.holder.tier)
        if claim is not None:
            self.holder.check(claim.table, table_id)

    def report(
        self, client: ZkClient, table: TopicTable, timed_ends: TimedEnds | None = None
    ) -> list[AuditReport | TableReport]:
        """Publish the counts of commits that were not published, then what is in the table; return these reports.

        Raises TierTakenError, and KafkaError where it could not be published: the next call does all of it.
        """
        holder, nodes = self.holder, AuditNodes(client)
        published: list[AuditReport | TableReport] = []
        for _ in range(_TRIES):
            known = nodes.claim_of(holder.topic, holder.tier)
            history = table.seen()
            if history is None:
                return published
            self._inform(client, is_needed=known is None)
            claim = holder.claim(known, history.table_id)
            now_ms = nodes.clock_ms()
            with table.translated_errors():
                seen = seen_in(history, now_ms)
                commits = commits_since(history, seen.newest, claim)
            seen = seen._replace(line=joined(seen.line, commits))
            published += self._publish_counts(table, history.table_id, unpublished_of(commits, claim))
            number, attempt = (0, "") if seen.newest is None else (seen.newest.number, seen.newest.attempt)
            said = report_of(holder, history, seen, claim, timed_ends)
            if nodes.claim(holder.topic, holder.tier, claim._replace(number=number, attempt=attempt)) is None:
                continue
            said = replace(said, at_ms=now_ms, home=self._opened().home)
            self._opened().publish([said])
            self.published, holder.last_sequence = number, claim.sequence
            self.stated = (number, attempt, frozenset(seen.line.removals))
            return [*published, said]
        raise KafkaError(
            f"topic {holder.topic}: others keep reporting as tier {holder.tier}, this table was not reported"
        )

    def close(self) -> None:
        """Close the publisher."""
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None

    # Inside ----------------------------------------------------------------------------------------------------------

    def _inform(self, client: ZkClient, *, is_needed: bool) -> None:
        """Read what says which table reports, unless that was read. Raises KafkaError where some cannot be read."""
        holder = self.holder
        if is_needed and has_audit(client):
            reader, received = AuditReader(), ReceivedReports()
            for _ in reader.read(client, [holder.topic], None, received):
                pass
            holder.note(received.tables_of(holder.topic, holder.tier), is_all=not reader.scan.faults)
        elif is_needed:
            holder.is_informed = True
        if not holder.is_informed:
            raise KafkaError("not all earlier reports could be read, so that their order is unknown")

    def _publish_counts(self, table: TopicTable, table_id: str, commits: Sequence[Commit]) -> list[AuditReport]:
        published: list[AuditReport] = []
        read = partial(CountsStore(table.files, table.path).read, topic=self.holder.topic)
        unreadable = 0
        for commit in commits:
            try:
                for reports in counts_of(commit, table_id, self.holder.tier, read):
                    self._opened().publish(reports)
                    published += reports
            except WarehouseError as error:
                unreadable += 1
                if unreadable == 1:
                    logger.error("%s; the audit misses these counts", error)  # noqa: TRY400 (the text says it all)
        return published

    def _opened(self) -> ReportPublisher:
        if self._publisher is None:
            self._publisher = open_publisher(self._zk_connect)
        return self._publisher
