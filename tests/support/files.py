"""What files the test process holds open."""

from __future__ import annotations

from pathlib import Path


def count_open_files() -> int:
    """Count them, as the kernel sees them."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
