"""What becomes of processes."""

from __future__ import annotations

import psutil


def gone(pid: int) -> bool:
    """Tell whether a process has ended, reaped or not."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
