"""`kafka2011 tables compact`: tables are looked after without Spark and without a cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.cli.app import main
from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.table.compaction import compact as compact_table
from kafka2011.warehouse.table.history import LOG
from kafka2011.warehouse.table.status import status_of
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.tables import FIRST_MS, TOPIC, load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Give a warehouse with a table, and another one of the same topic."""
    for name in (TOPIC, "again"):
        table = TopicTable(tmp_path / "warehouse", TOPIC, name=name)
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
    done = {"files_before": 2, "files_after": 1}
    expected = {"topics": [{"topic": name, **done} for name in ("again", TOPIC)], "failed": []}
    assert run("compact") == (0, expected)
    assert run("clean", "--older-than", "0")[1]["topics"][0]["files"] == 2
    assert len(list((warehouse / TOPIC).rglob("*.parquet"))) == 1
    nothing = {"topic": TOPIC, "files_before": 0, "files_after": 0}
    assert run("compact", "--topic", TOPIC) == (0, {"topics": [nothing], "failed": []})


def test_what_is_no_table_is_left_alone(run: Callable[..., tuple[int, dict[str, Any]]], warehouse: Path) -> None:
    """A table whose first load has not committed, and files of others."""
    TopicTable(warehouse, "clicks").begin()
    (warehouse / "notes.txt").touch()
    status, line = run("compact")
    assert (status, [each["topic"] for each in line["topics"]]) == (0, ["again", TOPIC])


def test_a_table_that_fails_leaves_others_alone(
    run: Callable[..., tuple[int, dict[str, Any]]], warehouse: Path
) -> None:
    """The exit status says that one did, and the line which."""
    newest = warehouse / TOPIC / "_delta_log" / f"{2:020d}.json"
    newest.write_text(newest.read_text().replace(r"{\"version\":1", r"{\"version\":9"))
    status, line = run("compact")
    assert status == 1
    assert [each["topic"] for each in line["topics"]] == ["again"]
    assert [each["topic"] for each in line["failed"]] == [TOPIC]
    assert run("compact", "--topic", "missing")[0] == 1


def test_an_unexpected_error_of_a_table_leaves_others_alone(
    run: Callable[..., tuple[int, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = compact_table

    def compact(table: TopicTable, target_bytes: int) -> Any:
        if table.name == "again":
            raise KeyError("error")
        return real(table, target_bytes)

    monkeypatch.setattr("kafka2011.warehouse.table.upkeep.compact", compact)
    status, line = run("compact")
    assert status == 1
    assert [each["topic"] for each in line["topics"]] == [TOPIC]
    assert line["failed"] == [{"topic": "again", "error": "internal error: KeyError: 'error'"}]


def test_the_status_of_one_damaged_table_does_not_hide_the_others(
    warehouse: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are shown, the damaged one is named, and the exit status is 1; without `failed` it is raised."""
    for entry in (warehouse / "again" / LOG).glob("*.json"):
        entry.write_text("damaged", encoding="utf-8")
    assert main(["tables", "status", "--warehouse", str(warehouse), "--json"]) == 1
    shown = capsys.readouterr()
    assert [table["topic"] for table in json.loads(shown.out)] == [TOPIC]
    assert "1 table not read: again: " in shown.err
    with pytest.raises(WarehouseError):
        status_of(str(warehouse))
