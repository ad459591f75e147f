"""How far topics are loaded, from what their tables say of their commits."""

from __future__ import annotations

import contextlib
import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from kafka2011.errors import REGEX_ERRORS, ConfigError, as_failure
from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.commits import Operation, since_swap
from kafka2011.warehouse.table.forgetting import loads_in
from kafka2011.warehouse.table.history import LOG
from kafka2011.warehouse.table.line import has_lost_rows, line_of
from kafka2011.warehouse.table.locations import check_reachable, files_of, location_of
from kafka2011.warehouse.table.topic_table import TopicTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafka2011.errors import KafkaError
    from kafka2011.warehouse.table.commits import Commit
    from kafka2011.warehouse.table.counted import Line
    from kafka2011.warehouse.table.files import Files
    from kafka2011.warehouse.table.history import History
    from zk.cluster import TopicPartition


@dataclass(frozen=True, slots=True)
class Status:
    """How far one topic is loaded. Sizes and rows are those of all loads."""

    topic: str
    number: int
    loads: int
    rows: int
    quarantined: int
    size_bytes: int
    lost_bytes: int
    written_at_ms: int
    complete_through_ms: int | None
    offsets: Mapping[TopicPartition, int]

    def to_json(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        return {**asdict(self), "offsets": {where.znode_name: offset for where, offset in sorted(self.offsets.items())}}


def status_of(
    warehouse: str, topics: Iterable[str] = (), pattern: str = "", failed: dict[str, KafkaError] | None = None
) -> list[Status]:
    """Return how far topics are loaded: those that are named, or whose whole name matches, or all there are.

    With `failed`, a table that cannot be read is left out, and the reason is put there by its topic. Only a local
    warehouse can be listed; of others topics must be named. Raises WarehouseError.
    """
    check_reachable(warehouse)
    statuses = []
    for topic in table_names(warehouse, topics, pattern):
        try:
            status = _status(TopicTable(warehouse, topic))
        except BaseException as error:
            failure = as_failure(error)
            if failed is None:
                raise
            failed[topic] = failure
            continue
        if status is not None:
            statuses.append(status)
    return statuses


def _status(table: TopicTable) -> Status | None:
    """Return how far a table is loaded; None if it has no commits."""
    history = table.seen()
    if history is None:
        return None
    with table.translated_errors():
        commits = history.commits()
    if not commits:
        return None
    line = _line(history)
    status = status_from(table.topic, commits)
    is_so = line is not None and not has_lost_rows(commits[-1], line)
    return status if is_so else replace(status, complete_through_ms=None)


def _line(history: History) -> Line | None:
    """Return which commits are in a table; None where nobody knows what else is."""
    try:
        return line_of(history, 0)
    except WarehouseError:
        return None


def table_names(warehouse: str, topics: Iterable[str] = (), pattern: str = "") -> list[str]:
    """Return the names of tables: those that are given, or whose whole name matches, or all. Raises as `status_of`."""
    return matching(topics or list_tables(warehouse), pattern)


def matching(names: Iterable[str], pattern: str = "") -> list[str]:
    """Return the names that match as a whole; all without a pattern. Raises ConfigError."""
    try:
        wanted = re.compile(pattern or ".*")
    except REGEX_ERRORS as error:
        raise ConfigError(f"{pattern!r} is not a regex: {error}") from error
    return list(filter(wanted.fullmatch, names))


def list_tables(warehouse: str) -> list[str]:
    """List the tables of a local warehouse. Raises WarehouseError."""
    location = location_of(warehouse)
    files = files_of(location)
    return [name for name in files.names(location) if _is_table(files, f"{location}/{name}")]


def _is_table(files: Files, directory: str) -> bool:
    """Say whether it has a log of entries; what else lies in a warehouse is nobody's table."""
    with contextlib.suppress(NotADirectoryError):
        return LOG in files.names(directory)
    return False


def status_from(topic: str, commits: Sequence[Commit]) -> Status:
    """Return what the commits of a table say; at least one."""
    commits = since_swap(commits)
    newest = commits[-1]
    redriven = {number for commit in commits if commit.operation is Operation.REDRIVE for number in commit.replaces}
    return Status(
        topic=topic,
        number=newest.number,
        loads=sum(loads_in(commit) for commit in commits),
        rows=sum(commit.rows for commit in commits),
        quarantined=sum(commit.quarantined for commit in commits if commit.number not in redriven),
        size_bytes=sum(commit.size_bytes for commit in commits),
        lost_bytes=sum(lost.lost_bytes for commit in commits for lost in commit.ranges),
        written_at_ms=newest.written_at_ms,
        complete_through_ms=next(
            (
                commit.complete_through_ms
                for commit in reversed(commits)
                if commit.complete_through_ms is not None or commit.counts is not None
            ),
            None,
        ),
        offsets=newest.offsets,
    )
