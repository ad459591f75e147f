"""What processes use: processor, bytes for the disk, threads, memory; from /proc."""

from __future__ import annotations

import resource
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

_LOOK_S = 0.5
_BLOCK_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Usage:
    """Of all processes of a server together. CPU time and bytes grow; the others are what is now.

    `written_bytes` is what went to files on a disk (on a tmpfs nothing counts), whenever the disk got it.
    """

    cpu_s: float
    written_bytes: int
    read_bytes: int
    processes: int
    threads: int
    memory_bytes: int

    def since(self, before: Usage) -> Usage:
        """Return what was used after `before`."""
        return Usage(
            self.cpu_s - before.cpu_s,
            self.written_bytes - before.written_bytes,
            self.read_bytes - before.read_bytes,
            self.processes,
            self.threads,
            self.memory_bytes,
        )


def usage_of(pids: Iterable[int]) -> Usage:
    """Return what these processes have used, the server's own before others.

    Raises psutil.NoSuchProcess when that one has ended. A child of it may end at any time: its bytes and its CPU time
    are then its parent's.
    """
    cpu_s, written, read, count, threads, memory = 0.0, 0, 0, 0, 0, 0
    for pid in pids:
        try:
            process = psutil.Process(pid)
            counters = process.io_counters()
            ended = process.cpu_times()  # of children, in ticks of 10 ms
            cpu_s += process_cpu_s(pid) + ended.children_user + ended.children_system
        except (psutil.NoSuchProcess, OSError):
            if not count:
                raise
            continue
        written += counters.write_bytes
        read += counters.read_bytes
        count += 1
        threads += process.num_threads()
        memory += process.memory_info().rss
    return Usage(cpu_s, written, read, count, threads, memory)


def with_children(pid: int) -> list[int]:
    """Return a process and all that it started, and they started."""
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


def process_cpu_s(pid: int) -> float:
    """Return the CPU time of a process, user and system, of all its threads: to the nanosecond.

    psutil and /proc/PID/stat count in ticks of 10 ms. The number of the clock is what clock_getcpuclockid(3) makes.
    """
    return time.clock_gettime(~pid << 3 | 2)


def tree_cpu_s(root: psutil.Process | None = None) -> float:
    """Return the CPU time of a process, this one by default, and of all below it, ended ones too."""
    this = root or psutil.Process()
    total_s = 0.0
    for process in (this, *this.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total_s += times.user + times.system + times.children_user + times.children_system
    return total_s


def stored_in(directory: Path) -> int:
    """Return how many bytes the files below a directory hold.

    Blocks of nothing but zeros do not count: they are room that is made before it is needed.
    """
    total = 0
    for path in directory.rglob("*"):
        with suppress(OSError), path.open("rb") as file:  # a segment or a journal may be removed meanwhile
            while block := file.read(_BLOCK_BYTES):
                total += len(block) if block.strip(b"\0") else 0
    return total


def raise_file_limit() -> None:
    """Open as many files as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class TierUsage:
    """Watches CPU time of the processes that `pids` names, with all below them, which come and go; a context manager.

    It looks again and again, as the last look before an end counts.
    """

    def __init__(self, pids: Callable[[], Mapping[str, int]]) -> None:
        self._pids = pids
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tier usage", daemon=True)
        self.cpu_s: dict[str, float] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.look()

    def look(self) -> None:
        """Note what each has used by now."""
        for name, pid in self._pids().items():
            with suppress(psutil.NoSuchProcess):
                self.cpu_s[name] = max(tree_cpu_s(psutil.Process(pid)), self.cpu_s.get(name, 0.0))

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_S):
            self.look()
