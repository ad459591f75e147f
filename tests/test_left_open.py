"""What a program leaves open is closed when it ends: by programs that end in several ways."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

DEADLINE_S = 60
PROGRAM = """
import os, signal, sys, threading, time
from kafka2011.left_open import note_closed, note_opened

class Opened:
    def __init__(self, name):
        self.name = name
        note_opened(self)

    def __repr__(self):
        return f"<Opened {self.name}>"

    def close(self):
        note_closed(self)

    def close_at_exit(self):
        print("closed", self.name, flush=True)
        if self.name == "bad":
            raise OSError("no room")

def opened(name):
    return Opened(name)

"""


def run(tmp_path: Path, code: str, *options: str) -> tuple[int, list[str], str]:
    """Run a program that ends somehow; return its status, the lines it printed, and what it complained of."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + textwrap.dedent(code))
    done = subprocess.run(
        [sys.executable, *options, program], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


ENDS = {
    "the last line": ("", 0),
    "an exception": ("raise ValueError('of the application')", 1),
    "sys.exit": ("sys.exit(3)", 3),
    "a signal whose handler raises": (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(4)); os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)",
        4,
    ),
}


@pytest.mark.parametrize(("end", "status"), ENDS.values(), ids=ENDS)
def test_what_is_left_open_is_closed_at_the_exit(tmp_path: Path, end: str, status: int) -> None:
    """However the program ends, if Python itself can still do anything; the newest first."""
    code = f"a, b, c = opened('a'), opened('b'), opened('c'); b.close(); {end}"
    assert run(tmp_path, code)[:2] == (status, ["closed c", "closed a"])


def test_a_warning_names_the_line_that_opened_it(tmp_path: Path) -> None:
    """For whoever asks Python for warnings."""
    _, said, complaints = run(tmp_path, "opened('a')", "-W", "default")
    line = PROGRAM[: PROGRAM.index("note_opened(self)")].count("\n") + 1
    warning = "ResourceWarning: <Opened a> was not closed before the program ended"
    assert f"{tmp_path / 'program.py'}:{line}: {warning}" in complaints
    assert said == ["closed a"]
    assert run(tmp_path, "opened('a')")[2] == ""


def test_one_that_cannot_be_closed_keeps_no_other_from_it(tmp_path: Path) -> None:
    """Its error is logged; and so are warnings where they are errors."""
    _, said, complaints = run(tmp_path, "opened('a'); opened('bad')", "-W", "error")
    assert said == ["closed bad", "closed a"]
    assert "<Opened bad> was not closed before the program ended" in complaints
    assert "OSError: no room" in complaints


def test_a_forked_child_leaves_what_is_the_parents_alone(tmp_path: Path) -> None:
    """And has what it opens itself closed."""
    code = """
        opened("parent's")
        if not os.fork():
            opened("child's")
            sys.exit()
        os.wait()
    """
    assert run(tmp_path, code)[1] == ["closed child's", "closed parent's"]
