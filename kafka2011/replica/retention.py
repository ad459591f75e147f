"""Which segments a leader may delete, and its followers after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def most_deletable(segment_offsets: Sequence[int], readable: int) -> int:
    """Return how many segments, from the oldest on, retention may delete.

    All that is deleted must be readable, and so must the first message of the segment that is then the oldest: until
    then another replica may lead whose segment does not start there, and a log would begin in the midst of one.
    """
    return sum(1 for start in segment_offsets[1:] if start < readable)
