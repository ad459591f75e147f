"""`kafka2011 tables`: tables are listed, compacted, cleaned, and go on after a rollback."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafka2011.cli import load
from kafka2011.cli.tables import command
from kafka2011.errors import ConfigError, KafkaError
from kafka2011.warehouse.table.iceberg.iceberg_table import IcebergTable
from kafka2011.warehouse.table.parquet.parquet_table import ParquetTable
from tests.support import iceberg_tables, tables
from tests.support.tables import FIRST_MS, PARTITION, TOPIC

if TYPE_CHECKING:
    from pathlib import Path


def run(*args: str) -> Any:
    """Run the command and return its last line, read as JSON."""
    result = CliRunner().invoke(command, args, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout.splitlines()[-1])


def refused(*args: str) -> str:
    result = CliRunner().invoke(command, args)
    assert result.exit_code == 2
    return result.output


def test_a_table_in_iceberg_is_compacted_and_cleaned(tmp_path: Path) -> None:
    """Of all tables, when none is named."""
    table = IcebergTable(tmp_path, TOPIC)
    for _ in range(2):
        iceberg_tables.load(table, [FIRST_MS])
    here = ("--warehouse", str(tmp_path), "--format", "iceberg")
    dead = table.begin()
    [compacted] = run("compact", *here)["topics"]
    assert compacted == {"topic": TOPIC, "commits": [{"number": 3, "replaced": 0, "rows": 2}]}
    [cleaned] = run("clean", *here, "--whitelist", "v.*")["topics"]
    assert cleaned == {"topic": TOPIC, "directories": 0, "files": 0, "size_bytes": 0}
    [cleaned] = run("clean", *here, "--older-than", "0")["topics"]
    assert cleaned["directories"] == 1
    assert not (tmp_path / dead).exists()
    result = CliRunner().invoke(command, ["status", *here, "--json"])
    [status] = json.loads(result.stdout)
    assert (status["topic"], status["number"], status["rows"]) == (TOPIC, 3, 2)
    [cleaned] = run("clean", *here, "--expire", "--older-than", "0")["topics"]
    assert (cleaned["expired"], cleaned["directories"]) == (2, 2)


def test_a_table_of_parquet_files_is_compacted_and_cleaned(tmp_path: Path) -> None:
    """By the same words."""
    table = ParquetTable(tmp_path, TOPIC)
    for _ in range(2):
        tables.load(table, [FIRST_MS])
    here = ("--warehouse", str(tmp_path))
    table.begin()
    [cleaned] = run("clean", *here, "--older-than", "0")["topics"]
    assert cleaned == {"topic": TOPIC, "directories": 1}


def test_a_rollback_is_settled(tmp_path: Path) -> None:
    """By one of two words; a table that was not rolled back is left alone."""
    table = IcebergTable(tmp_path, TOPIC)
    for _ in range(2):
        iceberg_tables.load(table, [FIRST_MS])
    here = ("--warehouse", str(tmp_path), "--topic", TOPIC)
    result = CliRunner().invoke(command, ["settle", *here, "again"])
    assert isinstance(result.exception, KafkaError)
    assert json.loads(result.stdout)["failed"][0]["topic"] == TOPIC
    first = table.iceberg().snapshots()[0].snapshot_id
    table.iceberg().manage_snapshots().rollback_to_snapshot(first).commit()
    assert run("settle", *here, "skip")["topics"] == [{"topic": TOPIC, "number": 3, "replaces": [2]}]
    newest = table.newest()
    assert newest is not None
    assert newest.offsets == {PARTITION: 200}


def test_another_catalogue_is_named_by_its_properties(tmp_path: Path) -> None:
    """Each of them a KEY=VALUE."""
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/other.db", "warehouse": f"file://{tmp_path}/lake"}
    iceberg_tables.load(IcebergTable(tmp_path, TOPIC, catalog=catalog), [FIRST_MS])
    given = [part for key, value in catalog.items() for part in ("--catalog", f"{key}={value}")]
    [found] = run("compact", "--warehouse", str(tmp_path / "w"), "--format", "iceberg", *given)["topics"]
    assert found["topic"] == TOPIC


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("status", "--catalog", "type=sql"), "--catalog is for --format iceberg"),
        (("clean", "--expire"), "--expire is for --format iceberg"),
        (("compact", "--expire", "--format", "iceberg"), "No such option '--expire'"),
        (("settle", "--format", "parquet", "--topic", "a", "skip"), "No such option '--format'"),
        (("settle", "skip"), "Missing option '--topic'"),
        (("redrive",), "give --topic or --whitelist, one of them"),
    ],
)
def test_what_means_nothing_together_is_refused(args: tuple[str, ...], why: str) -> None:
    """Before anything is opened."""
    assert why in " ".join(refused(*args, "--warehouse", "/nowhere").split())


def test_what_is_no_pair_is_refused() -> None:
    """Naming the option."""
    for run_by, option, args in (
        (command, "--catalog", ("status", "--format", "iceberg")),
        (load.command, "--option", ("--topic", "a")),
    ):
        result = CliRunner().invoke(run_by, [*args, "--warehouse", "/nowhere", option, "sql"])
        assert isinstance(result.exception, ConfigError)
        assert str(result.exception) == f"{option} 'sql' is not key=value"
