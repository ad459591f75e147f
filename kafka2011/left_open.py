"""Closes at the interpreter's exit what a program has left open, so that nothing is lost in silence.

A ResourceWarning then names the line that had opened it; Python shows those with `-W default` or `-X dev`. A program
that a signal kills, or that ends by `os._exit`, has no exit of this kind.
"""

from __future__ import annotations

import atexit
import logging
import sys
import warnings
from typing import TYPE_CHECKING, NamedTuple, Protocol

from zk import forks

if TYPE_CHECKING:
    from types import FrameType

logger = logging.getLogger(__name__)

_OURS = frozenset({"kafka2011", "zk", "pyspark_kafka2011"})


class LeftOpen(Protocol):
    """What must be closed before the program ends."""

    def close_at_exit(self) -> None:
        """Send or commit what is left, in bounded time; log what could not be. May raise."""


class _Opened(NamedTuple):
    one: LeftOpen
    file: str
    line: int


_OPENED: dict[int, _Opened] = {}


def note_opened(one: LeftOpen) -> None:
    """Have something closed at the exit, unless `note_closed` comes first. Who calls this package has opened it.

    What a thread of this package has opened is that thread's to close.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _package_of(frame) in _OURS:
        frame = frame.f_back
    if frame is not None and _package_of(frame) != "threading":
        _OPENED[id(one)] = _Opened(one, frame.f_code.co_filename, frame.f_lineno)


def note_closed(one: LeftOpen) -> None:
    """Leave something alone at the exit: it was closed."""
    _OPENED.pop(id(one), None)


def _close_all() -> None:
    """Close what is open, the newest first: it may use what is older."""
    while _OPENED:
        _, (one, file, line) = _OPENED.popitem()
        try:
            warnings.warn_explicit(f"{one!r} was not closed before the program ended", ResourceWarning, file, line)
        except ResourceWarning as warning:  # where warnings are errors
            logger.error("%s:%d: %s", file, line, warning)  # noqa: TRY400 (its traceback is of here)
        try:
            one.close_at_exit()
        except Exception:
            logger.exception("closing %r, opened at %s:%d, failed at the exit", one, file, line)


def _package_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


class _InChildren:
    """In a forked child nothing is open: what the parent has is the parent's to close."""

    def forget_after_fork(self) -> None:
        _OPENED.clear()


_in_children = _InChildren()
forks.register(_in_children)
atexit.register(_close_all)
