"""Which stages a student has passed, in a file of the student's folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kafka2011.lab.verdict import StageVerdict

FILE = "lab-progress.json"


def read(folder: Path) -> set[int]:
    """Return the stages that were passed; none where there is no file, or one that nobody can read."""
    try:
        numbers = json.loads((folder / FILE).read_text(encoding="utf-8"))["passed"]
        return {number for number in numbers if isinstance(number, int)}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def note(folder: Path, verdicts: Iterable[StageVerdict]) -> None:
    """Add verdicts to the file: a stage counts as it was graded last."""
    passed = read(folder)
    for verdict in verdicts:
        (passed.add if verdict.passed else passed.discard)(verdict.stage.number)
    (folder / FILE).write_text(json.dumps({"passed": sorted(passed)}) + "\n", encoding="utf-8")
