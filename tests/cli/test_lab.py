"""`kafka2011 lab` as a student and a lecturer call it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from kafka2011.cli import app
from kafka2011.lab import progress
from kafka2011.lab.stages import STAGES
from tests.support.students import SOLUTION, defects

if TYPE_CHECKING:
    from pathlib import Path


def folder_with(path: Path, text: str) -> Path:
    """Write what `lab start` writes, with another program."""
    path.mkdir()
    (path / "main.py").write_text(text)
    (path / "lab.toml").write_text(f"command = [{sys.executable!r}, '-B', 'main.py']\n")
    return path


def test_a_student_starts_reads_a_page_and_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From nothing to the second page."""
    mine = tmp_path / "mine"
    assert app.main(["lab", "start", str(mine)]) == app.EXIT_OK
    assert "kafka2011 lab next" in capsys.readouterr().out
    assert app.main(["lab", "next", "--folder", str(mine)]) == app.EXIT_OK
    assert capsys.readouterr().out == STAGES[1].page().rstrip() + "\n\n\nThen try it: kafka2011 lab check\n"
    assert app.main(["lab", "start", str(mine)]) == app.EXIT_FAILED
    assert "exists already" in capsys.readouterr().err
    assert app.main(["lab", "next", "--folder", str(tmp_path)]) == app.EXIT_OK
    assert "lab.toml does not exist, so this is the first page" in capsys.readouterr().err
    assert app.main(["lab", "start", str(tmp_path / "third"), "--language", "other"]) == app.EXIT_OK
    assert f"Name the command of your program in {tmp_path / 'third' / 'lab.toml'}." in capsys.readouterr().out
    other = folder_with(tmp_path / "other", SOLUTION)
    assert app.main(["lab", "check", "1", "--folder", str(other)]) == app.EXIT_OK
    out = capsys.readouterr().out
    assert out.startswith("Stage 1, frames and messages: passed (")
    assert out.endswith("Go on: kafka2011 lab next\n")
    assert app.main(["lab", "next", "--folder", str(other)]) == app.EXIT_OK
    assert capsys.readouterr().out.startswith("STAGE 2: APPEND AND FETCH\n")


def test_a_verdict_says_how_the_program_was_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also of a role that is no broker."""
    [defect] = [d for d in defects() if d.stage == 10][:1]
    mine = folder_with(tmp_path / "mine", defect.plant())
    assert app.main(["lab", "check", "10", "--folder", str(mine)]) == app.EXIT_FAILED
    assert "started as:\n  " in (out := capsys.readouterr().out)
    assert " producer broker=127.0.0.1:" in out


def test_check_ends_at_the_first_stage_that_is_not_passed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With status 1, and a JSON document that has everything."""
    [defect] = [d for d in defects() if d.name == "most bytes are ignored"]
    mine = folder_with(tmp_path / "mine", defect.plant())
    progress_file = mine / progress.FILE
    progress_file.write_text('{"passed": [2, 3]}')
    assert app.main(["lab", "check", "--all", "--json", "--folder", str(mine)]) == app.EXIT_FAILED
    captured = capsys.readouterr()
    stages = json.loads(captured.out)["stages"]
    assert [(stage["stage"], stage["passed"]) for stage in stages] == [(1, True), (2, False)]
    assert "stage 2 is not passed (`kafka2011 lab next 2` prints its page)" in captured.err
    assert json.loads(progress_file.read_text()) == {"passed": [1, 3]}
    assert app.main(["lab", "check", "--folder", str(mine)]) == app.EXIT_FAILED
    assert "Stage 2, append and fetch: NOT PASSED" in capsys.readouterr().out
    assert app.main(["lab", "check", "2", "--all", "--folder", str(mine)]) == app.EXIT_USAGE


def test_a_lecturer_gets_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each folder, also for one that does not build or has no lab.toml; noted progress does not count."""
    [defect] = [d for d in defects() if d.name == "codec 3 is accepted"]
    ada, bob, eve = folder_with(tmp_path / "ada", defect.plant()), tmp_path / "bob", tmp_path / "eve"
    (ada / progress.FILE).write_text(json.dumps({"passed": [number for number in STAGES if number != 2]}))
    bob.mkdir()
    folder_with(eve, "import sys; sys.exit('?')")
    assert app.main(["lab", "table", "--json", str(ada), str(bob), str(eve)]) == app.EXIT_OK
    rows = json.loads(capsys.readouterr().out)
    assert [(row["passed"], row["failed_stage"]) for row in rows] == [(0, 1), (0, 1), (0, 1)]
    assert rows[0]["failed_check"] == "A message with codec 3 closes the connection"
    assert "does not exist" in rows[1]["what"]
    assert rows[2]["what"] == "Your program ended with status 1. Its last words: ?"
    assert app.main(["lab", "table", str(bob)]) == app.EXIT_OK
    assert "1 program" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "[]", "nonsense", '{"passed": 3}', '{"passed": ["x"]}'])
def test_a_progress_file_that_nobody_can_read_counts_as_none(tmp_path: Path, text: str) -> None:
    """The student only grades again."""
    (tmp_path / progress.FILE).write_text(text)
    assert progress.read(tmp_path) == set()
