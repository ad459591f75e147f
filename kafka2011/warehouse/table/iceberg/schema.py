"""The columns of an Iceberg table: at its start only the one that partitions it, then those of what is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import ValidationError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import HourTransform
from pyiceberg.types import NestedField, TimestamptzType

from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.iceberg.footers import TIME

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Transaction

FIRST_SCHEMA = Schema(NestedField(1, TIME, TimestamptzType(), required=False))
BY_HOUR = PartitionSpec(PartitionField(1, 1000, HourTransform(), "kafka2011_hour"))
"""A file has rows of one hour, which is read from the statistics in its footer, never from its path."""

_OWN_PREFIX = "kafka2011_"


def evolve(transaction: Transaction, columns: pa.Schema, where: str) -> None:
    """Make the table's schema take these columns: new ones are added, and types made wider.

    A column that is no longer there stays and is null from now on. Those of events stand before our own. Raises
    WarehouseError when a type has changed in a way that would change what is in the table.
    """
    names = transaction.table_metadata.schema().column_names
    own = next((name for name in names if name.startswith(_OWN_PREFIX)), None)
    try:
        with transaction.update_schema() as update:
            update.union_by_name(columns)
            for name in columns.names:
                if name not in names and own is not None and not name.startswith(_OWN_PREFIX):
                    update.move_before(name, own)
    except (ValidationError, ValueError, TypeError) as error:
        raise WarehouseError(f"{where}: {error}") from error
