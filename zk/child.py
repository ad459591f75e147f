"""Child processes that never outlive this one: stopped in order at exit, killed by the kernel after a kill -9."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Self

from zk import forks
from zk.errors import ChildStartError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    _Start = Callable[[], subprocess.Popen[bytes]]

logger = logging.getLogger(__name__)

_WRAPPER = Path(__file__).with_name("child_exec.py")
_KILL_TIMEOUT_S = 10.0


class ChildProcess:
    """A command running as a child process; a context manager. Standard output and error are appended to `log_path`.

    The child gets a session of its own, so that Ctrl-C reaches only this process, which stops its children in order.
    """

    def __init__(
        self,
        command: Sequence[str],
        log_path: Path,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stop_timeout_s: float = 10.0,
    ) -> None:
        self.command = list(command)
        self.log_path = log_path
        self._env = env
        self._cwd = cwd
        self._stop_timeout_s = stop_timeout_s
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the command, unless it runs already. Raises ChildStartError when there is no such command."""
        if self.running:
            return
        if shutil.which(self.command[0]) is None:
            raise ChildStartError(f"{self.command[0]}: no such command")
        wrapped = [sys.executable, "-I", "-S", str(_WRAPPER), str(os.getpid()), *self.command]
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._process = _launcher.run(
                lambda: subprocess.Popen(  # noqa: S603 - the caller's own command, without a shell
                    wrapped,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=None if self._env is None else dict(self._env),
                    cwd=self._cwd,
                    start_new_session=True,
                )
            )
        self._forget()  # a former run of the same command
        _started.append(self)

    @property
    def pid(self) -> int:
        """The process id of the command itself. Raises ChildStartError before the first start."""
        return self._started_process().pid

    @property
    def running(self) -> bool:
        """Whether the command was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def poll(self) -> int | None:
        """Return the exit status, negative after a signal, or None while the command runs."""
        return self._started_process().poll()

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for the command to end and return its exit status. Raises TimeoutError."""
        try:
            return self._started_process().wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.command[0]} (process {self.pid}) runs on after {timeout_s} s") from None

    def send_signal(self, number: int) -> None:
        """Send a signal; nothing when the command has ended."""
        if self._process is not None:
            self._process.send_signal(number)

    def terminate(self) -> None:
        """Ask the command to end (SIGTERM)."""
        self.send_signal(signal.SIGTERM)

    def pause(self) -> None:
        """Stop the command where it is (SIGSTOP): its connections stay open, and it answers nobody."""
        self.send_signal(signal.SIGSTOP)
        if self._process is not None:
            with contextlib.suppress(ChildProcessError):  # it has ended, and somebody has seen that
                # The signal is only on its way yet, and a thread of the command may still answer.
                os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a paused command go on (SIGCONT)."""
        self.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the command at once (SIGKILL) and reap it."""
        self.send_signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(_KILL_TIMEOUT_S)
        self._forget()

    def stop(self) -> None:
        """End the command in order: SIGTERM, a deadline, SIGKILL. Nothing when it does not run."""
        stop_all([self])

    def _begin_stop(self) -> None:
        if self.running:
            self.terminate()
            self.resume()  # a stopped process would not see the SIGTERM

    def _finish_stop(self) -> None:
        if self.running:
            try:
                self.wait(self._stop_timeout_s)
            except TimeoutError as error:
                logger.warning("%s: killed", error)
                self.kill()
        self._forget()

    def _started_process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ChildStartError(f"{self.command[0]} was not started")
        return self._process

    def _forget(self) -> None:
        if self in _started:
            _started.remove(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def stop_all(children: Iterable[ChildProcess]) -> None:
    """End several commands in order, all at once: sends each one SIGTERM, then waits for each."""
    ending = list(children)
    for child in ending:
        child._begin_stop()
    for child in ending:
        child._finish_stop()


class _Launcher:
    """Starts processes from one thread that lives as long as this process.

    The kernel's "parent died" signal comes when the *thread* that forked ends, whatever the process does.
    """

    def __init__(self) -> None:
        self._begin()
        forks.register(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._orders: queue.SimpleQueue[tuple[_Start, Future[subprocess.Popen[bytes]]]] | None = None

    def forget_after_fork(self) -> None:
        """In a forked child: the launching thread is missing there, and what was started belongs to the parent."""
        self._begin()
        _started.clear()

    def run(self, start: _Start) -> subprocess.Popen[bytes]:
        """Call `start` in the launching thread and return what it returns or raise what it raises."""
        with self._lock:
            if self._orders is None:
                self._orders = queue.SimpleQueue()
                threading.Thread(target=self._serve, args=(self._orders,), name="child launcher", daemon=True).start()
        result: Future[subprocess.Popen[bytes]] = Future()
        self._orders.put((start, result))
        return result.result()

    @staticmethod
    def _serve(orders: queue.SimpleQueue[tuple[_Start, Future[subprocess.Popen[bytes]]]]) -> None:
        while True:
            start, result = orders.get()
            try:
                result.set_result(start())
            except BaseException as error:  # noqa: BLE001 - it belongs to the caller, and the thread must live on
                result.set_exception(error)


_launcher = _Launcher()
_started: list[ChildProcess] = []


def _stop_all() -> None:
    for child in reversed(_started.copy()):
        child.stop()


atexit.register(_stop_all)
