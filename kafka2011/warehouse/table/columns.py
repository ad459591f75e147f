"""The columns of a table: those of what was committed, and the date that it is partitioned by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import Schema

from kafka2011.events.columns.kinds import takes
from kafka2011.warehouse.errors import OvertakenError, WarehouseError
from kafka2011.warehouse.rows.columns import kind_of
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

    A column that is no longer there stays and is null from now on. Raises OvertakenError when a type has changed:
    whoever wrote the files has made them for the columns that the table had then.
    """
    known = {field.name.lower(): field for field in pa.schema(table.schema())}
    missing = []
    for field, delta in zip(columns, Schema.from_arrow(columns).fields, strict=True):
        before, now = known.get(field.name.lower()), kind_of(field.type)
        if before is None:
            missing.append(delta)
        elif before.name != field.name:
            raise WarehouseError(f"{where}: columns {before.name} and {field.name} are one to readers that ignore case")
        elif not takes(kind_of(before.type), now):
            if not takes(kind_of(before.type), now, grown=True):
                raise OvertakenError(
                    f"{where}: column {field.name} is {before.type}, and {field.type} in this commit: another commit"
                    f" has changed it meanwhile, and this one was not written. Start again from the newest commit"
                )
            missing.append(delta)
    return missing
