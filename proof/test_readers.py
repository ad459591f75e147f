"""Readers that need an environment of their own: DuckDB's `delta_scan`, and Spark with Delta's jars.

Those that live with this package are in tests/warehouse/table/test_readers.py, and read the same tables.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.read_tables import STAGES
from tests.support.tables import TOPIC

if TYPE_CHECKING:
    from pathlib import Path

DUCKDB = ("duckdb==1.5.5", "duckdb-extension-delta==1.5.5")
SPARK = ("pyspark==4.1.*", "delta-spark==4.4.0")
TIMEOUT_S = 900

pytestmark = pytest.mark.timeout(2 * TIMEOUT_S)

WITH_DUCKDB = """
import json, sys
from pathlib import Path
import duckdb, duckdb_extension_delta

offline = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
connection = duckdb.connect(config=offline)
[extension] = Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension")
connection.load_extension(str(extension))
for path in sys.argv[1:]:
    rows = connection.execute(f"select kafka2011_offset, referrer from delta_scan('{path}') order by 1").fetchall()
    print(json.dumps(rows))
"""
WITH_SPARK = """
import json, os, sys
from delta import configure_spark_with_delta_pip
from pyspark.sql import SparkSession

os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
settings = {
    "spark.databricks.delta.snapshotPartitions": 1,
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.jars.ivy": sys.argv[1],
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.shuffle.partitions": 1,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
builder = SparkSession.builder.master("local[2]").config(map=settings)
spark = configure_spark_with_delta_pip(builder).getOrCreate()
for path in sys.argv[2:]:
    table = spark.read.format("delta").load(path)
    rows = table.select("kafka2011_offset", "referrer").orderBy("kafka2011_offset").collect()
    print(json.dumps([list(row) for row in rows]))
spark.stop()
"""


def environment(directory: Path, *packages: str) -> str:
    """Make a virtual environment, and return its Python."""
    subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True, timeout=TIMEOUT_S)
    python = str(directory / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
    subprocess.run(install, check=True, timeout=TIMEOUT_S)
    return python


def read_each_stage(warehouses: Path, *command: str) -> None:
    """Make the tables, have them read by a command that prints the rows of each, and compare."""
    expected, paths = [], []
    for number, stage in enumerate(STAGES.values()):
        warehouse = warehouses / str(number)
        warehouse.mkdir(parents=True)
        expected.append([list(row) for row in stage(warehouse)])
        paths.append(str(warehouse / TOPIC))
    done = subprocess.run([*command, *paths], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")] == expected


def test_duckdb_reads_tables_by_itself_and_offline(tmp_path: Path) -> None:
    read_each_stage(tmp_path / "tables", environment(tmp_path / "duckdb", *DUCKDB), "-c", WITH_DUCKDB)


def test_spark_reads_tables_with_the_jars_of_delta(tmp_path: Path) -> None:
    """Spark fetches them from Maven Central."""
    python = environment(tmp_path / "spark", *SPARK)
    read_each_stage(tmp_path / "tables", python, "-c", WITH_SPARK, str(tmp_path / "ivy"))
