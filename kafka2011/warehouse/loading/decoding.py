"""What decodes a topic's events for its table as that is now: with the columns that the table has, or can get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.events.columns.held_columns import HeldColumns
from kafka2011.warehouse.rows.decode import BatchDecoder
from kafka2011.warehouse.table.rewriting import columns_beside, held_columns, inexact

if TYPE_CHECKING:
    from kafka2011.events.schemas import KnownSchemas
    from kafka2011.warehouse.table.commits import Commit
    from kafka2011.warehouse.table.topic_table import TopicTable


def decoder_for(table: TopicTable, newest: Commit | None, schemas: KnownSchemas, number: int) -> BatchDecoder:
    """Return the decoder for the commit of a number; of its `widened` columns all can be rewritten.

    Raises ColumnError, UnknownSchemaError and WarehouseError.
    """
    held = held_columns(table, newest)
    beside = columns_beside(table) if held is None else None
    if beside is not None:
        held = _first_columns(schemas, *beside)
    return _decoder(table, held, schemas, number)


def _decoder(table: TopicTable, held: HeldColumns | None, schemas: KnownSchemas, number: int) -> BatchDecoder:
    while True:
        decoder = BatchDecoder(table.topic, schemas, number, held)
        fixed = inexact(table, decoder.widened)
        if not fixed or held is None:
            return decoder
        held = held._replace(fixed=held.fixed | fixed)


def _first_columns(schemas: KnownSchemas, own: TopicTable, held: HeldColumns) -> HeldColumns:
    """Return what a table that is rebuilt begins with, so that it takes the same events as the topic's own one.

    That is each column that could not become wider there, since a value would have become another one.
    """
    fixed = _decoder(own, held, schemas, 0).fixed
    return HeldColumns(
        tuple(column for column in held.columns if column.name in fixed), fixed=fixed, beside=held.columns
    )
