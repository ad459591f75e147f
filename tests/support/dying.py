"""Ends a process before a chosen one of the calls by which it changes files, in Python, Rust or C alike."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_name("die_at_step.c")


def environment(steps: Path, below: Path | None = None, last: int = 0) -> dict[str, str]:
    """Return an environment for such a process: see `die_at_step.c`. Its calls are written to the file `steps`.

    Without `below` it counts nothing before it calls `count_below`.
    """
    steps.unlink(missing_ok=True)
    more = {} if below is None else {"DIE_BELOW": str(below)}
    return {**os.environ, "LD_PRELOAD": str(_library()), "STEPS": str(steps), "DIE_AT": str(last), **more}


def count_below(directory: Path) -> None:
    """Let this process count from now on, if it was started in such an environment."""
    os.environ["DIE_BELOW"] = str(directory)


def steps_in(steps: Path) -> list[str]:
    """Return the calls that were made, by name and file."""
    return steps.read_text().splitlines() if steps.exists() else []


def telling(steps: list[str]) -> list[int]:
    """Return the numbers of the steps that are worth dying before: of writes to one file, one after the other, one."""
    return [number for number, name in enumerate(steps, 1) if number == 1 or name != steps[number - 2]]


@functools.cache
def _library() -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to make a process die with")
    library = Path(tempfile.mkdtemp(prefix="die-at-step-"), "die_at_step.so")
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return library
