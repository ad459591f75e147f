"""Run as a script: `child_exec.py PARENT_PID COMMAND...` becomes COMMAND, which the kernel kills when its parent dies.

Becoming it (exec) keeps the process id, and the order to die survives the exec. Imports next to nothing: it runs
at the start of every child process.
"""

from __future__ import annotations

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_EX_NOT_FOUND = 127


def die_with_parent(parent_pid: int) -> None:
    """Ask the kernel to kill this process when the thread that forked it ends."""
    import ctypes  # noqa: PLC0415 - only where it is of use

    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl(PR_SET_PDEATHSIG): {os.strerror(error)}")
    if os.getppid() != parent_pid:  # it died before the order was given
        os.kill(os.getpid(), signal.SIGKILL)


def main(arguments: list[str]) -> int:
    """Become the command; returns only when that fails."""
    parent_pid, command = int(arguments[0]), arguments[1:]
    if sys.platform == "linux":
        die_with_parent(parent_pid)
    try:
        os.execvp(command[0], command)  # noqa: S606 - no shell wanted
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
    return _EX_NOT_FOUND


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
