"""Reads the footers of a commit's Parquet files: rows, columns, and whether a table can take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from kafka2011.warehouse.errors import WarehouseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO

TIME = "time"
"""The column whose hour is a row's partition."""


class Footer(NamedTuple):
    """One file: where it is, its size, its rows and its columns as Arrow has them."""

    location: str
    size_bytes: int
    rows: int
    columns: pa.Schema


def read_footer(io: FileIO, location: str, size_bytes: int) -> Footer:
    """Read a file's footer. Raises WarehouseError, naming the file, when a table could not take it."""
    try:
        with io.new_input(location).open() as file:
            parquet = pq.ParquetFile(file)
            metadata, schema = parquet.metadata, parquet.schema_arrow
    except (pa.ArrowInvalid, OSError) as error:
        raise WarehouseError(f"{location}: {error}") from error
    return Footer(location, size_bytes, metadata.num_rows, pa.schema([_plain(field, location) for field in schema]))


def footer_schema(footers: Sequence[Footer]) -> pa.Schema:
    """Return the columns that some of the files have. Raises WarehouseError when they contradict each other."""
    seen: list[pa.Schema] = []
    for footer in footers:
        if footer.columns not in seen:
            seen.append(footer.columns)
    try:
        return pa.unify_schemas(seen, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise WarehouseError(f"{footers[0].location} and others of one commit: {error}") from error


def _plain(field: pa.Field, location: str) -> pa.Field:
    if pa.types.is_dictionary(field.type):  # pyiceberg takes such files and cannot read the table afterwards
        raise WarehouseError(
            f"{location}: column {field.name} was written with Arrow's dictionary type: write text, which Parquet"
            " encodes with a dictionary by itself"
        )
    if pa.types.is_null(field.type):
        raise WarehouseError(f"{location}: column {field.name} has no type, only nulls: Iceberg has no such columns")
    return pa.field(field.name, field.type)  # one that may be null: rows from before it was there are
