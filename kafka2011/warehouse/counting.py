"""The loader as a tier of the audit: it counts the rows of a load, and says through when the topic is complete.

Counts are reported before the commit. What was reported by a load that died is reported again by the next one, for the
same places, and so counted once.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, Self, cast

import numpy as np

from kafka2011.errors import KafkaError
from kafka2011.pipeline.audit.compare import Ledger
from kafka2011.pipeline.audit.complete import complete
from kafka2011.pipeline.audit.publishing import open_publisher
from kafka2011.pipeline.audit.reading import AuditReader, has_audit
from kafka2011.pipeline.audit.report import ID_TYPE, INDEX_TYPE, OFFSET_TYPE, Places
from kafka2011.pipeline.audit.tally import Tally
from kafka2011.pipeline.audit.windows import Windows
from kafka2011.warehouse.write import read_counts
from zk.cluster import TopicPartition
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from kafka2011.pipeline.audit.publishing import ReportPublisher
    from kafka2011.pipeline.audit.report import Report
    from kafka2011.warehouse.commits import Commit

logger = logging.getLogger(__name__)

MAX_HELD_MESSAGES = 500_000


class LoadAudit:
    """Counts loads of one topic as a tier. `begin` a new account for each load; a context manager."""

    def __init__(self, topic: str, tier: str, zk_connect: str, windows: Windows | None = None) -> None:
        self._topic = topic
        self._tier = tier
        self._zk_connect = zk_connect
        self._windows = windows or Windows()
        self._reader = AuditReader()
        self._instance = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._publisher: ReportPublisher | None = None

    def begin(self) -> Account:
        """Return a new account."""
        return Account(self)

    def publish(self, reports: list[Report]) -> None:
        """Publish reports, and return when they are confirmed. Raises KafkaError."""
        if self._publisher is None:
            self._publisher = open_publisher(self._zk_connect)
        self._publisher.publish(reports)

    def tally(self) -> Tally:
        """Return what sorts rows into windows."""
        return Tally(self._tier, self._instance, "", self._windows)

    def through_ms(
        self, ledger: Ledger, offsets: Mapping[TopicPartition, int], seen_ms: int, from_ms: int | None
    ) -> int | None:
        """Say through when the topic is complete in a table that has everything before these offsets."""
        try:
            with connect(self._zk_connect) as client:
                if not has_audit(client):
                    return None
                for report in self._reader.read(client, [self._topic], from_ms):
                    self.add(ledger, report, offsets)
            found = complete(ledger, self._topic, self._tier, seen_ms)
        except KafkaError as error:
            logger.warning("topic %s: through when it is complete is not known now: %s", self._topic, error)
            return None
        if found is not None and found.missing:
            logger.warning(
                "topic %s: %d messages are missing in the window that begins at %d ms",
                *(self._topic, found.missing, found.through_ms),
            )
        return None if found is None else found.through_ms

    def add(self, ledger: Ledger, report: Report, offsets: Mapping[TopicPartition, int]) -> None:
        """Add a report; of this tier only what the table has: a load that died may have reported more."""
        if report.tier == self._tier and report.where is not None and report.places is not None:
            kept = report.places.offsets < offsets.get(report.where, 0)
            if not kept.any():
                return
            places = Places(report.places.offsets[kept], report.places.indexes[kept])
            report = replace(report, ids=report.ids[kept], places=places)
        ledger.add(report)

    def close(self) -> None:
        """Close what has published."""
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None


class Account:
    """What the audit knows at one load. A context manager."""

    def __init__(self, audit: LoadAudit) -> None:
        self._audit = audit
        self._stack = ExitStack()
        file = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (closed with the account)
        self._ledger = Ledger(cast("BinaryIO", file))

    def count(self, session: SparkSession, staging: str, commit: Commit) -> None:
        """Count and report all rows that were written below `staging` for a commit. Raises KafkaError."""
        tally = self._audit.tally()
        read = {each.partition: (each.start, each.end) for each in commit.ranges}
        offsets = commit.offsets
        for row in read_counts(session, commit.topic, staging):
            where = TopicPartition(commit.topic, row.broker_id, row.partition)
            places = Places(np.frombuffer(row.offsets, OFFSET_TYPE), np.frombuffer(row.indexes, INDEX_TYPE))
            ids, published_at_us = np.frombuffer(row.ids, ID_TYPE), np.frombuffer(row.published_at, np.int64)
            tally.add(commit.topic, published_at_us, ids, 0.0, where=where, places=places, read=read.get(where))
            if tally.messages >= MAX_HELD_MESSAGES:
                self._report(tally, offsets)
        self._report(tally, offsets)

    def _report(self, tally: Tally, offsets: Mapping[TopicPartition, int]) -> None:
        reports = tally.take()
        if reports:
            self._audit.publish(reports)
        for report in reports:
            self._audit.add(self._ledger, report, offsets)

    def through_ms(self, offsets: Mapping[TopicPartition, int], seen_ms: int, from_ms: int | None) -> int | None:
        """Say through when the topic is complete; see `LoadAudit.through_ms`."""
        if not seen_ms:
            return None
        return self._audit.through_ms(self._ledger, offsets, seen_ms, from_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
