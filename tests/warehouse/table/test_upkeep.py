"""`kafka2011 tables compact` and `swap`: tables are looked after without Spark and without a cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.cli.app import main
from kafka2011.warehouse import open_table
from kafka2011.warehouse.table.parquet.parquet_table import ParquetTable
from kafka2011.warehouse.table.parquet.rebuild import rebuilt_table
from tests.support.tables import FIRST_MS, TOPIC, load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Give a warehouse with a table, and another one of the same topic."""
    for table in (ParquetTable(tmp_path / "warehouse", TOPIC), rebuilt_table(tmp_path / "warehouse", TOPIC, "again")):
        load(table, [FIRST_MS])
        load(table, [FIRST_MS])
    return tmp_path / "warehouse"


@pytest.fixture
def run(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, dict[str, Any]]]:
    """Give a function that runs `kafka2011 tables` there, and returns its exit status and its last line."""

    def command(name: str, *arguments: str) -> tuple[int, dict[str, Any]]:
        status = main(["tables", name, "--warehouse", str(warehouse), *arguments])
        lines = capsys.readouterr().out.splitlines()
        return status, json.loads(lines[-1]) if lines else {}

    return command


def test_all_tables_are_compacted(run: Callable[..., tuple[int, dict[str, Any]]], warehouse: Path) -> None:
    """Rebuilt ones too; what comes of each is one line of JSON."""
    commits = [{"number": 3, "replaced": 2, "rows": 2}]
    expected = {"topics": [{"topic": name, "commits": commits} for name in ("again", TOPIC)], "failed": []}
    assert run("compact", "--grace", "0") == (0, expected)
    assert len(list((warehouse / TOPIC).rglob("*.parquet"))) == 1
    assert run("compact", "--topic", TOPIC) == (0, {"topics": [{"topic": TOPIC, "commits": []}], "failed": []})


def test_what_is_no_table_is_left_alone(run: Callable[..., tuple[int, dict[str, Any]]], warehouse: Path) -> None:
    """A table whose first load has not committed, and files of others."""
    ParquetTable(warehouse, "clicks").begin()
    (warehouse / "notes.txt").touch()
    status, line = run("compact", "--grace", "0")
    assert (status, [each["topic"] for each in line["topics"]]) == (0, ["again", TOPIC])


def test_a_table_that_fails_leaves_others_alone(
    run: Callable[..., tuple[int, dict[str, Any]]], warehouse: Path
) -> None:
    """The exit status says that one did, and the line which."""
    (warehouse / TOPIC / "load_id=000001" / "_offsets.json").unlink()
    status, line = run("compact", "--grace", "0")
    assert status == 1
    assert [each["topic"] for each in line["topics"]] == ["again"]
    assert [each["topic"] for each in line["failed"]] == [TOPIC]
    assert run("compact", "--topic", "missing")[0] == 1


def test_delta_is_compacted_by_its_own_means(run: Callable[..., tuple[int, dict[str, Any]]]) -> None:
    """A table that is not there has nothing to rewrite."""
    status, line = run("compact", "--format", "delta", "--topic", "clicks")
    assert (status, line["topics"]) == (0, [{"topic": "clicks", "files_before": 0, "files_after": 0}])


def test_a_rebuilt_table_is_swapped_in(run: Callable[..., tuple[int, dict[str, Any]]], warehouse: Path) -> None:
    """The line says how far it is behind."""
    load(ParquetTable(warehouse, TOPIC), [FIRST_MS])
    status, line = run("swap", TOPIC, "again")
    assert (status, line) == (0, {"topic": TOPIC, "swapped": "again", "behind_bytes": {"0-1": 100}})
    assert open_table(warehouse, TOPIC).count_rows() == 2
    assert open_table(warehouse, "again").count_rows() == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ("swap", "again"),
        ("swap", TOPIC, "clicks", "again"),
        ("swap", TOPIC, "again", "--format", "delta"),
    ],
)
def test_a_swap_is_of_one_parquet_table(
    run: Callable[..., tuple[int, dict[str, Any]]], arguments: tuple[str, ...]
) -> None:
    """Whatever else is a wrong call."""
    assert run(*arguments) == (2, {})
