"""Memory, threads and file descriptors: at the end as at the start, in every process that lived for a while. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from integration.chaos.evidence import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.chaos.evidence import Evidence, Sample

GROWN = "a process needs more in the end than at its start"
FIRST_S = 20.0
"""By then a process has made its threads and connections."""
SHORTEST_LIFE_S = 40.0
MORE_THREADS = 6
MORE_FILES = 40
MORE_MEMORY_BYTES = 60_000_000


def find_growth(evidence: Evidence) -> Iterator[Violation]:
    """Yield processes of ours that have grown between their first seconds and the last sample, when all was healed."""
    for (name, pid), samples in _by_process(evidence).items():
        last = samples[-1]
        if last.stamp_s < evidence.healed_s or last.stamp_s - samples[0].stamp_s < SHORTEST_LIFE_S:
            continue
        first = [each for each in samples if each.stamp_s - samples[0].stamp_s <= FIRST_S]
        for what, limit in (("threads", MORE_THREADS), ("files", MORE_FILES), ("memory_bytes", MORE_MEMORY_BYTES)):
            before, after = max(getattr(each, what) for each in first), getattr(last, what)
            if after > before + limit:
                yield Violation(GROWN, f"{name} (process {pid}): {what} from {before} to {after}")


def most_growth(evidence: Evidence) -> dict[str, int]:
    """Return by how much the process grew that grew the most, in threads, files and memory."""
    found: dict[str, int] = {"threads": 0, "files": 0, "memory_bytes": 0}
    for samples in _by_process(evidence).values():
        last = samples[-1]
        if last.stamp_s >= evidence.healed_s and last.stamp_s - samples[0].stamp_s >= SHORTEST_LIFE_S:
            first = [each for each in samples if each.stamp_s - samples[0].stamp_s <= FIRST_S]
            for what, most in found.items():
                grown = getattr(last, what) - max(getattr(each, what) for each in first)
                found[what] = max(most, grown)
    return found


def _by_process(evidence: Evidence) -> dict[tuple[str, int], list[Sample]]:
    found: dict[tuple[str, int], list[Sample]] = defaultdict(list)
    for sample in evidence.samples:
        if sample.name.startswith("zookeeper-"):
            continue  # not ours, and one that leads needs more
        found[sample.name, sample.pid].append(sample)
    return found
