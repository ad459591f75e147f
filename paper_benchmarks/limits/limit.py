"""What a limit is measured with: a table of rows, and what a process takes at a moment."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from paper_benchmarks.measuring.usage import process_cpu_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Row = Mapping[str, Any]

TIMEOUT_S = 600.0
_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Run:
    """How much is measured, where the data lies meanwhile, and what is told of it."""

    is_full: bool
    data: Path
    minutes: float
    say: Callable[[str], object]

    def sized(self, small: Sequence[int], full: Sequence[int]) -> Sequence[int]:
        """Return what is measured one after the other."""
        return full if self.is_full else small


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit. `measure` yields the rows of its table as they are there, all with the same columns."""

    title: str
    how: str
    measure: Callable[[Run], Iterator[Row]]


@dataclass(frozen=True, slots=True)
class Taken:
    """What a process has taken by now: processor time, memory, open files, and bytes that it asked the kernel for."""

    at_s: float
    cpu_s: float
    memory_bytes: int
    files: int
    asked_bytes: int

    @classmethod
    def by(cls, pid: int) -> Taken:
        """Look at a process."""
        process = psutil.Process(pid)
        asked = int(Path(f"/proc/{pid}/io").read_text(encoding="ascii").split()[1])
        return cls(time.monotonic(), process_cpu_s(pid), process.memory_info().rss, process.num_fds(), asked)

    def cores_since(self, before: Taken) -> float:
        """Return how many processors it kept busy."""
        return (self.cpu_s - before.cpu_s) / (self.at_s - before.at_s)


def cores_of(pid: int, seconds: float) -> float:
    """Return how many processors a process keeps busy for so long."""
    before = Taken.by(pid)
    time.sleep(seconds)
    return Taken.by(pid).cores_since(before)


def until(is_so: Callable[[], bool], what: str, timeout_s: float = TIMEOUT_S) -> float:
    """Wait until something is so; return how long that took. Raises TimeoutError."""
    began_s = time.monotonic()
    while not is_so():
        if time.monotonic() > began_s + timeout_s:
            raise TimeoutError(f"not within {timeout_s:g} s: {what}")
        time.sleep(_POLL_S)
    return time.monotonic() - began_s


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which that share of them lies."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
