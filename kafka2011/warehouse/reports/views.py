"""What readers of a table read at this moment, whatever its format."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from kafka2011.warehouse.live import live_files
from kafka2011.warehouse.reports.table_inputs import TableFile, TableView

if TYPE_CHECKING:
    from kafka2011.warehouse.iceberg_table import IcebergTable
    from kafka2011.warehouse.parquet_table import ParquetTable

_ATTEMPT = re.compile(r"/data/([^/]+)/date=")
_MIXED = sys.maxsize
"""Stands for the number of a file that may have rows of any commit."""


def view_of_parquet(table: ParquetTable) -> TableView:
    """Return a table's commits and the files of those that count. Raises WarehouseError."""
    live = live_files(table)
    newest = live[-1].commit.number if live else 0
    commits = [each for each in table.commits() if each.number <= newest]
    files = [TableFile(file.path, each.commit.number) for each in live for file in each.files]
    return TableView(table.topic, commits, files)


def view_of_iceberg(table: IcebergTable) -> TableView:
    """Return the commits that are still known of a table, and the files of its newest snapshot. Raises WarehouseError.

    A file belongs to the commit in whose directory it lies; those of compactions, and of forgotten commits, to any.
    """
    newest = table.newest()
    if newest is None:
        return TableView(table.topic, [], [])
    now = table.iceberg()
    commits = table.commits_of(now.metadata) or [newest]
    numbers = {each.attempt: each.number for each in commits}
    files = []
    for task in now.scan().plan_files():
        found = _ATTEMPT.search(task.file.file_path)
        files.append(TableFile(task.file.file_path, numbers.get(found[1] if found else "", _MIXED)))
    return TableView(table.topic, commits, files)
