"""A second machine on this one: a network namespace behind a link with a limit, and processors for each side.

The namespace has no name. It goes, and the link with it, when this process and those started inside have ended, however
they end.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from paper_benchmarks.measuring.errors import BenchmarkError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

GIGABIT = 1_000_000_000
_CLONE_NEWNET = 0x40000000
_HERE = "/proc/thread-self/ns/net"
_NEAR, _FAR = "198.18.{}.1", "198.18.{}.2"
"""Of the addresses that are set aside for benchmarks (RFC 2544)."""
_NAMES = 256
_BURST_BYTES = 128 * 1024
_LATENCY_MS = 50
_TIMEOUT_S = 10


class NoNetworkError(BenchmarkError):
    """There can be no second machine here; the text says why."""


@dataclass(frozen=True, slots=True)
class Machines:
    """Two ends of a link: this namespace at `address`, and another, which `far` enters."""

    address: str
    namespace: int

    @contextmanager
    def far(self) -> Iterator[None]:
        """Have this thread, and the processes that it starts, be on the other machine meanwhile."""
        before = os.open(_HERE, os.O_RDONLY)
        try:
            _enter(self.namespace)
            try:
                yield
            finally:
                _enter(before)
        finally:
            os.close(before)


@contextmanager
def two_machines(bits_per_s: int = GIGABIT) -> Iterator[Machines]:
    """Make a second machine behind a link that carries so much in each direction. Raises NoNetworkError."""
    namespace = _new_namespace()
    try:
        yield Machines(_join(namespace, bits_per_s), namespace)
    finally:
        os.close(namespace)


def _new_namespace() -> int:
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            raise NoNetworkError(f"there is no command {program} (Debian: apt-get install iproute2)")
    before = os.open(_HERE, os.O_RDONLY)
    try:
        if _libc().unshare(_CLONE_NEWNET):
            why = os.strerror(ctypes.get_errno())
            raise NoNetworkError(f"no network namespace can be made, which takes root: {why}")
        namespace = os.open(_HERE, os.O_RDONLY)
        _enter(before)
    finally:
        os.close(before)
    return namespace


def _join(namespace: int, bits_per_s: int) -> str:
    """Lay the link and return this side's address."""
    number = os.getpid() % _NAMES
    near, far = f"bench{os.getpid()}a", f"bench{os.getpid()}b"
    inside = f"/proc/{os.getpid()}/fd/{namespace}"
    _run("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", inside)
    _raise_link(near, _NEAR.format(number), bits_per_s)
    with Machines("", namespace).far():
        _run("ip", "link", "set", "lo", "up")
        _raise_link(far, _FAR.format(number), bits_per_s)
    return _NEAR.format(number)


def _raise_link(name: str, address: str, bits_per_s: int) -> None:
    limits = ("rate", str(bits_per_s), "burst", str(_BURST_BYTES), "latency", f"{_LATENCY_MS}ms")
    _run("ip", "address", "add", f"{address}/30", "dev", name)
    _run("tc", "qdisc", "add", "dev", name, "root", "tbf", *limits)
    _run("ip", "link", "set", name, "up")


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S)  # noqa: S603 (ours)
    except subprocess.CalledProcessError as error:
        raise NoNetworkError(f"{' '.join(command)}: {error.stderr.strip()}") from error


def _enter(namespace: int) -> None:
    if _libc().setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


# Processors ----------------------------------------------------------------------------------------------------------


def halves() -> tuple[set[int], set[int]]:
    """Return the processors of each machine: half of those there are, or the only one for both."""
    every = sorted(os.sched_getaffinity(0))
    middle = len(every) // 2
    return set(every[:middle] or every), set(every[middle:])


def pin(pid: int, processors: Collection[int]) -> None:
    """Have a process, all its threads, run on these only."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), processors)


@contextmanager
def pinned(processors: Collection[int]) -> Iterator[None]:
    """Have this thread, and the processes that it starts, run on these only meanwhile."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
