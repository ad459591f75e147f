"""Grades a program: stage by stage, within a time limit, in a temporary directory."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.lab.bench import Bench
from kafka2011.lab.errors import SkippedError, WrongError
from kafka2011.lab.verdict import StageVerdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafka2011.lab.program import StudentProgram
    from kafka2011.lab.stage import Stage


def grade(program: StudentProgram, stage: Stage) -> StageVerdict:
    """Try a program in one stage and return the verdict. Nothing of the program runs afterwards."""
    started_s = time.monotonic()
    program.starts.clear()
    with tempfile.TemporaryDirectory(prefix="kafka2011-lab-", ignore_cleanup_errors=True) as directory:
        bench = Bench(program, Path(directory), started_s + stage.time_limit_s)
        wrong: WrongError | None = None
        try:
            stage.grade(bench)
        except WrongError as error:
            wrong = error
            error.started = error.started or "".join(program.starts[-1:])
        except SkippedError as error:
            return StageVerdict.of(stage, bench, time.monotonic() - started_s, skipped=str(error))
    return StageVerdict.of(stage, bench, time.monotonic() - started_s, wrong)


def grade_in_order(program: StudentProgram, stages: Iterable[Stage]) -> Iterator[StageVerdict]:
    """Yield the verdict on each stage, up to the first that fails. One that is skipped does not."""
    for stage in stages:
        verdict = grade(program, stage)
        yield verdict
        if verdict.wrong is not None:
            return
