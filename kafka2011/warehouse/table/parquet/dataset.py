"""A Parquet table as a PyArrow dataset, exact whatever loads and compactions do meanwhile."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.parquet.snapshot import newest_schema_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.warehouse.table.parquet.snapshot import SnapshotFiles

_PLACE = re.compile(r"/date=(\d{4}-\d\d-\d\d)(?:/hour=(\d\d))?/[^/]*$")


class TableDirectory(NamedTuple):
    """The date of a directory and, where it has one, the hour."""

    date: date
    hour: int | None

    @property
    def directory(self) -> str:
        """Where rows of it lie in a commit's directory."""
        return f"date={self.date}" if self.hour is None else f"date={self.date}/hour={self.hour:02d}"


def dataset_of(live: Sequence[SnapshotFiles], schema: pa.Schema | None = None) -> ds.Dataset:
    """Return a dataset over the files of live commits, with the newest schema among them unless one is given."""
    file_format, file_system = ds.ParquetFileFormat(), LocalFileSystem()
    places = {each.path: directory_of(each.path) for commit in live for each in commit.files}
    fragments = [
        file_format.make_fragment(path, file_system, partition_expression=_expression(place))
        for path, place in places.items()
    ]
    schema = (newest_schema(live) if schema is None else schema).append(pa.field("date", pa.date32()))
    if any(place.hour is not None for place in places.values()):
        schema = schema.append(pa.field("hour", pa.int32()))
    return ds.FileSystemDataset(fragments, schema, file_format, file_system)


def newest_schema(live: Sequence[SnapshotFiles]) -> pa.Schema:
    """Return the schema of the newest files; every column may be null, since older files may lack it.

    A table without rows has no columns.
    """
    for each in newest_schema_first(live):
        found = pq.read_schema(each.files[0].path)
        return pa.schema([field.with_nullable(True).remove_metadata() for field in found])
    return pa.schema([])


def directory_of(path: str) -> TableDirectory:
    """Return the date and the hour of a file. Raises WarehouseError when it lies elsewhere."""
    found = _PLACE.search(path)
    if found is None:
        raise WarehouseError(f"{path} does not lie in a directory of a date: no load has written it")
    return TableDirectory(date.fromisoformat(found[1]), None if found[2] is None else int(found[2]))


def _expression(place: TableDirectory) -> ds.Expression:
    expression = ds.field("date") == place.date
    return expression if place.hour is None else expression & (ds.field("hour") == place.hour)
