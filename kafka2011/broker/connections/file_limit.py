"""How many files the process may hold open, and how many of them connections and logs may take."""

from __future__ import annotations

import resource

from kafka2011.log.log_limit import LogLimit

MAX_CONNECTIONS = 65_536
"""The bound where the limit on open files is higher, or absent."""
MIN_RESERVED, MAX_RESERVED, RESERVED_SHARE = 16, 128, 8
"""An eighth of all file descriptors is in reserve, but not fewer, and not more, than these."""


def max_connections() -> int:
    """Leave half of all file descriptors to the logs, and to what else the process needs."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, max(16, soft // 2))


def log_limit(connections: int) -> LogLimit | None:
    """Return how many logs there may be beside that number of connections; None where files have no limit.

    Some descriptors stay in reserve: for ZooKeeper, for other replicas, and for files that are open for a moment, such
    as a new segment, or one that somebody reads.
    """
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return None
    reserved = max(MIN_RESERVED, min(MAX_RESERVED, soft // RESERVED_SHARE))
    return LogLimit(
        max(0, soft - connections - reserved),
        f"the process may hold {soft} files open, of which {connections} are for connections and {reserved} in reserve."
        " Raise the limit on open files (ulimit -n), or lower max.connections",
    )


def raise_file_limit() -> None:
    """Raise the limit on open files as far as this process is allowed to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
