"""Servers that are programs of this machine: each is started in a directory of its own, and stopped in order."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import psutil

from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.usage import with_children
from paper_benchmarks.systems.system import System

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_T = TypeVar("_T")
HOST = "127.0.0.1"
_START_TIMEOUT_S = 90.0
_STOP_TIMEOUT_S = 30.0
_POLL_S = 0.02
_LAST_WORDS = 2000


class LocalServer(System):
    """A server whose process and data are known. `settings` say what it promises of a message that it took."""

    def __init__(
        self, name: str, version: str, port: int, process: Process, directory: Path, settings: Mapping[str, str]
    ) -> None:
        super().__init__(name, version, HOST, port, settings, directory)
        self.process = process

    def count(self, topic: str) -> int:
        """Return how many messages of a topic it holds; every kind asks its server in its own way."""
        raise NotImplementedError

    def pids(self) -> Sequence[int]:
        """Return the server's process and those that it started."""
        return with_children(self.process.pid)


class Process:
    """A program that runs; what it prints goes to a file. After `stop` nothing of it runs any more."""

    def __init__(self, command: Sequence[str], directory: Path, env: Mapping[str, str] | None = None) -> None:
        self._name = Path(command[0]).name
        self._output = directory / f"{self._name}.out"
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 (the programs that are measured)
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env={**os.environ, **(env or {})},
                start_new_session=True,  # an interrupt of the keyboard is ours: we stop it in order
            )
        self.pid = self._process.pid

    def await_up(self, ask: Callable[[], _T], timeout_s: float = _START_TIMEOUT_S) -> _T:
        """Wait until the server answers, and return what. Raises BenchmarkError with its last words if it does not."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                return ask()
            except (OSError, EOFError) as error:
                if (status := self._process.poll()) is not None:
                    raise BenchmarkError(f"{self._name} ended with status {status}: {self._last_words()}") from error
                if time.monotonic() >= deadline_s:
                    raise BenchmarkError(
                        f"{self._name} was not up after {timeout_s:g} s ({error}): {self._last_words()}"
                    ) from error
                time.sleep(_POLL_S)

    def kill(self) -> None:
        """End it with kill -9."""
        self._process.kill()
        self._process.wait()

    def stop(self, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        """Ask it to end, and kill what does not: itself and whatever it started."""
        try:
            family = [psutil.Process(pid) for pid in with_children(self.pid)]
        except psutil.NoSuchProcess:
            family = []
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _, left = psutil.wait_procs(family, timeout=1)
        for process in left:
            process.kill()
        psutil.wait_procs(left, timeout=_STOP_TIMEOUT_S)

    def _last_words(self) -> str:
        words = self._output.read_text(encoding="utf-8", errors="replace").strip()
        return words[-_LAST_WORDS:] or "(it printed nothing)"


@contextmanager
def running(command: Sequence[str], directory: Path, env: Mapping[str, str] | None = None) -> Iterator[Process]:
    """Run a program in a directory, and stop it."""
    process = Process(command, directory, env)
    try:
        yield process
    finally:
        process.stop()


@contextmanager
def own_directory(base: Path) -> Iterator[Path]:
    """Make a directory for a server and what it writes; it goes with it."""
    with tempfile.TemporaryDirectory(prefix="kafka2011-bench-", dir=base, ignore_cleanup_errors=True) as directory:
        yield Path(directory).resolve()


def program(name: str) -> str | None:
    """Return the path of a program, which may be one for administrators; None when there is none."""
    return shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def what_is_missing(file: str | Path | None, package: str, *modules: str) -> str | None:
    """Say what keeps a system from being measured: its Debian package, or Python modules. None: nothing does."""
    if file is None or not Path(file).exists():
        return f"the Debian package {package} is not installed (make bench-rivals)"
    return missing_modules(*modules)


def missing_modules(*modules: str) -> str | None:
    """Say which of a system's Python modules are not installed; None when all are. Nothing is imported for it."""
    if missing := [module for module in modules if importlib.util.find_spec(module) is None]:
        return f"the Python module {' and '.join(missing)} is not installed (make bench-rivals)"
    return None
