"""Tables written by hand, as a load writes them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from kafka2011.warehouse.table.commits import Commit, LoadedRange, Operation
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.warehouse.table.parquet.parquet_table import ParquetTable

TOPIC = "views"
PARTITION = TopicPartition(TOPIC, 0, 1)
FIRST_MS = 1_307_836_800_000  # 2011-06-12, midnight
HOUR_MS = 3_600_000
ROW_BYTES = 100

_TIME = pa.timestamp("us", tz="UTC")
EVENT = pa.schema(
    [
        pa.field("time", _TIME, nullable=False),
        pa.field("published_at", _TIME, nullable=False),
        pa.field("server", pa.string(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("page", pa.string()),
    ]
)
OWN = pa.schema(
    [
        pa.field("kafka2011_broker_id", pa.int32(), nullable=False),
        pa.field("kafka2011_partition", pa.int32(), nullable=False),
        pa.field("kafka2011_offset", pa.int64(), nullable=False),
        pa.field("kafka2011_next_offset", pa.int64(), nullable=False),
        pa.field("kafka2011_index_in_set", pa.int32(), nullable=False),
        pa.field("kafka2011_load_id", pa.int64(), nullable=False),
        pa.field("kafka2011_schema", pa.dictionary(pa.int32(), pa.string()), nullable=False),
    ]
)
SCHEMA = pa.unify_schemas([EVENT, OWN])


def commit_of(number: int, end: int, *, start: int = 0, rows: int = 0, **more: Any) -> Commit:
    """Return a load of one partition that ends at an offset."""
    moved = LoadedRange(PARTITION, start, end, rows)
    given: dict[str, Any] = {
        "offsets": {PARTITION: end},
        "ranges": (moved,),
        "rows": rows,
        "written_at_ms": FIRST_MS,
    } | more
    return Commit(TOPIC, number, Operation.LOAD, **given)


def rows_of(load_id: int, first: int, times_ms: Sequence[int], arrow: pa.Schema = SCHEMA, **columns: Any) -> pa.Table:
    """Return rows for given times, in that order, which are those of messages `first`, `first + 1` and so on."""
    numbers = range(first, first + len(times_ms))
    every: dict[str, Any] = {
        "time": pa.array([each * 1000 for each in times_ms], _TIME),
        "published_at": pa.array([each * 1000 + 5 for each in times_ms], _TIME),
        "server": ["web-1"] * len(times_ms),
        "id": [str(UUID(int=each)) for each in numbers],
        "page": [f"/{each}" for each in numbers],
        "kafka2011_broker_id": [PARTITION.broker_id] * len(times_ms),
        "kafka2011_partition": [PARTITION.partition] * len(times_ms),
        "kafka2011_offset": [each * ROW_BYTES for each in numbers],
        "kafka2011_next_offset": [(each + 1) * ROW_BYTES for each in numbers],
        "kafka2011_index_in_set": [0] * len(times_ms),
        "kafka2011_load_id": [load_id] * len(times_ms),
        "kafka2011_schema": pa.array(["00" * 8] * len(times_ms)).dictionary_encode(),
    } | columns
    return pa.table({name: every[name] for name in arrow.names}, schema=arrow)


def write_rows(staging: str, rows: pa.Table, *, by_hour: bool = False) -> None:
    """Write rows, sorted by time, into one file for each date or hour of a staging directory."""
    rows = rows.sort_by("time")
    parts: dict[str, list[int]] = {}
    for number, micros in enumerate(rows["time"].cast(pa.int64()).to_pylist()):
        when = datetime.fromtimestamp(micros / 1e6, UTC)
        parts.setdefault(f"date={when:%Y-%m-%d}" + (f"/hour={when:%H}" if by_hour else ""), []).append(number)
    for part, numbers in parts.items():
        directory = Path(staging, part)
        directory.mkdir(parents=True, exist_ok=True)
        name = f"part-{len(list(directory.iterdir())):05d}.parquet"
        pq.write_table(rows.take(numbers), directory / name, compression="zstd")


def load(table: ParquetTable, times_ms: Sequence[int], *, by_hour: bool = False, **more: Any) -> Commit:
    """Commit a load of rows that go on where the newest commit ends; `more` is for the commit and for `rows_of`."""
    newest = table.newest()
    number, start = (newest.number + 1, newest.offsets[PARTITION]) if newest else (1, 0)
    of_commit = {name: more.pop(name) for name in [*more] if name in Commit.__dataclass_fields__}
    staging = table.begin()
    rows = rows_of(number, start // ROW_BYTES, times_ms, **more)
    write_rows(staging, rows, by_hour=by_hour)
    commit = commit_of(number, start + ROW_BYTES * len(times_ms), start=start, rows=rows.num_rows, **of_commit)
    table.commit(staging, commit)
    return commit
