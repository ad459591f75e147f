"""How far topics are loaded, from what their tables say of their commits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka2011.errors import ConfigError
from kafka2011.warehouse.table.commits import Operation
from kafka2011.warehouse.table.formats import Format, list_tables, open_topic_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafka2011.warehouse.table.commits import Commit
    from zk.cluster import TopicPartition


@dataclass(frozen=True, slots=True)
class Status:
    """How far one topic is loaded. `commits` counts loads; sizes and rows are those of all commits still known."""

    topic: str
    number: int
    commits: int
    rows: int
    quarantined: int
    size_bytes: int
    lost_bytes: int
    written_at_ms: int
    complete_through_ms: int | None
    offsets: Mapping[TopicPartition, int]

    def to_json(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        return {
            "topic": self.topic,
            "number": self.number,
            "loads": self.commits,
            "rows": self.rows,
            "quarantined": self.quarantined,
            "size_bytes": self.size_bytes,
            "lost_bytes": self.lost_bytes,
            "written_at_ms": self.written_at_ms,
            "complete_through_ms": self.complete_through_ms,
            "offsets": {where.znode_name: offset for where, offset in sorted(self.offsets.items())},
        }


def status_of(
    warehouse: str,
    table_format: Format,
    topics: Iterable[str] = (),
    pattern: str = "",
) -> list[Status]:
    """Return how far topics are loaded: those that are named, or whose whole name matches, or all there are.

    Only a local warehouse can be listed; of others topics must be named. Raises WarehouseError.
    """
    found = []
    for topic in table_names(warehouse, table_format, topics, pattern):
        commits = open_topic_table(table_format, warehouse, topic).commits()
        if commits:
            found.append(status_from(topic, commits))
    return found


def table_names(
    warehouse: str,
    table_format: Format,
    topics: Iterable[str] = (),
    pattern: str = "",
) -> list[str]:
    """Return the names of tables: those that are given, or whose whole name matches, or all. Raises as `status_of`."""
    names = list(topics) or list_tables(table_format, warehouse)
    try:
        wanted = re.compile(pattern or ".*")
    except re.error as error:
        raise ConfigError(f"{pattern!r} is not a regex: {error}") from error
    return list(filter(wanted.fullmatch, names))


def status_from(topic: str, commits: Sequence[Commit]) -> Status:
    """Return what the commits of a table say; at least one."""
    newest = commits[-1]
    replaced = {number for each in commits for number in each.replaces}
    redriven = {number for each in commits if each.operation is Operation.REDRIVE for number in each.replaces}
    rewritten = replaced - redriven
    return Status(
        topic=topic,
        number=newest.number,
        commits=sum(each.operation is Operation.LOAD for each in commits),
        rows=sum(each.rows for each in commits if each.operation is not Operation.COMPACT),
        quarantined=sum(each.quarantined for each in commits if each.number not in redriven),
        size_bytes=sum(each.size_bytes for each in commits if each.number not in rewritten),
        lost_bytes=sum(lost.lost_bytes for each in commits for lost in each.ranges),
        written_at_ms=newest.written_at_ms,
        complete_through_ms=next(
            (each.complete_through_ms for each in reversed(commits) if each.complete_through_ms is not None), None
        ),
        offsets=newest.offsets,
    )
