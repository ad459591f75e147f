"""Deletions: a broker keeps what its settings let it keep, whatever its clock says. Pure.

The usual settings delete nothing within a run. Only one that was told to keep next to nothing deletes, and no more than
it was told to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.chaos.evidence import Violation
from integration.chaos.schedule import SHORT_RETENTION_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.chaos.evidence import Deletion, Evidence

DELETED = "a broker deleted what its settings let it keep"


def find_wrong_deletions(evidence: Evidence) -> Iterator[Violation]:
    """Yield the segments that were deleted while nothing was to be, or that left less than was to be kept."""
    for deletion in evidence.deletions:
        if not _was_told(evidence, deletion) or deletion.left_bytes < SHORT_RETENTION_BYTES:
            yield Violation(DELETED, str(deletion))


def _was_told(evidence: Evidence, deletion: Deletion) -> bool:
    return any(
        each.fault.kind == "retention"
        and f"broker-{deletion.where.broker_id}" in each.whom
        and each.begun_s <= deletion.missed_s
        and deletion.seen_s <= each.ended_s
        for each in evidence.happened
    )
