"""What files the test process holds open."""

from __future__ import annotations

import os
import resource
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def count_open_files() -> int:
    """Count them, as the kernel sees them."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@contextmanager
def no_more_files(but: int = 0) -> Iterator[None]:
    """Let the process open no further file, but for so many."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.open("/dev/null", os.O_RDONLY)
    os.close(probe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe + but, limits[1]))  # probe was the lowest free number
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
