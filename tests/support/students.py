"""Programs as students of the lab write them: a right solution, and the same with one defect."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

from kafka2011.lab.program import StudentProgram

_LAB = Path(__file__).parent.parent / "lab"
SOLUTION = (_LAB / "solution.py.txt").read_text(encoding="utf-8")
"""A solution in plain Python."""


class Defect(NamedTuple):
    """A mistake of a student: `old` stands once in the solution, `new` takes its place, and `stage` should fail."""

    stage: int
    name: str
    old: str
    new: str

    def plant(self) -> str:
        """Return the solution with the defect."""
        assert SOLUTION.count(self.old) == 1, f"{self.name}: it stands {SOLUTION.count(self.old)} times"
        return SOLUTION.replace(self.old, self.new)


def defects() -> list[Defect]:
    """Return the table of defects."""
    with (_LAB / "defects.toml").open("rb") as file:
        return [Defect(**defect) for defect in tomllib.load(file)["defect"]]


def python_program(folder: Path, text: str) -> StudentProgram:
    """Write a program into a folder; it is started as a student's is."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "main.py").write_text(text, encoding="utf-8")
    return StudentProgram(folder, (sys.executable, "-B", "main.py"))
