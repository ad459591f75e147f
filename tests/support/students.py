"""Programs as students of the lab write them: a right solution, and the same with one defect."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

from kafka2011.lab.program import StudentProgram
from kafka2011.lab.starter import write_starter

ROOT = Path(__file__).parent.parent.parent
_LAB = ROOT / "tests" / "lab"
OUR_BROKER = StudentProgram(ROOT, (sys.executable, "tests/support/our_broker_as_a_student.py"))
"""This project's own broker as a student's program; it needs ROOT in PYTHONPATH."""
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


def go_program(folder: Path) -> StudentProgram:
    """Write the solution in Go into a folder, and build it. Raises LabError."""
    write_starter(folder, "go")
    (folder / "main.go").write_text((_LAB / "solution.go.txt").read_text(encoding="utf-8"), encoding="utf-8")
    program = StudentProgram.read(folder)
    program.build()
    return program


def python_program(folder: Path, text: str) -> StudentProgram:
    """Write a program into a folder; it is started as a student's is."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "main.py").write_text(text, encoding="utf-8")
    return StudentProgram(folder, (sys.executable, "-B", "main.py"))
