"""Readers that need an environment of their own: DuckDB's `delta_scan`, and Spark with Delta's jars.

Those that live with this package are in tests/warehouse/table/test_readers.py, and read the same tables. Here all four
also read a table after every change of its topic's schema, with all columns: delta-rs and Polars beside these two.
"""

from __future__ import annotations

import inspect
import json
import subprocess
from typing import TYPE_CHECKING, Any

import polars
import pytest
from deltalake import DeltaTable

from kafka2011.events.columns.evolution import evolution_of
from proof.environments import environment
from tests.support import plain_rows
from tests.support.plain_rows import line_of
from tests.support.read_tables import STAGES
from tests.support.schema_changes import CASES, changed
from tests.support.schema_life import SchemaLife
from tests.support.tables import TOPIC

if TYPE_CHECKING:
    from pathlib import Path

DUCKDB = ("duckdb==1.5.5", "duckdb-extension-delta==1.5.5", "pytz")  # it needs pytz for times with a zone
SPARK = ("pyspark==4.1.*", "delta-spark==4.4.0")
TIMEOUT_S = 900

pytestmark = pytest.mark.timeout(2 * TIMEOUT_S)

PLAIN = inspect.getsource(plain_rows)
"""What each of them does to its rows."""
WITH_DUCKDB = """
import sys
from pathlib import Path
import duckdb, duckdb_extension_delta

offline = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
connection = duckdb.connect(config=offline)
[extension] = Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension")
connection.load_extension(str(extension))
connection.execute("set TimeZone = 'UTC'")
for path in sys.argv[1:]:
    found = connection.execute(f"select * from delta_scan('{path}')")
    names = [column[0] for column in found.description]
    print(line_of([dict(zip(names, row)) for row in found.fetchall()]))
"""
WITH_SPARK = """
import os, sys, time
from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

os.environ.update(SPARK_LOCAL_IP="127.0.0.1", TZ="UTC")
time.tzset()
settings = {
    "spark.databricks.delta.snapshotPartitions": 1,
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.jars.ivy": sys.argv[1],
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.shuffle.partitions": 1,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
builder = SparkSession.builder.master("local[2]").config(map=settings)
spark = configure_spark_with_delta_pip(builder).getOrCreate()
for path in sys.argv[2:]:
    print(line_of([row.asDict(recursive=True) for row in spark.read.format("delta").load(path).collect()]))
spark.stop()
"""


def tables(directory: Path) -> dict[str, list[dict[str, Any]]]:
    """Make a table of each stage, and two for each change of a schema; return their rows by path, read by Polars."""
    found: dict[str, list[dict[str, Any]]] = {}
    for number, stage in enumerate(STAGES.values()):
        warehouse = directory / f"stage-{number}"
        warehouse.mkdir(parents=True)
        expected = [list(row) for row in stage(warehouse)]
        path = str(warehouse / TOPIC)
        found[path] = rows = polars.scan_delta(path).collect().to_dicts()
        assert sorted([row["kafka2011_offset"], row["referrer"]] for row in rows) == sorted(expected)
    for number, case in enumerate(CASES.values()):
        evolution_of.cache_clear()
        life = SchemaLife(directory / f"change-{number}")
        changed(life, case)
        assert life.rows() == case.rows
        for table in (life.table, life.rebuilt().table):
            found[table.path] = polars.scan_delta(table.path).collect().to_dicts()
    return found


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Give a line for each table, by path; delta-rs and Polars have the same one."""
    found = tables(tmp_path_factory.mktemp("tables"))
    for path, rows in found.items():
        assert line_of(DeltaTable(path).to_pyarrow_table().to_pylist()) == line_of(rows)
    return {path: line_of(rows) for path, rows in found.items()}


def read_all(lines: dict[str, str], *command: str) -> None:
    """Have all tables read by a command that prints a line for each, and compare."""
    done = subprocess.run([*command, *lines], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert len(found) == len(lines) > 2 * len(CASES)
    for path, rows in zip(lines, found, strict=True):
        assert rows == json.loads(lines[path]), path
    print(f"{len(lines)} tables, {sum(map(len, found))} rows: the same as by delta-rs and Polars")  # noqa: T201


def test_duckdb_reads_tables_by_itself_and_offline(lines: dict[str, str], tmp_path: Path) -> None:
    read_all(lines, environment(tmp_path / "duckdb", *DUCKDB), "-c", PLAIN + WITH_DUCKDB)


def test_spark_reads_tables_with_the_jars_of_delta(lines: dict[str, str], tmp_path: Path) -> None:
    """Spark fetches them from Maven Central."""
    python = environment(tmp_path / "spark", *SPARK)
    read_all(lines, python, "-c", PLAIN + WITH_SPARK, str(tmp_path / "ivy"))
