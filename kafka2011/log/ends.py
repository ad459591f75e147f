"""The ends of a log: how far it is appended, flushed and readable."""

from __future__ import annotations

from typing import NamedTuple


class End(NamedTuple):
    """An end of the log, with how many messages this process has appended up to there."""

    offset: int
    messages: int


class LogEnds:
    """All ends of one log, from where it ends when it is opened.

        start ──── readable ≤ flushed ≤ flushing ≤ appended

    `flushing` is what the newest flush covers, under way or done.
    """

    __slots__ = ("appended", "flushed", "flushing", "opened_at", "readable")

    def __init__(self, offset: int, readable: int) -> None:
        self.opened_at = offset
        """Where it was opened; `appended` counts bytes from here."""
        self.appended = self.flushed = self.flushing = End(offset, 0)
        self.readable = readable

    def go_back_to(self, offset: int) -> None:
        """Note that what lies from an offset on is cut off; the bytes that were appended go on being counted."""
        appended = self.appended
        self.opened_at -= appended.offset - offset
        self.appended = appended._replace(offset=offset)
        if self.flushed.offset >= offset:
            self.flushed = self.flushing = self.appended

    def move_to(self, offset: int) -> None:
        """Note that the log, which is empty, starts at an offset."""
        self.opened_at += offset - self.appended.offset
        self.appended = self.flushed = self.flushing = self.appended._replace(offset=offset)
        self.readable = offset
