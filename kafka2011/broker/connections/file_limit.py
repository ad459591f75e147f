"""How many files the process may hold open, and how many of them connections may be."""

from __future__ import annotations

import resource

MAX_CONNECTIONS = 65_536
"""The bound where the limit on open files is higher, or absent."""


def max_connections() -> int:
    """Leave half of all file descriptors to the logs."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, max(16, soft // 2))


def raise_file_limit() -> None:
    """Raise the limit on open files as far as this process is allowed to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
