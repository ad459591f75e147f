"""A limit on the memory of some processes, the pages of their files included: a cgroup, which needs root."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from paper_benchmarks.measuring.errors import BenchmarkError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ROOTS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
_V1 = Path("/sys/fs/cgroup/memory")


class NoLimitError(BenchmarkError):
    """There can be no limit here; the text says why."""


@contextmanager
def memory_limit(pids: Iterable[int], limit_bytes: int) -> Iterator[None]:
    """Hold processes, which end before this does, to so much memory. Raises NoLimitError."""
    group, file = _make()
    try:
        try:
            (group / file).write_text(str(limit_bytes), encoding="ascii")
            for pid in pids:
                (group / "cgroup.procs").write_text(str(pid), encoding="ascii")
        except OSError as error:
            raise NoLimitError(f"the memory of a process cannot be limited: {error}") from error
        yield
    finally:
        try:
            _leave(group)
        finally:
            group.rmdir()


def _make() -> tuple[Path, str]:
    """Make a group, and say which file limits it. In v2 the group above must hand the limit on."""
    name, why = f"kafka2011-bench-{os.getpid()}", "there is no cgroup with a memory controller"
    for root, file in (*((root, "memory.max") for root in _ROOTS), (_V1, "memory.limit_in_bytes")):
        try:
            if file == "memory.max":
                if "memory" not in (root / "cgroup.controllers").read_text(encoding="ascii").split():
                    continue
                (root / "cgroup.subtree_control").write_text("+memory", encoding="ascii")
            elif not root.is_dir():
                continue
            (root / name).mkdir()
        except OSError as error:
            why = str(error)
            continue
        return root / name, file
    raise NoLimitError(f"the memory of a process cannot be limited, which takes root: {why}")


def _leave(group: Path) -> None:
    """Have whatever is left in a group go to the one above."""
    for pid in (group / "cgroup.procs").read_text(encoding="ascii").split():
        try:
            (group.parent / "cgroup.procs").write_text(pid, encoding="ascii")
        except ProcessLookupError:
            continue
