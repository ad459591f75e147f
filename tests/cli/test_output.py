"""Tables and JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kafka2011.cli.output import printable, show_json_list, show_table
from kafka2011.cli.progress import byte_progress

if TYPE_CHECKING:
    import pytest


def test_table_lines_up(capsys: pytest.CaptureFixture[str]) -> None:
    """Text stands left, numbers right; None is a dash; lines end with their last character."""
    show_table(("topic", "first_offset"), [("a", 5), ("long", None), ("b", 12345)], as_json=False)
    assert (
        capsys.readouterr().out
        == "topic  first offset\na                 5\nlong              -\nb             12345\n"
    )


def test_table_as_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    """Each row is an object of a list, and an empty table an empty list."""
    show_table(("topic", "offset"), [("ä", 5), ("b", None)], as_json=True)
    assert json.loads(capsys.readouterr().out) == [{"topic": "ä", "offset": 5}, {"topic": "b", "offset": None}]
    show_json_list([])
    assert json.loads(capsys.readouterr().out) == []


def test_piped_tables_are_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """However long a cell is, a pipe gets it in one line; no markup, no colours."""
    path = "/[bold]" + "x" * 500
    show_table(("path", "n"), [(path, 1)], as_json=False)
    assert capsys.readouterr().out.splitlines()[1] == f"{path}  1"


def test_nothing_steers_the_terminal() -> None:
    """Control characters from messages and znodes are shown, not obeyed."""
    assert printable("a\x1b[31mb\nü") == "a\\x1b[31mb\\nü"


def test_no_progress_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """When standard error is piped, nothing is drawn."""
    with byte_progress("reading", 10) as advance:
        advance(5)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
