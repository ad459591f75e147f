"""Tables written by hand, as a load writes them, and read without the code under test."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

import polars
import pyarrow as pa
import pyarrow.parquet as pq

from kafka2011.warehouse.errors import OvertakenError
from kafka2011.warehouse.table.commits import Commit, LoadedRange, Operation
from kafka2011.warehouse.table.topic_table import TopicTable
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.warehouse.table.files import Files

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
        pa.field("kafka2011_schema", pa.string(), nullable=False),
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
        "kafka2011_schema": ["00" * 8] * len(times_ms),
    } | columns
    return pa.table({name: every[name] for name in arrow.names}, schema=arrow)


def write_rows(files: Files, staging: str, rows: pa.Table) -> None:
    """Write rows, sorted by time, into one file for each date of a staging directory."""
    rows = rows.sort_by("time")
    parts: dict[str, list[int]] = {}
    for number, micros in enumerate(rows["time"].cast(pa.int64()).to_pylist()):
        parts.setdefault(f"date={datetime.fromtimestamp(micros / 1e6, UTC):%Y-%m-%d}", []).append(number)
    for part, numbers in parts.items():
        directory = f"{staging}/{part}"
        files.make_directory(directory)
        path = f"{directory}/part-{len(files.names(directory)):05d}.parquet"
        pq.write_table(rows.take(numbers), files.inside(path), filesystem=files.file_system, compression="zstd")


def staged(
    table: TopicTable,
    number: int,
    times_ms: Sequence[int],
    first: int = 0,
    schema: pa.Schema = SCHEMA,
    **columns: Any,
) -> str:
    """Write the rows of a commit where `begin` says, one file for each date: those of messages `first` and so on."""
    staging = table.begin()
    write_rows(table.files, staging, rows_of(number, first, times_ms, schema, **columns))
    return staging


def load(table: TopicTable, times_ms: Sequence[int], schema: pa.Schema = SCHEMA, **columns: Any) -> Commit:
    """Commit a load of rows that go on where the newest commit ends."""
    newest = table.newest()
    number, start = (newest.number + 1, newest.offsets[PARTITION]) if newest else (1, 0)
    staging = staged(table, number, times_ms, start // ROW_BYTES, schema, **columns)
    commit = commit_of(number, start + ROW_BYTES * len(times_ms), start=start, rows=len(times_ms))
    table.commit(staging, commit)
    return commit


def race(warehouse: str, number: int, loaders: int, timeout_s: float) -> int:
    """Have loaders commit one number at the same time, each of a row of its own; return how many succeeded."""
    together = threading.Barrier(loaders, timeout=timeout_s)

    def commits(who: int) -> bool:
        table = TopicTable(warehouse, TOPIC)
        staging = staged(table, number, [FIRST_MS], first=10 * number + who)
        together.wait()
        try:
            table.commit(staging, commit_of(number, 100, rows=1))
        except OvertakenError:
            table.abandon(staging)
            return False
        return True

    with ThreadPoolExecutor(loaders) as threads:
        return sum(threads.map(commits, range(loaders), timeout=timeout_s))


def rows_in(table: TopicTable) -> pa.Table:
    """Return the rows that Polars reads, in order of their offsets."""
    return polars.scan_delta(table.path).sort("kafka2011_offset").collect().to_arrow()


def offsets_in(table: TopicTable) -> list[int]:
    """Return the offsets of the rows, in order."""
    found: list[int] = rows_in(table)["kafka2011_offset"].to_pylist()
    return found
