"""Lines with their positions, and ids made from them: a line that is read again gets the same id."""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class PlacedLine(bytes):
    """A line with the file, or spool, that it is in, and the offset there."""

    place: str
    was_counted: bool = False
    """Whether its event was made before: a line that is sent again counts once."""


def placed(lines: Iterable[bytes], starts: Iterable[int], origin: str) -> list[bytes]:
    """Return lines with the offsets in `origin` at which they start."""
    placed_lines: list[bytes] = []
    for line, start in zip(lines, starts, strict=True):
        placed_line = PlacedLine(line)
        placed_line.place = f"{origin}:{start}"
        placed_lines.append(placed_line)
    return placed_lines


def id_of(line: bytes, collector: str) -> str | None:
    """Return the id of a line's event: always the same for a line at one place, read by one collector.

    The line is part of it, since inodes are reused. None for a line without a place.
    """
    if not isinstance(line, PlacedLine):
        return None
    digest = hashlib.sha1(f"{collector}:{line.place}:".encode() + line, usedforsecurity=False).digest()
    return str(uuid.UUID(bytes=digest[:16], version=5))
