"""What a stage of the lab is: a page to read, and a function that tries a program."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.lab.bench import Bench


@dataclass(frozen=True)
class Stage:
    """One stage. `grade` raises WrongError at the first check that fails; `time_limit_s` is for all checks."""

    number: int
    title: str
    grade: Callable[[Bench], None]
    time_limit_s: float = 30.0

    def page(self) -> str:
        """Return what a student reads before the stage."""
        return (files("kafka2011.lab") / "pages" / f"{self.number:02}.txt").read_text(encoding="utf-8")
