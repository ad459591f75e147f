"""Drops the repeats of events from what a load has staged: rows whose event id is there already.

Producers are at least once, so an event may be in the log twice, at two places. It happens between the coverage check,
which needs every row, and the commit, which counts what was dropped (`LoadedRange.repeats`). An event has the same
`time` however often it is published, so only rows of one date, and of one part of it, are compared at a time.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.files import LocalFiles
from kafka2011.warehouse.table.locations import scheme_of
from kafka2011.warehouse.table.parquet.dataset import dataset_of
from kafka2011.warehouse.table.parquet.merge import (
    IN_ORDER,
    MAX_ROWS_IN_MEMORY,
    RowWriter,
    by_place,
    every_column,
    slices,
)
from kafka2011.warehouse.table.parquet.snapshot import SnapshotFiles, snapshot_files
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.warehouse.table.commits import Commit
    from kafka2011.warehouse.table.files import FileStatus
    from kafka2011.warehouse.table.parquet.dataset import TableDirectory
    from kafka2011.warehouse.table.parquet.parquet_table import ParquetTable

logger = logging.getLogger(__name__)

WINDOW_S = 24 * 3600.0
_COMPARED = ["id", *(name for name, _ in IN_ORDER)]


def recent_rows(table: ParquetTable, since_ms: int) -> ds.Dataset | None:
    """Return the rows that commits made since a time have brought; None when there are none.

    A compaction counts by its own time, so more may be there.
    """
    live = [each for each in snapshot_files(table) if each.commit.written_at_ms >= since_ms and each.files]
    return dataset_of(live) if live else None


def drop_repeats(
    staging: str, commit: Commit, earlier: ds.Dataset | None, *, max_rows: int = MAX_ROWS_IN_MEMORY
) -> Commit:
    """Rewrite what is staged on a local path without repeats, and return the commit with the counts that it has then.

    A row goes when `earlier` has its event, or another staged one does that has a smaller place in the log.
    About `max_rows` are in memory at a time, and as many ids of `earlier`. Raises WarehouseError.
    """
    if scheme_of(staging):
        raise WarehouseError(f"{staging} is not local: repeats are only dropped in local tables")
    files = [each for each in LocalFiles().walk(staging) if each.path.endswith(".parquet")]
    repeats: Counter[TopicPartition] = Counter()
    for place, its_files in by_place([SnapshotFiles(commit, files)]).items():
        repeats += _Part(commit, place, its_files, earlier, max_rows).drop(Path(staging, place.directory))
    if not repeats:
        return commit
    logger.info("topic %s: %d repeats of events are left out", commit.topic, repeats.total())
    return replace(
        commit,
        rows=commit.rows - repeats.total(),
        ranges=tuple(
            replace(each, rows=each.rows - repeats[each.partition], repeats=each.repeats + repeats[each.partition])
            for each in commit.ranges
        ),
    )


class _Part:
    """What is staged for one date or hour."""

    def __init__(
        self,
        commit: Commit,
        place: TableDirectory,
        files: Sequence[FileStatus],
        earlier: ds.Dataset | None,
        max_rows: int,
    ) -> None:
        self._topic = commit.topic
        self._files = files
        self._earlier = earlier
        live = SnapshotFiles(commit, list(files))
        self._schema = every_column([live])
        self._staged = dataset_of([live], self._schema)
        self._slices = list(slices(place, -(-self._staged.count_rows() // max_rows)))

    def drop(self, directory: Path) -> Counter[TopicPartition]:
        """Rewrite the files if they have repeats, and return how many each partition had."""
        repeats: Counter[TopicPartition] = Counter()
        for part in self._slices:
            rows = self._read(part, _COMPARED)
            gone = rows.filter(pc.invert(self._kept(rows, part)))
            counted = gone.group_by(["kafka2011_broker_id", "kafka2011_partition"]).aggregate([([], "count_all")])
            for each in counted.to_pylist():
                where = TopicPartition(self._topic, each["kafka2011_broker_id"], each["kafka2011_partition"])
                repeats[where] += each["count_all"]
        if repeats:
            with RowWriter(directory, f"distinct-{Path(self._files[0].path).stem}", self._schema) as writer:
                for part in self._slices:
                    rows = self._read(part, self._schema.names)
                    writer.write(rows.filter(self._kept(rows, part)))
            for each in self._files:
                Path(each.path).unlink()
        return repeats

    def _read(self, part: ds.Expression | None, columns: list[str]) -> pa.Table:
        return self._staged.to_table(columns=columns, filter=part).sort_by(IN_ORDER)

    def _kept(self, rows: pa.Table, part: ds.Expression | None) -> pa.Array:
        """Say of each row whether its event is neither in an earlier row nor in one that was there before."""
        if not rows.num_rows:
            return pa.array([], pa.bool_())
        ids = rows["id"].combine_chunks()
        _, first = np.unique(ids.dictionary_encode().indices.to_numpy(), return_index=True)
        is_first = np.zeros(len(ids), bool)
        is_first[first] = True
        kept = pa.array(is_first)
        if self._earlier is None:
            return kept
        times = rows["time"]
        around = (ds.field("time") >= times[0]) & (ds.field("time") <= times[-1])
        known = self._earlier.to_table(columns=["id"], filter=around if part is None else around & part)["id"]
        return pc.and_(kept, pc.invert(pc.is_in(ids, value_set=known.combine_chunks())))
