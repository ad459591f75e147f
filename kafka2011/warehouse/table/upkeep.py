"""Upkeep of the tables of several topics: compaction, cleaning, going on after a rollback."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafka2011.errors import KafkaError, as_failure
from kafka2011.warehouse.table.cleaning import ORPHAN_LIFETIME_S, clean
from kafka2011.warehouse.table.compaction import TARGET_BYTES, compact
from kafka2011.warehouse.table.status import table_names
from kafka2011.warehouse.table.topic_table import TopicTable

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
    warehouse: str, topics: Iterable[str] = (), pattern: str = "", *, target_bytes: int = TARGET_BYTES
) -> Tended:
    """Rewrite the small files of tables, those that are named, or match, or all; one that fails leaves others alone."""

    def work(name: str) -> dict[str, Any]:
        return compact(existing_table(warehouse, name), target_bytes)._asdict()

    return _tend(table_names(warehouse, topics, pattern), work, "compacted")


def clean_tables(
    warehouse: str,
    topics: Iterable[str] = (),
    pattern: str = "",
    *,
    older_than_s: float = ORPHAN_LIFETIME_S,
    at_rest: bool = False,
) -> Tended:
    """Remove what dead loads have left, and what nothing names any more, where all of it is so old.

    What a running load may have written is spared for an hour at least, unless the tables are `at_rest`.
    """

    def work(name: str) -> dict[str, Any]:
        return clean(existing_table(warehouse, name), older_than_s, at_rest=at_rest)._asdict()

    return _tend(table_names(warehouse, topics, pattern), work, "cleaned")


def settle_rollbacks(warehouse: str, topics: Iterable[str], *, again: bool) -> Tended:
    """Say how loading goes on after tables were restored: `again`, or behind what was taken out."""

    def work(name: str) -> dict[str, Any]:
        commit = TopicTable(warehouse, name).settle_rollback(again=again)
        return {"number": commit.number, "replaces": list(commit.replaces)}

    return _tend(topics, work, "settled")


def _tend(names: Iterable[str], work: Callable[[str], dict[str, Any]], what: str) -> Tended:
    tended = Tended()
    for name in names:
        try:
            tended.done.append({"topic": name, **work(name)})
        except BaseException as error:  # noqa: BLE001 (whatever it is, it is of this table alone)
            failure = tended.failed[name] = as_failure(error)
            logger.error("table %s was not %s: %s", name, what, failure)  # noqa: TRY400 (the text says it all)
    return tended


def existing_table(warehouse: str, name: str) -> TopicTable:
    """Return a table by its name, also a rebuilt one, whose topic has another. Raises WarehouseError."""
    table = TopicTable(warehouse, name)
    newest = table.history(table.delta()).newest()
    return table if newest is None else TopicTable(warehouse, newest.topic, name=name)
