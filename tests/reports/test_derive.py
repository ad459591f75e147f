"""Derivations that are killed, at every step that leaves something on disk: without Spark, and without reports."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kafka2011.reports.derive import derive
from kafka2011.reports.results import Results
from kafka2011.reports.table_inputs import TableInputs, TableView
from tests.support.tables import commit_of

_ROOT = Path(__file__).parents[2]

_KILLED = """
import os, signal, sys
from pathlib import Path
from kafka2011.reports import results
from tests.reports.test_derive import derive_through

def kill(_, given=None, *__):
    if given != 1:  # the beginning makes sure that `latest` leads to the first one
        os.kill(os.getpid(), signal.SIGKILL)

step, directory = sys.argv[1], Path(sys.argv[2])
if step == "made":
    finish = kill
else:
    finish = None
    setattr(results.Results, step, kill)
derive_through(2, directory, finish)
"""


def derive_through(number: int, directory: Path, finish: object = None) -> int | None:
    """Derive no reports of a table of so many commits; return the number of the derivation."""
    commits = [commit_of(each, each, attempt=f"attempt {each}") for each in range(1, number + 1)]
    inputs = TableInputs(None, [TableView("views", commits, [])])
    with Results(directory) as results:
        made = derive(None, inputs, results, reports=(), finish=finish)  # type: ignore[arg-type]
        return made.number if made else None


@pytest.mark.parametrize(
    ("step", "published"), [("made", False), ("publish", False), ("point_to", True), ("remove_old", True)]
)
def test_a_killed_derivation_neither_doubles_nor_skips(tmp_path: Path, step: str, published: bool) -> None:
    """The next one derives the same range, or finds that it was published; `latest` leads to it in the end."""
    assert derive_through(1, tmp_path) == 1
    done = subprocess.run([sys.executable, "-c", _KILLED, step, str(tmp_path)], check=False, cwd=_ROOT, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert derive_through(2, tmp_path) == (None if published else 2)
    with Results(tmp_path) as results:
        assert results.numbers() == [1, 2]
        newest = results.newest()
        assert newest is not None
        assert (newest.after["views"]["commit"], newest.through["views"]["commit"]) == (1, 2)
    assert (tmp_path / "latest").readlink().name == "derived=000002"
    assert not (tmp_path / "_staging").exists() or not list((tmp_path / "_staging").iterdir())
