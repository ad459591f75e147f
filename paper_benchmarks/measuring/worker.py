"""Work in a process of its own, so that its CPU time is its own: both ends of the pipe to it.

The worker gets a job, sets up all that is not to be timed, says that it is ready, and works when told to go.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import psutil

from kafka2011.c_code import PURE_VARIABLE
from kafka2011.message import runs
from paper_benchmarks.measuring.errors import BenchmarkError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from types import TracebackType

    Work = Callable[[], Mapping[str, Any]]
    """What is timed; returns what else is to be told."""
    Prepare = Callable[[Mapping[str, Any]], AbstractContextManager[tuple[Mapping[str, Any], Work]]]
    """Sets a job up; gives what is to be told before, and the work."""

ROOT = Path(__file__).parents[2]
DEADLINE_S = 600.0
_LAST_WORDS_BYTES = 2000


def work(prepare: Prepare) -> None:
    """Do the job that the command line holds, in a worker's process."""
    with prepare(json.loads(sys.argv[1])) as (facts, run):
        _tell({**facts, "code": runs.chosen.DESCRIPTION})
        if not sys.stdin.readline():
            return  # nobody waits for it any more
        started_s, cpu_started_s = time.perf_counter(), time.process_time()
        extra = run()
        cpu_s, wall_s = time.process_time() - cpu_started_s, time.perf_counter() - started_s
        _tell({"cpu_s": cpu_s, "wall_s": wall_s, **extra})


def _tell(facts: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


class Worker:
    """A process that runs a module's `work`; a context manager, which is entered once it is ready.

    `facts` are what it told then; `python` runs it, this one by default. Raises BenchmarkError, with its last words,
    when it fails or takes too long.
    """

    def __init__(
        self,
        module: str,
        job: Mapping[str, Any],
        *,
        pure: bool = False,
        deadline_s: float = DEADLINE_S,
        python: str = sys.executable,
    ) -> None:
        self._command = [python, "-m", module, json.dumps(job)]
        self._env = {**os.environ, PURE_VARIABLE: "1" if pure else "0"}
        self._deadline_s = deadline_s
        self.facts: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self._errors = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(  # noqa: S603 (a module of ours)
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=self._env,
                cwd=ROOT,
                text=True,
            )
        except BaseException:
            self._errors.close()
            raise
        self._timer = threading.Timer(self._deadline_s, self._process.kill)
        self._timer.daemon = True
        self._timer.start()
        try:
            self.facts = self._told()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def go(self) -> None:
        """Let it begin."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def result(self) -> dict[str, Any]:
        """Return what it measured, once it is done: cpu_s, wall_s, and what its work returned."""
        return self._told()

    def _told(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            status = self._process.wait()
            self._errors.seek(0, os.SEEK_END)
            self._errors.seek(max(0, self._errors.tell() - _LAST_WORDS_BYTES))
            words = self._errors.read().decode(errors="replace").strip() or "(it printed nothing)"
            raise BenchmarkError(f"{' '.join(self._command[2:])} ended with status {status}: {words}")
        told: dict[str, Any] = json.loads(line)
        return told

    def _end(self) -> None:
        """End the process, which has nothing to do any more, and all that belongs to it."""
        self._timer.cancel()
        with self._errors:
            if self._process.poll() is None:
                for child in psutil.Process(self._process.pid).children(recursive=True):
                    with suppress(psutil.NoSuchProcess):
                        child.kill()
                self._process.kill()
            self._process.communicate()


class Worked(NamedTuple):
    """What a worker told before its work and after it, and the CPU time that a server used meanwhile."""

    facts: dict[str, Any]
    result: dict[str, Any]
    server_cpu_s: float | None


def run_worker(
    module: str,
    job: Mapping[str, Any],
    cpu_s: Callable[[], float | None],
    *,
    deadline_s: float = DEADLINE_S,
    python: str = sys.executable,
) -> Worked:
    """Run a worker from its beginning to its end; `cpu_s` tells what a server has used until now."""
    with Worker(module, job, deadline_s=deadline_s, python=python) as worker:
        before_s = cpu_s()
        worker.go()
        result = worker.result()
        after_s = cpu_s()
    return Worked(worker.facts, result, None if before_s is None or after_s is None else after_s - before_s)
