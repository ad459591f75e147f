"""The formats that tables may have, and where a topic's table and quarantine are."""

from __future__ import annotations

import contextlib
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kafka2011.errors import missing_extra
from kafka2011.warehouse.table.locations import files_of, location_of, quarantine_of
from kafka2011.warehouse.table.quarantine import Quarantine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka2011.warehouse.table.delta.delta_table import TopicTable
    from kafka2011.warehouse.table.files import Files
    from kafka2011.warehouse.table.table import Table


class Format(StrEnum):
    """What tables are made of."""

    PARQUET = "parquet"
    DELTA = "delta"

    @property
    def follow_interval_s(self) -> float:
        """The time between two loads: each load of Parquet files makes a directory, and there should not be many."""
        return 60.0 if self is Format.DELTA else 600.0

    @property
    def mark(self) -> str:
        """What names in the directory of a table begin with, and in no other directory."""
        return "_delta_log" if self is Format.DELTA else "load_id="


def open_topic_table(table_format: Format, warehouse: str, topic: str, spark: SparkSession | None = None) -> Table:
    """Return a topic's table. Raises WarehouseError, InvalidTopicError, and MissingExtraError."""
    if table_format is Format.DELTA:
        return open_delta_table(warehouse, topic)
    from kafka2011.warehouse.table.parquet.parquet_table import ParquetTable  # noqa: PLC0415 (as the other)

    return ParquetTable(warehouse, topic, spark=spark)


def open_delta_table(warehouse: str, topic: str) -> TopicTable:
    """Return a topic's table in Delta. Raises WarehouseError, InvalidTopicError, and MissingExtraError."""
    table: TopicTable = delta("delta_table").TopicTable(warehouse, topic)
    return table


def list_tables(table_format: Format, warehouse: str) -> list[str]:
    """List the tables of a local warehouse. Raises WarehouseError."""
    location = location_of(warehouse)
    files = files_of(location)
    return [name for name in files.names(location) if _is_table(files, f"{location}/{name}", table_format.mark)]


def _is_table(files: Files, directory: str, mark: str) -> bool:
    """Say whether loads were committed there; what else lies in a warehouse is nobody's table."""
    with contextlib.suppress(NotADirectoryError):
        return any(name.startswith(mark) for name in files.names(directory))
    return False


def delta(module: str) -> Any:
    """Return a module of the package `delta`, which needs an extra. Raises MissingExtraError."""
    try:
        return import_module(f"kafka2011.warehouse.table.delta.{module}")
    except ImportError as error:
        if (error.name or "").startswith("kafka2011"):
            raise
        raise missing_extra(error) from error


def open_quarantine(warehouse: str, topic: str, spark: SparkSession | None = None) -> Quarantine:
    """Return the quarantine of a topic. Raises WarehouseError."""
    location = location_of(warehouse)
    return Quarantine(files_of(location, spark), quarantine_of(location, topic))
