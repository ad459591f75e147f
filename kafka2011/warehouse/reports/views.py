"""What readers of a table read at this moment, whatever its format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.warehouse.reports.table_inputs import TableFile, TableView, live_numbers

if TYPE_CHECKING:
    from kafka2011.warehouse.parquet_table import ParquetTable


def view_of_parquet(table: ParquetTable) -> TableView:
    """Return the commits of a table and the files of those that count. Raises WarehouseError."""
    commits = table.commits()
    files = [
        TableFile(file.path, number)
        for number in live_numbers(commits)
        for file in table.files.walk(table.directory(number))
        if file.path.endswith(".parquet")
    ]
    return TableView(table.topic, commits, files)
