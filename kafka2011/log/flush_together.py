"""Flushes many logs by few calls, and waits for the disk once for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.log.log import LogFailedError
from zk.errors import raise_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.disk import Disk
    from kafka2011.errors import LogError
    from kafka2011.log.log import BegunFlush, Log

FLUSHED_TOGETHER = 1000
"""How many logs: each is held up by all of them."""


def flush_together(logs: Sequence[Log], disk: Disk) -> None:
    """Flush logs, and all of them even if one fails. Raises the first LogFailedError."""
    parts = range(0, len(logs), FLUSHED_TOGETHER)
    raise_first([failure for at in parts for failure in _flush(logs[at : at + FLUSHED_TOGETHER], disk)])


def _flush(logs: Sequence[Log], disk: Disk) -> list[LogError | None]:
    begun: list[BegunFlush] = []
    left: list[Log] = []
    failures: list[LogError | None] = []
    try:
        for log in logs:
            try:
                flush = log.begin_flush()
            except LogFailedError as failure:
                failures.append(failure)
                continue
            if flush is not None:
                begun.append(flush)
            elif log.is_flush_requested:
                left.append(log)
        disk.fsync_all(begun)
    except BaseException as error:
        for flush in begun:
            flush.end(error)
        raise
    failures += [flush.failure for flush in begun]
    for log in left:
        try:
            log.flush()
        except LogFailedError as failure:
            failures.append(failure)
    return failures
