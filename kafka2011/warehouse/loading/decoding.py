"""What decodes a topic's events for its table as that is now: with the columns that the table has, or can get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.warehouse.rows.decode import BatchDecoder
from kafka2011.warehouse.table.rewriting import held_columns, inexact

if TYPE_CHECKING:
    from kafka2011.events.schemas import KnownSchemas
    from kafka2011.warehouse.table.commits import Commit
    from kafka2011.warehouse.table.topic_table import TopicTable


def decoder_for(table: TopicTable, newest: Commit | None, schemas: KnownSchemas, number: int) -> BatchDecoder:
    """Return the decoder for the commit of a number; of its `widened` columns all can be rewritten.

    Raises ColumnError, UnknownSchemaError and WarehouseError.
    """
    held = held_columns(table, newest)
    while True:
        decoder = BatchDecoder(table.topic, schemas, number, held)
        fixed = inexact(table, decoder.widened)
        if held is None or not fixed:
            return decoder
        held = held._replace(fixed=held.fixed | fixed)
