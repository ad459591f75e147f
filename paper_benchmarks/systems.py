"""The brokers that are measured: one of ours, started for it, or any that speaks 0.7."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.local import LocalCluster
from kafka2011.plain import PURE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

OWN = "kafka2011"
BROKER_PROPERTIES = {
    # All else as shipped. Counting waits until all can be read, and that should not be 3 s each time.
    "log.default.flush.scheduler.interval.ms": 100,
}
_MEMORY = Path("/dev/shm")  # noqa: S108 (a tmpfs; what is made there has a name of its own)


@dataclass(frozen=True, slots=True)
class System:
    """One broker. `zk_connect` and `pid` are known of our own only: groups, and the broker's CPU time, need them."""

    name: str
    host: str
    port: int
    zk_connect: str | None = None
    pid: int | None = None

    def cpu_s(self) -> float | None:
        """Return the CPU time that the broker's process has used, all threads, or None where that is not known."""
        return None if self.pid is None else process_cpu_s(self.pid)


def process_cpu_s(pid: int) -> float:
    """Return the CPU time of a process, user and system, of all its threads: to the nanosecond.

    psutil and /proc/PID/stat count in ticks of 10 ms. The number of the clock is what clock_getcpuclockid(3) makes.
    """
    return time.clock_gettime(~pid << 3 | 2)


@contextmanager
def own_system(zk_connect: str, log_base: Path, *, pure: bool) -> Iterator[System]:
    """Run one broker of ours with new logs, which go with it."""
    with tempfile.TemporaryDirectory(prefix="kafka2011-bench-", dir=log_base) as directory:
        with _environment(PURE_VARIABLE, "1" if pure else "0"):
            cluster = LocalCluster(1, zk_connect=zk_connect, directory=directory, properties=BROKER_PROPERTIES)
            cluster.start()
        try:
            broker = cluster.brokers[0]
            yield System(OWN, broker.host, broker.port, zk_connect, broker.process.pid)
        finally:
            cluster.close()


def default_log_base(needed_bytes: int) -> Path:
    """Return where logs cost no disk, if there is room for so much, else where temporary files lie."""
    if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= needed_bytes:
        return _MEMORY
    return Path(tempfile.gettempdir())


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
