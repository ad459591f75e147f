"""Makes a schedule smaller as long as it still fails. Pure: what failing means is the caller's to find out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from integration.chaos.schedule import Fault


def shrink(faults: Sequence[Fault], fails: Callable[[Sequence[Fault]], bool], most_tries: int) -> list[Fault]:
    """Leave out parts of a failing schedule, halves first and single faults in the end, while it still fails.

    A run does not repeat exactly, so a smaller schedule that did not fail once may have been able to.
    """
    smallest = list(faults)
    size = len(smallest) // 2
    tries = 0
    while size:
        start = 0
        while start < len(smallest):
            smaller = smallest[:start] + smallest[start + size :]
            if not smaller:
                break
            if tries == most_tries:
                return smallest
            tries += 1
            if fails(smaller):
                smallest = smaller
            else:
                start += size
        size //= 2
    return smallest
