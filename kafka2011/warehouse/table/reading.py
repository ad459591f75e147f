"""A table as a PyArrow dataset, exact whatever loads and compactions do meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.warehouse.table.dataset import dataset_of
from kafka2011.warehouse.table.topic_table import TopicTable

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow.dataset as ds


def open_table(warehouse: str | Path, topic: str) -> ds.Dataset:
    """Return the rows that a topic's table has now, with all columns that it ever had.

    `warehouse` is the directory or URL of the tables.

    `topic` may be the name of a rebuilt table too. Rows from before a column was there have null in it. A filter on
    `date` (date32) or `time` reads only what it must. Later loads are not in it: open it again. What a compaction
    replaced stays until it is cleaned up; a dataset that is read on longer raises FileNotFoundError.
    Raises WarehouseError when there is no table.
    """
    table = TopicTable(warehouse, topic)
    return dataset_of(table.delta(), table.path, table.files)
