"""Upkeep of the tables of several topics: compaction, cleaning, going on after a rollback."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafka2011.errors import KafkaError
from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.formats import Format, delta, open_delta_table
from kafka2011.warehouse.table.parquet.compact import GRACE_S, TARGET_BYTES, compact, remove_replaced
from kafka2011.warehouse.table.parquet.parquet_table import STAGING_LIFETIME_S, ParquetTable
from kafka2011.warehouse.table.status import table_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tended:
    """What was done to several tables, as JSON has it, and what failed."""

    done: list[dict[str, Any]] = field(default_factory=list)
    failed: dict[str, KafkaError] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        failed = [{"topic": name, "error": str(error)} for name, error in self.failed.items()]
        return {"topics": self.done, "failed": failed}


def compact_tables(
    warehouse: str,
    table_format: Format = Format.PARQUET,
    topics: Iterable[str] = (),
    pattern: str = "",
    *,
    target_bytes: int = TARGET_BYTES,
    grace_s: float = GRACE_S,
) -> Tended:
    """Rewrite the small files of tables, those that are named, or match, or all; one that fails leaves others alone."""

    def work(name: str) -> dict[str, Any]:
        if table_format is Format.DELTA:
            table = open_delta_table(warehouse, name)
            rewritten: dict[str, int] = delta("compaction").compact(table, target_bytes)._asdict()
            return rewritten
        commits = compact(existing_table(warehouse, name), target_bytes=target_bytes, grace_s=grace_s)
        return {
            "commits": [{"number": each.number, "replaced": len(each.replaces), "rows": each.rows} for each in commits]
        }

    return _tend(table_names(warehouse, table_format, topics, pattern), work, "compacted")


def clean_tables(
    warehouse: str,
    table_format: Format = Format.PARQUET,
    topics: Iterable[str] = (),
    pattern: str = "",
    *,
    older_than_s: float = STAGING_LIFETIME_S,
) -> Tended:
    """Remove what dead loads have left, and what nothing names any more, where all of it is so old.

    A load must not take longer than that: it would fail when it commits.
    """

    def work(name: str) -> dict[str, Any]:
        if table_format is Format.DELTA:
            cleaned: dict[str, int] = delta("cleaning").clean(open_delta_table(warehouse, name), older_than_s)._asdict()
            return cleaned
        table = existing_table(warehouse, name)
        return {"directories": len(table.remove_leftovers(older_than_s)) + len(remove_replaced(table))}

    return _tend(table_names(warehouse, table_format, topics, pattern), work, "cleaned")


def settle_rollbacks(warehouse: str, topics: Iterable[str], *, again: bool) -> Tended:
    """Say how loading goes on after tables in Delta were restored: `again`, or behind what was taken out."""

    def work(name: str) -> dict[str, Any]:
        commit = open_delta_table(warehouse, name).settle_rollback(again=again)
        return {"number": commit.number, "replaces": list(commit.replaces)}

    return _tend(topics, work, "settled")


def _tend(names: Iterable[str], work: Callable[[str], dict[str, Any]], what: str) -> Tended:
    tended = Tended()
    for name in names:
        try:
            tended.done.append({"topic": name, **work(name)})
        except KafkaError as error:
            logger.error("table %s was not %s: %s", name, what, error)  # noqa: TRY400 (as above)
            tended.failed[name] = error
    return tended


def existing_table(warehouse: str, name: str) -> ParquetTable:
    """Return a Parquet table by its name, also a rebuilt one, whose topic has another. Raises WarehouseError."""
    commits = ParquetTable(warehouse, name).commits()
    if not commits:
        raise WarehouseError(f"there is no table {name} in {warehouse}")
    return ParquetTable(warehouse, commits[-1].topic, name=name)
