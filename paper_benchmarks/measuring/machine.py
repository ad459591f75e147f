"""What a figure was measured on, and what else the machine did meanwhile."""

from __future__ import annotations

import importlib.metadata
import mmap
import os
import platform
import re
import resource
import time
from pathlib import Path
from typing import Any

import psutil

_MANY_BYTES = 20_000_000
_LEAST_TOUCHED_BYTES = 2_000_000_000


def describe(log_base: Path) -> dict[str, Any]:
    """Return versions, processor, memory, and the file system of the logs."""
    return {
        "kafka2011": importlib.metadata.version("kafka2011"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "kernel": platform.release(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "log_base": str(log_base),
        "file_system": _file_system(log_base),
    }


def touch_memory(sent_bytes: int) -> None:
    """Use ten times as much memory as will be sent, at most a third of what is available, and give it back.

    A virtual machine may have returned its free memory to its host, piece by piece. Getting a page again can take ten
    times as long as writing to it does, which whatever writes fastest would pay most for. Which pages the kernel gives
    next is not known: so it is two gigabytes at least, except where so little is sent that it does not matter.
    """
    size_bytes = 10 * sent_bytes if sent_bytes < _MANY_BYTES else max(10 * sent_bytes, _LEAST_TOUCHED_BYTES)
    size_bytes = min(size_bytes, psutil.virtual_memory().available // 3)
    if size_bytes > 0:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
        mmap.mmap(-1, size_bytes, flags=flags).close()


class Neighbours:
    """Watches how many cores the other processes of the machine keep busy, from when it is made on."""

    def __init__(self) -> None:
        self._started_s = time.monotonic()
        self._busy_s = _busy_s()
        self._own_s = _own_s()

    def facts(self) -> dict[str, Any]:
        """Return the mean until now. Children of ours count as ours once they have ended."""
        elapsed_s = max(time.monotonic() - self._started_s, 1e-9)
        others_s = (_busy_s() - self._busy_s) - (_own_s() - self._own_s)
        return {
            "elapsed_s": round(elapsed_s, 1),
            "load_average": [round(value, 2) for value in psutil.getloadavg()],
            "cores_used_by_others": round(max(others_s, 0.0) / elapsed_s, 2),
        }


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)  # guests' are users' already


def _own_s() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _processor() -> str:
    match = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return match[1] if match else platform.machine()


def _file_system(path: Path) -> str:
    mounts = [each for each in psutil.disk_partitions(all=True) if path.resolve().is_relative_to(each.mountpoint)]
    return max(mounts, key=lambda each: len(each.mountpoint)).fstype if mounts else "unknown"
