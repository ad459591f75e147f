"""A busy machine: processes that compute without end, so that many are runnable at any moment."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNNABLE = 20
"""As many as a load of 20; the load average itself lags by minutes."""

_COMPUTE = "import resource\nresource.setrlimit(resource.RLIMIT_CPU, ({0}, {0}))\nprint(flush=True)\nwhile True: pass"


@contextmanager
def busy(for_s: int, processes: int = RUNNABLE) -> Iterator[None]:
    """Keep the machine busy in this block, and no longer than a process may use in so many seconds of its own CPU."""
    burners: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(processes):
            compute = [sys.executable, "-S", "-c", _COMPUTE.format(for_s)]
            burners.append(subprocess.Popen(compute, stdout=subprocess.PIPE))
        for burner in burners:
            assert burner.stdout is not None
            assert burner.stdout.readline() == b"\n", "a burner did not start"
        yield
        assert all(burner.poll() is None for burner in burners), "the machine did not stay busy"
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
            if burner.stdout is not None:
                burner.stdout.close()
