"""The formats that tables may have, and where a topic's table and quarantine are."""

from __future__ import annotations

from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING

from kafka2011.warehouse.locations import files_of, location_of, quarantine_of
from kafka2011.warehouse.quarantine import Quarantine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka2011.warehouse.table import Table


class Format(StrEnum):
    """What tables are made of."""

    PARQUET = "parquet"
    ICEBERG = "iceberg"

    @property
    def follow_interval_s(self) -> float:
        """The time between two loads: a load of Parquet files is a directory, of which there should not be many."""
        return 60.0 if self is Format.ICEBERG else 600.0


def open_topic_table(table_format: Format, warehouse: str, topic: str, spark: SparkSession | None = None) -> Table:
    """Return a topic's table. Raises WarehouseError, InvalidTopicError, and KafkaError for a missing extra."""
    if table_format is Format.ICEBERG:
        table: Table = import_module("kafka2011.warehouse.iceberg_table").IcebergTable(warehouse, topic)
        return table
    from kafka2011.warehouse.parquet_table import ParquetTable  # noqa: PLC0415 (as the other)

    return ParquetTable(warehouse, topic, spark=spark)


def open_quarantine(warehouse: str, topic: str, spark: SparkSession | None = None) -> Quarantine:
    """Return the quarantine of a topic. Raises WarehouseError."""
    location = location_of(warehouse)
    return Quarantine(files_of(location, spark), quarantine_of(location, topic))
