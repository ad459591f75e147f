"""Rows of one commit as Parquet files: each of one day, sorted by time."""

from __future__ import annotations

import itertools
import time
from datetime import date
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka2011.warehouse.loading.coverage import runs_of
from kafka2011.warehouse.rows.columns import BROKER_ID, INDEX_IN_SET, NEXT_OFFSET, OFFSET, PARTITION
from kafka2011.warehouse.table.data_files import DATE, data_file

if TYPE_CHECKING:
    from kafka2011.warehouse.loading.coverage import Run
    from kafka2011.warehouse.table.data_files import DataFile
    from kafka2011.warehouse.table.output import Output

PLACES = (BROKER_ID, PARTITION, OFFSET, NEXT_OFFSET, INDEX_IN_SET)
"""The columns that say where a row comes from, as `runs_of` takes them."""

_DAY_US = 86_400_000_000
_EPOCH = date(1970, 1, 1).toordinal()
_GROUP_ROWS = 500_000


class RowFiles:
    """Takes rows, and writes them below an output once they take `held_bytes` in memory, and at the `end`.

    `files` are what was written, and `runs` the places of all rows in them. Not more than about three times
    `held_bytes` of memory are in use.
    """

    def __init__(self, output: Output, held_bytes: int) -> None:
        self._output = output
        self._max_held_bytes = held_bytes
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._names: list[str] = []
        self.files: list[DataFile] = []
        self.runs: list[Run] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows. Raises OSError."""
        if not rows.num_rows:
            return
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= self._max_held_bytes:
            self.end()

    def discard(self) -> None:
        """Remove the rows that were taken, also the files that were written. Raises OSError."""
        for name in self._names:
            self._output.delete(name)
        self._held, self._held_bytes = [], 0
        self.files, self.runs, self._names = [], [], []

    def end(self) -> None:
        """Write what is held. Raises OSError."""
        if not self._held:
            return
        table = pa.Table.from_batches(self._held)
        self._held, self._held_bytes = [], 0
        times = _times(table)
        if (np.diff(times) < 0).any():
            table = table.take(pa.array(np.argsort(times, kind="stable")))
            times = _times(table)
        days = times // _DAY_US
        cuts = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(days)]
        for first, last in itertools.pairwise(cuts):
            self._write(date.fromordinal(_EPOCH + int(days[first])), table.slice(first, last - first))
        self.runs += runs_of(*(table.column(name).to_numpy() for name in PLACES))

    def _write(self, day: date, rows: pa.Table) -> None:
        name = f"{DATE}={day.isoformat()}/{uuid4().hex}.parquet"
        self._names.append(name)
        metadata: list[pq.FileMetaData] = []
        with self._output.create(name) as file:
            pq.write_table(
                rows,
                file,
                compression="zstd",
                row_group_size=_GROUP_ROWS,
                use_dictionary=[column.name for column in rows.schema if _repeats(column)],
                column_encoding={
                    column.name: "DELTA_BINARY_PACKED" for column in rows.schema if _is_counted(column.type)
                },
                metadata_collector=metadata,
            )
            size_bytes = file.tell()
        path = f"{self._output.staging}/{name}"
        self.files.append(data_file(path, size_bytes, int(time.time() * 1000), metadata[0], rows.schema))


def _repeats(field: pa.Field) -> bool:
    """Say whether a dictionary makes a column smaller: of texts, but not of what no two rows have."""
    return bool(pa.types.is_string(field.type)) and field.name != "id"


def _is_counted(kind: pa.DataType) -> bool:
    """Say whether values are whole numbers, which are near the one before more often than they repeat one."""
    return bool(pa.types.is_signed_integer(kind) or pa.types.is_timestamp(kind))


def _times(table: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    times: np.ndarray[tuple[int], np.dtype[np.int64]] = pc.cast(table.column("time"), pa.int64()).to_numpy()
    return times
