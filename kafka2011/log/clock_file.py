"""The file `clock` in a log.dir: what the clocks said when the broker looked last, so that a later start can compare.

The file's own time is that of its text. Where the two differ, log.dir was copied without the times of its files.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.disk import is_replaced_file
from kafka2011.errors import LogError
from kafka2011.log.clock_trust import NotedClock, WrongPeriod

if TYPE_CHECKING:
    from pathlib import Path

    from kafka2011.disk import Disk

FILE_NAME = "clock"
_COPY_MS = 60_000
"""More than a file system rounds a time by."""


def is_clock_file(name: str) -> bool:
    """Say whether a file in log.dir is this one, or was to be."""
    return is_replaced_file(name, FILE_NAME)


class ClockNotes(NamedTuple):
    """What the file says. `copied_ms` is when log.dir was last copied without the times of its files; 0 for never."""

    clock: NotedClock
    periods: tuple[WrongPeriod, ...] = ()
    copied_ms: float = 0

    @property
    def text(self) -> str:
        """What stands in the file."""
        document = {
            "wall_ms": int(self.clock.wall_ms),
            "steady_ms": int(self.clock.steady_ms),
            "boot": self.clock.boot,
            "wrong": [[int(time_ms) for time_ms in period] for period in self.periods],
            "copied_ms": int(self.copied_ms),
        }
        return json.dumps(document) + "\n"

    @classmethod
    def of(cls, text: bytes) -> ClockNotes:
        """Read a file's text. Raises ValueError."""
        try:
            document: dict[str, Any] = json.loads(text)
            clock = NotedClock(document["wall_ms"], document["steady_ms"], document["boot"])
            periods = tuple(WrongPeriod(*times) for times in document["wrong"])
            copied_ms = document["copied_ms"]
        except (RecursionError, TypeError, KeyError) as error:
            raise ValueError(f"no notes of a clock: {error}") from error
        numbers = [clock.wall_ms, clock.steady_ms, copied_ms, *(time_ms for period in periods for time_ms in period)]
        if not all(type(number) is int for number in numbers) or not isinstance(clock.boot, str):
            raise ValueError("no notes of a clock: times are whole numbers")
        return cls(clock, periods, copied_ms)


def load_clock_notes(log_dir: Path) -> ClockNotes | None:
    """Return what the file in a log.dir says; None without one. Raises LogError if it is damaged, and OSError."""
    path = log_dir / FILE_NAME
    try:
        with path.open("rb") as file:
            text, modified_ms = file.read(), os.fstat(file.fileno()).st_mtime * 1000
    except FileNotFoundError:
        return None
    try:
        notes = ClockNotes.of(text)
    except ValueError as error:
        raise LogError(f"{path}: {error}") from error
    if abs(modified_ms - notes.clock.wall_ms) > _COPY_MS:
        return notes._replace(copied_ms=modified_ms)
    return notes


def store_clock_notes(log_dir: Path, notes: ClockNotes, disk: Disk) -> None:
    """Replace the file in a log.dir, on disk. Lets OSError through."""
    with disk.replacing(log_dir / FILE_NAME) as file:
        disk.write_all(file.fileno(), notes.text.encode())
        wall_ns = int(notes.clock.wall_ms) * 1_000_000
        os.utime(file.fileno(), ns=(wall_ns, wall_ns))
