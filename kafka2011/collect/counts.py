"""Counts of what was sent, and of what a collector has done."""

from __future__ import annotations

from dataclasses import dataclass

from kafka2011.counters import Counters

JUDGED_LINES = 20
"""From how many lines on it is judged how many of them could not be parsed."""


@dataclass(slots=True)
class DeliveryCounts(Counters):
    """Lines sent, confirmed, sent again, and refused by a broker."""

    lines_sent: int = 0
    lines_confirmed: int = 0
    lines_resent: int = 0
    lines_refused: int = 0


@dataclass(slots=True)
class CollectCounts(DeliveryCounts):
    """Counts what a collector has collected, lost and refused.

    `bytes_lost` is what is known to be lost through a truncation or a deleted file. `bytes_maybe_repeated` is what was
    sent before the last run ended and is not known to be confirmed. `lines_unparsed` were published with a
    `parse_error`, because they are not as the format of the access log says.
    """

    lines_too_long: int = 0
    lines_without_end: int = 0
    nul_bytes_skipped: int = 0
    lines_unparsed: int = 0
    lines_dropped: int = 0
    rotations: int = 0
    truncations: int = 0
    losses: int = 0
    bytes_lost: int = 0
    bytes_maybe_repeated: int = 0
    files_refused: int = 0
    failed_reads: int = 0
    failed_saves: int = 0

    @property
    def all_is_well(self) -> bool:
        """Return whether nothing was lost, refused or unreadable."""
        return not (self.lines_refused or self.lines_dropped or self.losses or self.files_refused or self.failed_reads)

    def too_many_unparsed(self, most: float) -> bool:
        """Return whether more than the share `most` of the lines could not be parsed; a few lines show nothing."""
        return self.lines_sent >= JUDGED_LINES and self.lines_unparsed > most * self.lines_sent
