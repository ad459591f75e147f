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
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from kafka2011.warehouse.table.files import Files
    from kafka2011.warehouse.table.iceberg.iceberg_table import IcebergTable
    from kafka2011.warehouse.table.table import Table


class Format(StrEnum):
    """What tables are made of."""

    PARQUET = "parquet"
    ICEBERG = "iceberg"

    @property
    def follow_interval_s(self) -> float:
        """The time between two loads: each load of Parquet files makes a directory, and there should not be many."""
        return 60.0 if self is Format.ICEBERG else 600.0


def open_topic_table(
    table_format: Format,
    warehouse: str,
    topic: str,
    spark: SparkSession | None = None,
    catalog: Mapping[str, str] | None = None,
) -> Table:
    """Return a topic's table. `catalog` has pyiceberg's properties of a catalogue, if it is not the warehouse's own.

    Raises WarehouseError, InvalidTopicError, and MissingExtraError.
    """
    if table_format is Format.ICEBERG:
        return open_iceberg_table(warehouse, topic, catalog)
    from kafka2011.warehouse.table.parquet.parquet_table import ParquetTable  # noqa: PLC0415 (as the other)

    return ParquetTable(warehouse, topic, spark=spark)


def open_iceberg_table(warehouse: str, topic: str, catalog: Mapping[str, str] | None = None) -> IcebergTable:
    """Return a topic's table in Iceberg. Raises WarehouseError, InvalidTopicError, and MissingExtraError."""
    table: IcebergTable = _iceberg("iceberg_table").IcebergTable(warehouse, topic, catalog=catalog)
    return table


def list_tables(table_format: Format, warehouse: str, catalog: Mapping[str, str] | None = None) -> list[str]:
    """List the tables of a warehouse; of Parquet tables only a local one can be listed. Raises WarehouseError."""
    if table_format is Format.ICEBERG:
        names: list[str] = _iceberg("catalog").list_tables(warehouse, catalog)
        return names
    location = location_of(warehouse)
    files = files_of(location)
    return [name for name in files.names(location) if _is_table(files, f"{location}/{name}")]


def _is_table(files: Files, directory: str) -> bool:
    """Say whether loads were committed there; what else lies in a warehouse is nobody's table."""
    with contextlib.suppress(NotADirectoryError):
        return any(name.startswith("load_id=") for name in files.names(directory))
    return False


def _iceberg(module: str) -> Any:
    try:
        return import_module(f"kafka2011.warehouse.table.iceberg.{module}")
    except ImportError as error:
        if (error.name or "").startswith("kafka2011"):
            raise
        raise missing_extra(error) from error


def open_quarantine(warehouse: str, topic: str, spark: SparkSession | None = None) -> Quarantine:
    """Return the quarantine of a topic. Raises WarehouseError."""
    location = location_of(warehouse)
    return Quarantine(files_of(location, spark), quarantine_of(location, topic))
