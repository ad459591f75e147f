"""The columns of a table: those of what was committed, and the date that it is partitioned by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import Schema

from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.data_files import DATE

if TYPE_CHECKING:
    from deltalake import DeltaTable, Field

TIME = "time"
FIRST = pa.schema([pa.field(TIME, pa.timestamp("us", tz="UTC"))])
"""What a table has whose first commit brings no rows."""


def first_schema(columns: pa.Schema) -> Schema:
    """Return the schema of a new table for files of these columns."""
    return Schema.from_arrow(columns.append(pa.field(DATE, pa.date32())))


def missing_columns(table: DeltaTable, columns: pa.Schema, where: str) -> list[Field]:
    """Return the columns, and those with new fields inside, that the table must get before it takes such files.

    A column that is no longer there stays and is null from now on. Raises WarehouseError when a type has changed.
    """
    known = {field.name.lower(): field for field in pa.schema(table.schema())}
    missing = []
    for field, delta in zip(columns, Schema.from_arrow(columns).fields, strict=True):
        before = known.get(field.name.lower())
        if before is None:
            missing.append(delta)
        elif before.name != field.name:
            raise WarehouseError(f"{where}: columns {before.name} and {field.name} are one to readers that ignore case")
        elif not _takes(before.type, field.type):
            if not _takes(before.type, field.type, grown=True):
                raise WarehouseError(
                    f"{where}: column {field.name} was {before.type} and would be {field.type} now. Give the field"
                    " another name, or load into another warehouse, from the beginning of the log"
                )
            missing.append(delta)
    return missing


def _takes(before: pa.DataType, now: pa.DataType, *, grown: bool = False) -> bool:
    """Say whether values of one type fit into a column of another; with `grown`, once records have more fields."""
    if pa.types.is_struct(before) and pa.types.is_struct(now):
        fields = {field.name: field.type for field in before}
        return all(_takes(fields[f.name], f.type, grown=grown) if f.name in fields else grown for f in now)
    if pa.types.is_list(before) and pa.types.is_list(now):
        return _takes(before.value_type, now.value_type, grown=grown)
    if pa.types.is_map(before) and pa.types.is_map(now):
        return _takes(before.key_type, now.key_type) and _takes(before.item_type, now.item_type, grown=grown)
    return bool(before == now)
