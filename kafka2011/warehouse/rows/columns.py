"""The columns of a table as Arrow has them: a topic's fields, then our own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kafka2011.events.columns import kinds
from kafka2011.events.columns.column_types import PREFIX
from kafka2011.events.columns.held_columns import HeldColumn
from kafka2011.events.columns.kinds import Decimals, Lists, Maps, Structs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka2011.events.columns.column_types import Column
    from kafka2011.events.columns.kinds import Kind

BROKER_ID, PARTITION, OFFSET = f"{PREFIX}broker_id", f"{PREFIX}partition", f"{PREFIX}offset"
NEXT_OFFSET, INDEX_IN_SET = f"{PREFIX}next_offset", f"{PREFIX}index_in_set"
LOAD_ID, SCHEMA = f"{PREFIX}load_id", f"{PREFIX}schema"

OWN = pa.schema(
    [
        pa.field(BROKER_ID, pa.int32(), nullable=False),
        pa.field(PARTITION, pa.int32(), nullable=False),
        pa.field(OFFSET, pa.int64(), nullable=False),
        pa.field(NEXT_OFFSET, pa.int64(), nullable=False),
        pa.field(INDEX_IN_SET, pa.int32(), nullable=False),
        pa.field(LOAD_ID, pa.int64(), nullable=False),
        pa.field(SCHEMA, pa.string(), nullable=False),
    ]
)
"""Where a row comes from. The first five but the fourth identify it within its topic."""

MICROS = pa.timestamp("us", tz="UTC")

_PLAIN: dict[str, pa.DataType] = {
    kinds.NULL: pa.null(),
    kinds.BOOLEAN: pa.bool_(),
    kinds.LONG: pa.int64(),
    kinds.FLOAT: pa.float32(),
    kinds.DOUBLE: pa.float64(),
    kinds.BINARY: pa.binary(),
    kinds.TEXT: pa.string(),
    kinds.INSTANT: MICROS,
    kinds.LOCAL_TIME: pa.timestamp("us"),
    kinds.DATE: pa.date32(),
}


def arrow_of(kind: Kind) -> pa.DataType:
    """Return a column's type as Arrow has it."""
    if isinstance(kind, str):
        return _PLAIN[kind]
    if isinstance(kind, Decimals):
        return pa.decimal128(*kind)
    if isinstance(kind, Lists):
        return pa.list_(arrow_of(kind.inner))
    if isinstance(kind, Maps):
        return pa.map_(arrow_of(kind.keys), arrow_of(kind.inner))
    return pa.struct([pa.field(name, arrow_of(inner)) for name, inner in kind.fields])


def kind_of(arrow: pa.DataType) -> Kind:
    """Return a type of Arrow's as columns have it; one that no column of a load has becomes its name."""
    if pa.types.is_decimal128(arrow):
        return Decimals(arrow.precision, arrow.scale)
    if pa.types.is_list(arrow):
        return Lists(kind_of(arrow.value_type))
    if pa.types.is_map(arrow):
        return Maps(kind_of(arrow.item_type), kind_of(arrow.key_type))
    if pa.types.is_struct(arrow):
        return Structs(tuple((field.name, kind_of(field.type)) for field in arrow))
    return str(arrow)


def held_in(schema: pa.Schema) -> tuple[HeldColumn, ...]:
    """Return the columns of a schema of Arrow's."""
    return tuple(HeldColumn(field.name, kind_of(field.type)) for field in schema)


def table_schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the schema of the table: the columns, then our own.

    All columns of fields may be null: a table has rows from before a field was there.
    """
    return pa.schema([*(pa.field(column.name, arrow_of(column.column_type.type)) for column in columns), *OWN])
