"""What a figure was measured on, and what else the machine did meanwhile."""

from __future__ import annotations

import importlib.metadata
import mmap
import os
import platform
import re
import time
from pathlib import Path
from typing import Any

import psutil

from paper_benchmarks.measuring.usage import tree_cpu_s

_TOUCHED_BYTES = 2_000_000_000


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


def touch_memory() -> None:
    """Use two gigabytes of memory, at most a third of what is available, and give them back.

    A virtual machine may have returned its free memory to its host, piece by piece. Getting a page again can take ten
    times as long as writing to it does, which whatever writes fastest would pay most for.
    """
    size_bytes = min(_TOUCHED_BYTES, psutil.virtual_memory().available // 3)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    mmap.mmap(-1, size_bytes, flags=flags).close()


class Neighbours:
    """Watches how many cores processes keep busy that are neither this one nor below it, from when it is made on."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._busy_s, self._own_s = _busy_s(), tree_cpu_s()

    def cores(self) -> float:
        """Return the mean until now."""
        elapsed_s = max(time.monotonic() - self._began_s, 1e-9)
        others_s = (_busy_s() - self._busy_s) - (tree_cpu_s() - self._own_s)
        return round(max(others_s, 0.0) / elapsed_s, 2)

    def facts(self) -> dict[str, Any]:
        """Return how long that was, and the machine's load by now."""
        load = [round(value, 2) for value in psutil.getloadavg()]
        return {"elapsed_s": round(time.monotonic() - self._began_s, 1), "load_average": load}


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)  # guests' are users' already


def _processor() -> str:
    match = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return match[1] if match else platform.machine()


def _file_system(path: Path) -> str:
    mounts = [each for each in psutil.disk_partitions(all=True) if path.resolve().is_relative_to(each.mountpoint)]
    return max(mounts, key=lambda each: len(each.mountpoint)).fstype if mounts else "unknown"
