"""What the lab says of a program in a stage, for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka2011.lab.drawing import dump, dump_difference, first_difference
from kafka2011.lab.paper import NONE, Sentence
from kafka2011.lab.requests import BARRIER
from kafka2011.printable import printable

if TYPE_CHECKING:
    from kafka2011.lab.bench import Bench
    from kafka2011.lab.errors import WrongError
    from kafka2011.lab.stage import Stage


@dataclass(frozen=True)
class StageVerdict:
    """One program in one stage. `wrong` is None if it passed; then `check` and `sentence` mean nothing.

    `skipped` says why the stage cannot be tried on this machine; then it is neither passed nor failed.
    """

    stage: Stage
    seconds: float
    passed_checks: tuple[str, ...]
    check: str = ""
    sentence: Sentence = NONE
    wrong: WrongError | None = None
    skipped: str = ""
    skipped_checks: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, stage: Stage, bench: Bench, seconds: float, wrong: WrongError | None = None, skipped: str = ""
    ) -> StageVerdict:
        """Return what a bench has seen."""
        passed, not_tried = tuple(bench.passed), tuple(bench.skipped)
        return cls(stage, seconds, passed, bench.title, bench.sentence, wrong, skipped, not_tried)

    @property
    def passed(self) -> bool:
        """Whether the program has passed the stage."""
        return self.wrong is None and not self.skipped

    def text(self) -> str:
        """Return what a student reads."""
        head = f"Stage {self.stage.number}, {self.stage.title}"
        count = len(self.passed_checks)
        if self.skipped:
            return f"{head}: SKIPPED: {printable(self.skipped)}"
        if self.wrong is None:
            lines = [f"{head}: passed ({count} checks, {self.seconds:.1f} s)"]
            return "\n".join(lines + [f"  skipped: {printable(reason)}" for reason in self.skipped_checks])
        were = "1 check was" if count == 1 else f"{count} checks were"
        lines = [
            f"{head}: NOT PASSED ({were} right before this one)",
            "",
            f"Tried:  {self.check}",
            f"Result: {_printable_lines(self.wrong.what)}",
        ]
        if self.wrong.note:
            lines.append(_printable_lines(f"Your program's last words: {self.wrong.note}"))
        lines += self._bytes(self.wrong)
        if self.wrong.started:
            lines += ["", "started as:", f"  {printable(self.wrong.started)}"]
        if self.wrong.files:
            lines += ["", "files in data:", *(f"  {printable(name)}" for name in self.wrong.files)]
        if self.sentence != NONE:
            lines += ["", f'The paper, section {self.sentence.section}: "{self.sentence.text}"']
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """Return the same for a program; bytes are in hex."""
        wrong = self.wrong
        differs = None
        if wrong is not None and wrong.wanted is not None and wrong.came is not None:
            differs = first_difference(wrong.wanted, wrong.came)
        return {
            "stage": self.stage.number,
            "title": self.stage.title,
            "passed": self.passed,
            "seconds": round(self.seconds, 2),
            "checks_passed": list(self.passed_checks),
            "skipped": self.skipped or None,
            "checks_skipped": list(self.skipped_checks),
            "failed_check": None if wrong is None else self.check,
            "what": None if wrong is None else wrong.what,
            "sent": None if wrong is None or wrong.sent is None else wrong.sent.hex(),
            "came": None if wrong is None or wrong.came is None else wrong.came.hex(),
            "wanted": None if wrong is None or wrong.wanted is None else wrong.wanted.hex(),
            "first_different_byte": differs,
            "last_words": None if wrong is None else wrong.note or None,
            "started": None if wrong is None else wrong.started or None,
            "files": None if wrong is None else list(wrong.files),
            "paper": None if wrong is None else self.sentence.text,
        }

    @staticmethod
    def _bytes(wrong: WrongError) -> list[str]:
        lines: list[str] = []
        if wrong.sent is not None:
            has_barrier = wrong.sent != BARRIER and wrong.sent.endswith(BARRIER)
            lines += ["", "sent, with an empty multifetch at the end:" if has_barrier else "sent:", dump(wrong.sent)]
        if wrong.came is not None:
            drawn = dump(wrong.came) if wrong.wanted is None else dump_difference(wrong.came, wrong.wanted)
            lines += ["", "came:", drawn]
        if wrong.wanted is not None:
            at = first_difference(wrong.wanted, wrong.came or b"") or 0
            lines += ["", "wanted:", dump(wrong.wanted, at)]
        return lines


def _printable_lines(text: str) -> str:
    return "\n".join(printable(line).rstrip() for line in text.splitlines())
