"""Tables and JSON."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import subprocess
import sys

import pytest

from kafka2011.cli import produce, progress
from kafka2011.cli.output import counted, show_json_list, show_table
from kafka2011.cli.progress import byte_progress
from kafka2011.printable import printable
from tests.support.waiting import eventually


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


def test_a_table_without_rows_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """In words, rather than by column names above nothing."""
    show_table(("group", "lag_bytes"), [], as_json=False)
    show_table(("topic", "offset"), [], as_json=False, noun="offset")
    assert capsys.readouterr().out == "no groups\nno offsets\n"


def test_piped_tables_are_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """However long a cell is, a pipe gets it in one line; no markup, no colours."""
    path = "/[bold]" + "x" * 500
    show_table(("path", "n"), [(path, 1)], as_json=False)
    assert capsys.readouterr().out.splitlines()[1] == f"{path}  1"


def test_nothing_steers_the_terminal() -> None:
    """Control characters from messages and znodes are shown, not obeyed."""
    assert printable("a\x1b[31mb\nü") == "a\\x1b[31mb\\nü"


def test_nothing_is_drawn_without_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is short says nothing; what is long says how far it is, in lines that differ."""
    with byte_progress("reading", 10) as advance:
        advance(5)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
    told: list[str] = []
    monkeypatch.setattr("click.echo", lambda text, err: told.append(text) if err else None)
    done = 0
    with progress.told_progress(lambda: f"{done} done", interval_s=0.001):
        done = 1
        eventually(lambda: told[-1:] == ["1 done"])
        done = 2
        eventually(lambda: told[-1:] == ["2 done"])
    assert told in (["1 done", "2 done"], ["0 done", "1 done", "2 done"])


def test_tables_are_not_folded_at_a_terminal() -> None:
    """A line that is too long for the terminal stays one line: what is copied from it has no breaks inside words."""
    code = "from kafka2011.cli.output import show_table\nshow_table(('path', 'n'), [('x' * 200, 1)], as_json=False)"
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    with subprocess.Popen([sys.executable, "-c", code], stdout=theirs, env=environment) as shown:
        os.close(theirs)
        text = b""
        with contextlib.suppress(OSError), os.fdopen(ours, "rb", buffering=0) as terminal:  # its end is an error
            while part := terminal.read(4096):
                text += part
        assert shown.wait(60) == 0
    assert b"x" * 200 + b"  1\r\n" in text


def test_what_is_typed_is_not_drawn_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bar while lines come from a terminal."""

    class Terminal(io.BytesIO):
        def isatty(self) -> bool:
            return True

    drawn: list[str] = []
    monkeypatch.setattr(produce, "byte_progress", lambda what, total: drawn.append(what))
    with produce.show_progress(Terminal(), "views") as advance:
        advance(5)
    assert drawn == []


@pytest.mark.parametrize(("number", "text"), [(0, "0 lines"), (1, "1 line"), (2, "2 lines")])
def test_counts_have_their_plural(number: int, text: str) -> None:
    """One problem is not '1 problems'."""
    assert counted(number, "line") == text
