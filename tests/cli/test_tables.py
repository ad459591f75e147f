"""`kafka2011 tables`: tables are listed, compacted, cleaned, and go on after a rollback."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafka2011.cli import load as load_command
from kafka2011.cli.tables import command
from kafka2011.errors import ConfigError, KafkaError
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.tables import FIRST_MS, PARTITION, TOPIC, load

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


def test_a_table_is_compacted_and_cleaned(tmp_path: Path) -> None:
    """Of all tables, when none is named."""
    table = TopicTable(tmp_path, TOPIC)
    for _ in range(2):
        load(table, [FIRST_MS])
    (tmp_path / "notes").mkdir()
    here = ("--warehouse", str(tmp_path))
    dead = table.begin()
    [compacted] = run("compact", *here)["topics"]
    assert compacted == {"topic": TOPIC, "files_before": 2, "files_after": 1}
    [cleaned] = run("clean", *here, "--whitelist", "v.*")["topics"]
    assert cleaned == {"topic": TOPIC, "files": 0, "size_bytes": 0, "entries": 0}
    [cleaned] = run("clean", *here, "--older-than", "0")["topics"]
    assert cleaned["files"] == 2
    assert (tmp_path / dead).exists()  # for all that is known, a load is running
    run("clean", *here, "--older-than", "0", "--force-at-rest")
    assert not (tmp_path / dead).exists()
    result = CliRunner().invoke(command, ["status", *here, "--json"])
    [status] = json.loads(result.stdout)
    assert (status["topic"], status["number"], status["rows"]) == (TOPIC, 2, 2)


def test_a_rollback_is_settled(tmp_path: Path) -> None:
    """By one of two words; a table that was not rolled back is left alone."""
    table = TopicTable(tmp_path, TOPIC)
    for _ in range(2):
        load(table, [FIRST_MS])
    here = ("--warehouse", str(tmp_path), "--topic", TOPIC)
    result = CliRunner().invoke(command, ["settle", *here, "again"])
    assert isinstance(result.exception, KafkaError)
    assert json.loads(result.stdout)["failed"][0]["topic"] == TOPIC
    table.delta().restore(1)
    assert run("settle", *here, "skip")["topics"] == [{"topic": TOPIC, "number": 3, "replaces": [2]}]
    newest = table.newest()
    assert newest is not None
    assert newest.offsets == {PARTITION: 200}


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("status", "--format", "delta"), "No such option '--format'"),
        (("settle", "skip"), "Missing option '--topic'"),
        (("redrive",), "give either --topic or --whitelist"),
    ],
)
def test_what_means_nothing_together_is_refused(args: tuple[str, ...], why: str) -> None:
    """Before anything is opened."""
    assert why in " ".join(refused(*args, "--warehouse", "/nowhere").split())


def test_what_is_no_pair_is_refused() -> None:
    """Naming the option."""
    result = CliRunner().invoke(load_command.command, ["--topic", "a", "--warehouse", "/nowhere", "--option", "fetch"])
    assert isinstance(result.exception, ConfigError)
    assert str(result.exception) == "--option 'fetch' is not key=value"
