"""Runs the tasks of a load in processes of this machine, or in this one where there is only one task."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from multiprocessing import Pipe
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, TypeVar

from kafka2011.warehouse.errors import WarehouseError
from kafka2011.warehouse.loading.engine import run_here
from zk.closing import Closing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection

T = TypeVar("T")
R = TypeVar("R")


class LocalEngine(Closing):
    """An `Engine` without Spark. A context manager; its processes end with it, or with this process."""

    def __init__(self, processes: int | None = None) -> None:
        self._size = processes or os.cpu_count() or 1
        self._workers: list[_Worker] = []
        self._done = self._every = 0

    @property
    def parallelism(self) -> int:
        """How many tasks can run at once."""
        return self._size

    def run(self, job: Callable[[T], R], tasks: Sequence[T], *, are_small: bool = False) -> Iterator[R]:
        """Run the tasks, one by one in this process if that is as fast."""
        self._done, self._every = 0, len(tasks)
        if are_small or min(self._size, len(tasks)) < 2:
            for result in run_here(job, tasks):
                self._done += 1
                yield result
            return
        try:
            yield from self._run_in_workers(job, tasks)
        except BaseException:  # whoever still works does it for nobody
            self.close()
            raise

    def _run_in_workers(self, job: Callable[[T], R], tasks: Sequence[T]) -> Iterator[R]:
        waiting = deque(tasks)
        while len(self._workers) < min(self._size, len(tasks)):
            self._workers.append(_Worker())
        busy: dict[Any, _Worker] = {}
        for worker in self._workers[: len(tasks)]:
            worker.send(job, waiting.popleft())
            busy[worker.pipe] = worker
        while busy:
            for pipe in wait(list(busy)):
                worker = busy.pop(pipe)
                result = worker.receive()
                if waiting:
                    worker.send(job, waiting.popleft())
                    busy[pipe] = worker
                self._done += 1
                yield result

    def progress(self) -> str:
        """Say how many tasks of a load are done."""
        return f"{self._done} of {self._every} tasks"

    def check_alive(self, error: Exception) -> None:
        """Do nothing: processes that have died are replaced."""

    def close(self) -> None:
        """End the processes; new ones are started when they are needed."""
        for worker in self._workers:
            worker.end()
        self._workers.clear()


class _Worker:
    """A process, in a session of its own, where signals of a terminal do not reach it."""

    def __init__(self) -> None:
        self.pipe: Connection[Any, Any]
        self.pipe, theirs = Pipe()
        program = (sys.executable, "-m", "kafka2011.warehouse.loading.worker", str(theirs.fileno()))
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 (our own)
                program, pass_fds=[theirs.fileno()], start_new_session=True
            )

    def send(self, job: object, task: object) -> None:
        try:
            self.pipe.send((job, task))
        except OSError as error:
            raise self._death() from error

    def receive(self) -> Any:
        try:
            result, error = self.pipe.recv()
        except (EOFError, OSError) as gone:
            raise self._death() from gone
        if error is not None:
            raise error
        return result

    def end(self) -> None:
        self.pipe.close()
        self._process.kill()
        self._process.wait()

    def _death(self) -> WarehouseError:
        self._process.kill()  # it has closed its end of the pipe, at least
        status = self._process.wait()
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        return WarehouseError(
            f"a process of this load, {self._process.pid}, {how}, and nothing was committed; the kernel's log says if"
            " memory ran out"
        )
