"""The command line of the benchmarks."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from paper_benchmarks.__main__ import EXIT_USAGE, main, parse_system
from paper_benchmarks.clients.kafka2011 import CLIENTS
from paper_benchmarks.experiments.catalogue import EXPERIMENTS
from paper_benchmarks.experiments.events import works
from paper_benchmarks.systems.kafka2011 import KafkaBroker
from paper_benchmarks.systems.kinds import KINDS

DOCS = Path(__file__).parents[2] / "docs"
DOCUMENT = "".join(
    (DOCS / page).read_text(encoding="utf-8") for page in ("how-to/benchmarks.md", "reference/experiments.md")
)


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
        (["--against", "a=b:1", "--against", "a=c:1"], "a name of its own"),
        (["--against", "kafka2011=b:1"], "a name of its own"),
        (["--size", "huge"], "is not one of"),
        (["--system", "no-such-system"], "no-such-system"),
    ],
)
def test_nonsense_is_refused_before_anything_starts(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In words, with the exit status of a wrong call."""
    assert main(["systems", *arguments]) == EXIT_USAGE
    assert reason in capsys.readouterr().err


def test_every_line_has_a_client_and_is_explained() -> None:
    """In the document: every kind of server, every line of `events`, and every experiment."""
    for line in KINDS["kafka2011"].lines:
        assert line.client in CLIENTS[line.do]
    for name in (*KINDS, *EXPERIMENTS, *works(1)):
        assert f"`{name}`" in DOCUMENT


def test_lines_of_a_kind_have_names_of_their_own() -> None:
    """By which their samples are kept."""
    for kind in KINDS.values():
        for lines in (kind.producers(), kind.consumers()):
            assert len({str(line) for line in lines}) == len(lines)
