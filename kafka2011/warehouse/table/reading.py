"""A table as a PyArrow dataset, exact whatever loads and compactions do meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.files import LocalFiles
from kafka2011.warehouse.table.formats import Format, delta, open_delta_table
from kafka2011.warehouse.table.locations import location_of, table_of
from kafka2011.warehouse.table.parquet.dataset import dataset_of
from kafka2011.warehouse.table.parquet.parquet_table import ParquetTable
from kafka2011.warehouse.table.parquet.snapshot import snapshot_files

if TYPE_CHECKING:
    import pyarrow.dataset as ds


def open_table(warehouse: str | Path, topic: str) -> ds.Dataset:
    """Return the rows of a topic's table at this moment, with the columns of its newest schema.

    `topic` may be the name of a rebuilt table too. Rows from before a column was there have null in it. `date` (date32)
    and, where a table of Parquet files has it, `hour` (int32) are those of the directories: a filter on them, or on
    `time`, reads only what it must. Later loads are not in it: open it again.
    What a compaction replaced stays for a while; a dataset that is read on longer raises FileNotFoundError.
    Raises WarehouseError when there is no table, when files of it are missing, and for tables that are not local.
    """
    path = table_of(location_of(warehouse), topic)
    table = ParquetTable(warehouse, topic)
    if not isinstance(table.files, LocalFiles):
        raise WarehouseError(f"{path} is not local: read it with Spark")
    if Path(path, Format.DELTA.mark).is_dir():
        dataset: ds.Dataset = delta("dataset").dataset_of(open_delta_table(str(warehouse), topic).delta(), path)
        return dataset
    live = snapshot_files(table)
    if not live:
        raise WarehouseError(f"topic {topic}: there is no table {path}")
    return dataset_of(live)
