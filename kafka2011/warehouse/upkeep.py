"""What is done to tables now and then, of several topics: compaction."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kafka2011.errors import KafkaError
from kafka2011.warehouse.compact import GRACE_S, HOUR_MS, TARGET_BYTES, compact
from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.formats import Format
from kafka2011.warehouse.parquet_table import ParquetTable
from kafka2011.warehouse.status import table_names
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka2011.warehouse.commits import Commit

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Compacted:
    """What became of the tables of several topics."""

    commits: dict[str, list[Commit]] = field(default_factory=dict)
    failed: dict[str, KafkaError] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        return {
            "topics": [
                {
                    "topic": name,
                    "commits": [
                        {"number": each.number, "replaced": len(each.replaces), "rows": each.rows} for each in commits
                    ],
                }
                for name, commits in self.commits.items()
            ],
            "failed": [{"topic": name, "error": str(error)} for name, error in self.failed.items()],
        }


def compact_tables(
    warehouse: str,
    table_format: Format = Format.PARQUET,
    topics: Iterable[str] = (),
    pattern: str = "",
    *,
    target_bytes: int = TARGET_BYTES,
    grace_s: float = GRACE_S,
) -> Compacted:
    """Rewrite the small files of tables, those that are named, or match, or all; one that fails leaves others alone."""
    done = Compacted()
    for name in table_names(warehouse, table_format, topics, pattern):
        try:
            done.commits[name] = _compact(warehouse, table_format, name, target_bytes, grace_s)
        except KafkaError as error:
            logger.error("table %s was not compacted: %s", name, error)  # noqa: TRY400 (the text says it all)
            done.failed[name] = error
    return done


def _compact(warehouse: str, table_format: Format, name: str, target_bytes: int, grace_s: float) -> list[Commit]:
    if table_format is Format.ICEBERG:
        table = import_module("kafka2011.warehouse.iceberg_table").IcebergTable(warehouse, name)
        now_ms = int(SYSTEM_CLOCK.wall_s() * 1000)
        commit = table.compact(now_ms // HOUR_MS * HOUR_MS, target_bytes)
        return [] if commit is None else [commit]
    return compact(existing_table(warehouse, name), target_bytes=target_bytes, grace_s=grace_s)


def existing_table(warehouse: str, name: str) -> ParquetTable:
    """Return a Parquet table by its name, also a rebuilt one, whose topic has another. Raises WarehouseError."""
    commits = ParquetTable(warehouse, name).commits()
    if not commits:
        raise WarehouseError(f"there is no table {name} in {warehouse}")
    return ParquetTable(warehouse, commits[-1].topic, name=name)
