"""Runs work in forks of this process, each with an end, a directory for its files, and limits of its own."""

from __future__ import annotations

import os
import resource
import select
import shutil
import signal
import tempfile
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_BYTES = 6 << 30
"""Address space of a fork: a change that takes ever more memory fails instead of filling the machine."""


def succeeds_in_fork(work: Callable[[], bool], timeout_s: float) -> bool:
    """Return whether work returned True in a fork in time; whatever it started is ended with it."""
    directory = tempfile.mkdtemp(prefix="mutants-")
    pid = os.fork()
    if pid == 0:
        _work_and_exit(work, directory)
    ended = os.pidfd_open(pid)
    try:
        select.select([ended], [], [], timeout_s)
    finally:
        os.close(ended)
        _kill_group(pid)
        _, status = os.waitpid(pid, 0)
        shutil.rmtree(directory, ignore_errors=True)
    return status == 0


def _work_and_exit(work: Callable[[], bool], directory: str) -> None:
    status = 1
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (_MAX_BYTES, _MAX_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        tempfile.tempdir = directory
        status = 0 if work() else 1
    except BaseException:  # noqa: BLE001 (the fork must not run on as its parent)
        traceback.print_exc()
    finally:
        os._exit(status)


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(pid, signal.SIGKILL)  # it has not come to setpgid, or is all that is left
