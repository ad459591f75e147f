"""Runs a target on many cases: whatever bytes do, they may only be taken, or refused with the errors that are named.

What refuses in a new place, or is taken in a new way, joins the pool that cases are made from. So without looking at
code, cases go deeper than one change from a good input leads.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tests.fuzz.mutator import Mutator

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from types import FrameType

    Run = Callable[[bytes], Hashable]

MOST_POOLED = 4000
MOST_FINDINGS = 5
LONGEST_CPU_S = 20.0
"""So long may some cases take together before one of them is taken to be endless; of CPU, whatever else runs."""
_CASES_A_LOOK = 100
_IN_MEMORY = "/dev/shm"


class Target(NamedTuple):
    """What is given cases.

    `open` makes, for the time of a run, the function that takes a case. It returns what kind of case that was, and
    raises one of `refusals`, or whatever else, which is a defect. `cases` is how many of a million it gets.
    """

    name: str
    cases: int
    open: Callable[[], AbstractContextManager[Run]]
    refusals: tuple[type[Exception], ...]
    tokens: tuple[bytes, ...] = ()
    max_bytes: int = 2048


class EndlessError(Exception):
    """A case did not end."""


@dataclass(slots=True)
class Finding:
    """A defect: the case that shows it, and what came of it."""

    case: bytes
    error: BaseException


@dataclass(slots=True)
class Result:
    """What came of a run: how many cases, how many were refused, and how many kinds of outcomes there were."""

    cases: int = 0
    refused: int = 0
    kinds: Counter[Hashable] = field(default_factory=Counter)
    cpu_s: float = 0.0
    findings: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.cases} cases, {self.refused} refused, {len(self.kinds)} kinds, {self.cpu_s:.1f} s of CPU,"
            f" {len(self.findings)} findings"
        )


def fuzz(
    target: Target,
    corpus: Sequence[bytes],
    seed: int,
    cases: int,
    about_to_run: Callable[[bytes], object] = lambda _case: None,
) -> Result:
    """Run a target on its corpus, and then on cases made from that, until there are enough or too many findings.

    `about_to_run` is told each case before it runs, since it may be the end of the process.
    """
    result = Result()
    begun_s = time.process_time()
    pool = list(corpus)
    case = b""
    mutator = Mutator(seed, pool, target.tokens, target.max_bytes)
    try:
        with target.open() as run, _watched(lambda: case) as look:
            while result.cases < cases and len(result.findings) < MOST_FINDINGS:
                case = corpus[result.cases] if result.cases < len(corpus) else mutator.case()
                if result.cases % _CASES_A_LOOK == 0:
                    look()
                result.cases += 1
                about_to_run(case)
                kind = _run(target, run, case, result)
                result.kinds[kind] += 1
                if result.kinds[kind] == 1 and len(pool) < MOST_POOLED:
                    pool.append(case)
    except Exception as error:  # noqa: BLE001 (what a target finds at the end)
        result.findings.append(Finding(case, error))
    result.cpu_s = time.process_time() - begun_s
    return result


def in_memory() -> str | None:
    """Return a directory in memory, where there is one, for targets that write much."""
    return _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None


def _run(target: Target, run: Run, case: bytes, result: Result) -> Hashable:
    """Run a case; return what kind it was, and note what is a defect and was not found before."""
    try:
        return run(case)
    except target.refusals as error:
        result.refused += 1
        return _place_of(error)
    except Exception as error:  # noqa: BLE001 (that is what is looked for)
        kind = _place_of(error)
        if kind not in result.kinds:
            result.findings.append(Finding(case, error))
        return kind


def _place_of(error: BaseException) -> Hashable:
    """Return what tells errors apart: their type, and where they were raised."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return (type(error).__name__, at.tb_frame.f_code.co_name, at.tb_lineno) if at else type(error).__name__


@contextmanager
def _watched(what_runs: Callable[[], bytes]) -> Iterator[Callable[[], None]]:
    """Raise EndlessError in this block if so much CPU is used between two calls of the function that it gives."""

    def ended(_signal: int, _frame: FrameType | None) -> None:
        raise EndlessError(f"within {LONGEST_CPU_S:g} s of CPU: {what_runs()[:200].hex()}")

    before = signal.signal(signal.SIGVTALRM, ended)
    try:
        yield lambda: signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_CPU_S) and None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
