"""A Delta table as a PyArrow dataset, over the files that one version of it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.delta.data_files import DATE

if TYPE_CHECKING:
    from datetime import date

    from deltalake import DeltaTable


class LiveFile(NamedTuple):
    """A file of a version: its path in the table, its size, its rows and the date of all of them."""

    path: str
    size_bytes: int
    rows: int
    date: date


def live_files(table: DeltaTable) -> list[LiveFile]:
    """Return the files of the version that was opened, sorted by date and path."""
    found = pa.table(table.get_add_actions(flatten=True))
    columns = (found[name].to_pylist() for name in ("path", "size_bytes", "num_records", f"partition.{DATE}"))
    return sorted((LiveFile(*row) for row in zip(*columns, strict=True)), key=lambda file: (file.date, file.path))


def check_whole(table: DeltaTable, path: str) -> None:
    """Raise WarehouseError where rows were deleted inside files: whoever reads the files would see them again."""
    features = table.protocol().reader_features or []
    if "deletionVectors" in features:
        raise WarehouseError(
            f"{path} has deletion vectors: read it with Spark or deltalake's `scan`, compact it with Spark"
        )


def dataset_of(table: DeltaTable, path: str) -> ds.Dataset:
    """Return the rows of the version that was opened of the local table at a path; see `open_table`."""
    check_whole(table, path)
    file_format, file_system = ds.ParquetFileFormat(), LocalFileSystem()
    fragments = [
        file_format.make_fragment(f"{path}/{each.path}", file_system, partition_expression=ds.field(DATE) == each.date)
        for each in live_files(table)
    ]
    return ds.FileSystemDataset(fragments, pa.schema(table.schema()), file_format, file_system)
