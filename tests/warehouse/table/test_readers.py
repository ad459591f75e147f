"""Who reads a table sees each row once, with all columns, and nothing of what was compacted."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import polars
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from kafka2011.warehouse import open_table
from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.cleaning import clean
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.read_tables import COLUMNS, STAGES
from tests.support.tables import FIRST_MS, HOUR_MS, TOPIC, load

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.read_tables import Rows


def by_open_table(warehouse: Path) -> Rows:
    rows = open_table(warehouse, TOPIC).to_table(columns=COLUMNS)
    return [(row["kafka2011_offset"], row["referrer"]) for row in rows.to_pylist()]


def by_pandas(warehouse: Path) -> Rows:
    rows = open_table(warehouse, TOPIC).to_table(columns=COLUMNS).to_pandas()
    known = zip(rows.referrer, rows.referrer.isna(), strict=True)
    referrers = [None if is_missing else referrer for referrer, is_missing in known]
    return [(int(offset), referrer) for offset, referrer in zip(rows.kafka2011_offset, referrers, strict=True)]


def by_pyarrow_from_names_of_files(warehouse: Path) -> Rows:
    """As whoever has `deltalake` and none of this package."""
    parts = [pq.ParquetFile(path).read() for path in DeltaTable(warehouse / TOPIC).file_uris()]
    rows = pa.concat_tables(parts, promote_options="default")
    return [(row["kafka2011_offset"], row["referrer"]) for row in rows.to_pylist()]


def by_polars(warehouse: Path) -> Rows:
    return polars.scan_delta(str(warehouse / TOPIC)).select(COLUMNS).collect().rows()


def by_duckdb(warehouse: Path) -> Rows:
    """Without its own `delta_scan`, which proof/test_readers.py tries."""
    with duckdb.connect() as connection:
        connection.register("views", open_table(warehouse, TOPIC))
        return connection.execute("select kafka2011_offset, referrer from views").fetchall()


@pytest.mark.parametrize("read", [by_open_table, by_pandas, by_pyarrow_from_names_of_files, by_polars, by_duckdb])
@pytest.mark.parametrize("stage", STAGES)
def test_readers_see_each_row_once(stage: str, read: Callable[[Path], Rows], tmp_path: Path) -> None:
    """Rows from before a column was there have null in it; what was not committed is not there."""
    expected = STAGES[stage](tmp_path)
    assert sorted(read(tmp_path)) == expected
    clean(TopicTable(tmp_path, TOPIC), older_than_s=-1)
    assert sorted(read(tmp_path)) == expected


def test_a_filter_on_date_or_time_opens_no_other_file(tmp_path: Path) -> None:
    """Whose files may be gone."""
    table = TopicTable(tmp_path, TOPIC)
    load(table, [FIRST_MS, FIRST_MS + 24 * HOUR_MS])
    found = open_table(tmp_path, TOPIC)
    for path in Path(table.path).rglob("date=2011-06-12/*.parquet"):
        path.unlink()
    assert found.to_table(filter=ds.field("date") == date(2011, 6, 13)).num_rows == 1
    midnight = pa.scalar(datetime(2011, 6, 13, tzinfo=UTC), pa.timestamp("us", tz="UTC"))
    assert found.to_table(filter=ds.field("time") >= midnight).num_rows == 1
    with pytest.raises(FileNotFoundError):
        found.to_table()


def test_a_filter_finds_the_days_at_both_ends_of_months(tmp_path: Path) -> None:
    """A filter passes over whole months: long ones, short ones, and the last one of a year."""
    first = datetime(2011, 12, 30, tzinfo=UTC)
    moments = [first + timedelta(days=number, hours=hour) for number in range(65) for hour in (0, 23.99999)]
    load(TopicTable(tmp_path, TOPIC), [int(each.timestamp() * 1000) for each in moments])
    rows = open_table(tmp_path, TOPIC)
    for begin, end in pairwise([*moments[::2], moments[-1]]):
        bounds = [pa.scalar(each, pa.timestamp("us", tz="UTC")) for each in (begin, end)]
        wanted = (ds.field("time") >= bounds[0]) & (ds.field("time") < bounds[1])
        found = rows.to_table(filter=wanted)["time"].to_pylist()
        assert sorted(found) == [each for each in moments if begin <= each < end]
        assert len(list(rows.get_fragments(filter=wanted))) == 1
        assert rows.to_table(filter=ds.field("date") == begin.date()).num_rows == 2


def test_a_table_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """It names the path, and makes nothing."""
    with pytest.raises(WarehouseError, match=f"{tmp_path}/{TOPIC} does not exist"):
        open_table(tmp_path, TOPIC)
    assert list(tmp_path.iterdir()) == []


def test_no_spark_is_needed() -> None:
    """Reading imports neither PySpark nor anything of a cluster."""
    program = (
        "import sys; from kafka2011.warehouse import open_table;"
        "assert open_table; print({'pyspark', 'py4j', 'kazoo', 'gevent', 'fastavro'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "set()\n"
