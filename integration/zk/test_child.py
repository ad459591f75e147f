"""Child processes that never outlive their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.support.processes import gone
from tests.support.waiting import eventually
from zk.child import ChildProcess
from zk.errors import ChildStartError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills a child whose parent was killed")

ANSWERING = ["sh", "-c", "trap 'echo alive' USR1; echo ready; while :; do sleep 0.05; done"]
STUBBORN = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"]

PARENT = """
import sys, threading
from pathlib import Path
from zk.child import ChildProcess
children = [ChildProcess(["sh", "-c", f"trap 'echo end {n}; exit' TERM; echo ready {n}; while :; do sleep 0.05; done"],
                         Path(sys.argv[1])) for n in (1, 2)]
for child in children:
    child.start()
    print(child.pid, flush=True)
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Give the log file of a child."""
    return tmp_path / "logs" / "child.log"


@pytest.fixture
def spawn(log: Path) -> Iterator[Callable[..., ChildProcess]]:
    """Start commands; they are killed at the end of the test."""
    children: list[ChildProcess] = []

    def start(command: list[str], stop_timeout_s: float = 10.0) -> ChildProcess:
        children.append(ChildProcess(command, log, stop_timeout_s=stop_timeout_s))
        children[-1].start()
        return children[-1]

    yield start
    for child in children:
        child.kill()


@pytest.fixture
def parent(log: Path) -> Iterator[Callable[[str], tuple[subprocess.Popen[str], list[int]]]]:
    """Start a process that starts two children and then runs the given code; returns it and the children's ids."""
    processes: list[subprocess.Popen[str]] = []
    pids: list[int] = []

    def start(code: str) -> tuple[subprocess.Popen[str], list[int]]:
        process = subprocess.Popen(
            [sys.executable, "-c", PARENT + code, str(log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        processes.append(process)
        assert process.stdout is not None
        pids.extend(int(process.stdout.readline()) for _ in range(2))
        return process, pids

    yield start
    for process in processes:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # a forked copy too
        with process:
            process.wait()
    for pid in pids:
        if not gone(pid):
            os.kill(pid, signal.SIGKILL)


def test_the_pid_is_that_of_the_command(spawn: Callable[..., ChildProcess]) -> None:
    """Signals reach the command itself, not a wrapper around it."""
    child = spawn(["sleep", "60"])
    eventually(lambda: psutil.Process(child.pid).cmdline() == ["sleep", "60"])
    child.send_signal(signal.SIGINT)
    assert child.wait(10) == -signal.SIGINT
    assert child.poll() == -signal.SIGINT


def test_output_goes_to_the_log_file(spawn: Callable[..., ChildProcess], log: Path) -> None:
    """Both streams are appended, over restarts too, and the exit status comes back."""
    child = spawn(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert child.wait(10) == 3
    child.start()
    assert child.wait(10) == 3
    assert log.read_text().split() == ["out", "err"] * 2


def test_a_missing_command_is_an_error_at_start(log: Path) -> None:
    """There is no process then."""
    child = ChildProcess(["no-such-command-here"], log)
    with pytest.raises(ChildStartError, match="no-such-command-here"):
        child.start()
    assert not child.running
    child.stop()


def test_start_and_stop_may_be_called_twice(spawn: Callable[..., ChildProcess]) -> None:
    """The second call changes nothing."""
    child = spawn(["sleep", "60"])
    first = child.pid
    child.start()
    assert child.pid == first
    child.stop()
    child.stop()
    assert not child.running


def test_a_child_that_ignores_sigterm_is_killed(spawn: Callable[..., ChildProcess], log: Path) -> None:
    """After its deadline."""
    child = spawn(STUBBORN, stop_timeout_s=0.2)
    eventually(lambda: "ready" in log.read_text())
    child.stop()
    assert child.poll() == -signal.SIGKILL


def test_a_stopped_child_is_stopped_in_order(spawn: Callable[..., ChildProcess], log: Path) -> None:
    """A process under SIGSTOP is woken, so that it can still do its work at the end."""
    child = spawn(["sh", "-c", "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done"])
    eventually(lambda: "ready" in log.read_text())
    child.send_signal(signal.SIGSTOP)
    child.stop()
    assert child.poll() == 7
    assert "bye" in log.read_text()


def test_a_wait_that_takes_too_long_is_an_error(spawn: Callable[..., ChildProcess]) -> None:
    """The child runs on."""
    child = spawn(["sleep", "60"])
    with pytest.raises(TimeoutError, match="sleep"):
        child.wait(0.05)
    assert child.running


def test_ctrl_c_does_not_reach_the_child(spawn: Callable[..., ChildProcess]) -> None:
    """It has a session of its own; its parent stops it in order."""
    child = spawn(["sleep", "60"])
    assert os.getsid(child.pid) == child.pid


@linux_only
def test_a_child_outlives_the_thread_that_started_it(spawn: Callable[..., ChildProcess], log: Path) -> None:
    """The kernel watches the thread that forked, so that must be one that stays."""
    started: list[tuple[ChildProcess, int]] = []

    def start_and_end() -> None:
        child = spawn(ANSWERING)
        eventually(lambda: "ready" in log.read_text())  # by then it has given the kernel its order
        started.append((child, threading.get_native_id()))

    thread = threading.Thread(target=start_and_end)
    thread.start()
    thread.join()
    child, thread_id = started[0]
    eventually(lambda: not Path(f"/proc/self/task/{thread_id}").exists())
    child.send_signal(signal.SIGUSR1)
    eventually(lambda: "alive" in log.read_text() or not child.running)
    assert child.running


@linux_only
def test_children_die_when_their_parent_is_killed(
    parent: Callable[[str], tuple[subprocess.Popen[str], list[int]]], log: Path
) -> None:
    """By kill -9 of the parent, and a stopped child too."""
    process, children = parent("sys.stdin.read()")
    eventually(lambda: log.read_text().count("ready") == 2)
    os.kill(children[0], signal.SIGSTOP)
    assert not any(map(gone, children))
    process.kill()
    eventually(lambda: all(map(gone, children)))
    assert "end" not in log.read_text()


@linux_only
def test_a_parent_that_is_killed_at_once_leaves_no_child(
    parent: Callable[[str], tuple[subprocess.Popen[str], list[int]]],
) -> None:
    """Even before the child could give the kernel its order."""
    process, children = parent("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    process.wait(10)
    eventually(lambda: all(map(gone, children)))


def test_children_are_stopped_in_order_at_exit(
    parent: Callable[[str], tuple[subprocess.Popen[str], list[int]]], log: Path
) -> None:
    """A program that just ends stops its children, the last one first, and waits for them."""
    process, children = parent("sys.stdin.read()")
    eventually(lambda: log.read_text().count("ready") == 2)
    process.communicate(timeout=20)
    assert all(map(gone, children))
    assert [line for line in log.read_text().splitlines() if "end" in line] == ["end 2", "end 1"]


def test_a_forked_copy_leaves_the_children_alone(
    parent: Callable[[str], tuple[subprocess.Popen[str], list[int]]], log: Path
) -> None:
    """A copy of the parent that exits (multiprocessing) does not stop what is not its own, and can start its own."""
    process, children = parent(
        "import os\n"
        "pid = os.fork()\n"
        "if not pid:\n"
        "    with ChildProcess(['true'], Path(sys.argv[1])) as own: sys.exit(own.wait(10))\n"
        "print(os.waitpid(pid, 0)[1], flush=True); sys.stdin.read()"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "0\n"
    assert not any(map(gone, children))
