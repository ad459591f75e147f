"""The command line of the benchmarks."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from paper_benchmarks.cli import EXIT_USAGE, main
from paper_benchmarks.clients.command import command, parse_system
from paper_benchmarks.clients.lines import LINES, YARDSTICKS
from paper_benchmarks.drivers.kafka import CONSUMERS, PRODUCERS
from paper_benchmarks.systems.kafka import KafkaBroker

DOCUMENT = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text(encoding="utf-8")


def test_another_broker_has_a_name_and_an_address() -> None:
    """Its address is its name where none is given."""
    assert parse_system("scala=localhost:9092") == KafkaBroker("scala", "localhost", 9092)
    assert parse_system("localhost:9092") == KafkaBroker("localhost:9092", "localhost", 9092)


@pytest.mark.parametrize("text", ["", "localhost", "=localhost:1", "a=localhost:", "a=:1", "a=b:x", "a=b:0", "b:65536"])
def test_what_is_no_address_is_refused(text: str) -> None:
    """With the text in the error."""
    with pytest.raises(click.BadParameter, match="is not NAME=HOST:PORT"):
        parse_system(text)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--no-own"], "give --against"),
        (["--against", "a=b:1", "--against", "a=c:1"], "a name of its own"),
        (["--against", "kafka2011=b:1"], "a name of its own"),
        (["--line", "none"], "is not one of"),
        (["--rounds", "0"], "rounds"),
    ],
)
def test_nonsense_is_refused_before_anything_starts(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In words, with the exit status of a wrong call."""
    assert main(["clients", *arguments]) == EXIT_USAGE
    assert reason in capsys.readouterr().err


def test_every_line_has_a_client_and_is_explained() -> None:
    """In the document, by its name and by its title; every option too."""
    for each in LINES:
        assert each.client in (CONSUMERS if each.reads else PRODUCERS)
    for line in (*LINES, *YARDSTICKS):
        assert f"| `{line.name}` |" in DOCUMENT
    for parameter in command.params:
        for option in (*parameter.opts, *parameter.secondary_opts):
            assert f"`{option}" in DOCUMENT
