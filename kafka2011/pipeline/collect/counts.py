"""What a collector has done so far, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class CollectCounts:
    """Numbers that only grow; each has one thread that adds to it.

    `bytes_lost` is what is known to be lost, with a truncation or a file that is gone. `bytes_maybe_repeated` is what
    was sent before the last end, and not known to be confirmed.
    """

    lines_sent: int = 0
    lines_confirmed: int = 0
    lines_resent: int = 0
    lines_too_long: int = 0
    lines_without_end: int = 0
    lines_refused: int = 0
    lines_dropped: int = 0
    rotations: int = 0
    truncations: int = 0
    losses: int = 0
    bytes_lost: int = 0
    bytes_maybe_repeated: int = 0
    files_refused: int = 0
    failed_reads: int = 0
    failed_saves: int = 0

    def __call__(self) -> dict[str, int]:
        """Return all numbers by name, as clients' `counts()` do."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @property
    def all_is_well(self) -> bool:
        """Whether nothing was lost, refused or unreadable."""
        return not (self.lines_refused or self.lines_dropped or self.losses or self.files_refused or self.failed_reads)
