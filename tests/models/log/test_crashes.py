"""Crashes at every change to the disk and calls that fail, one by one, in short scenarios.

What was flushed is there byte for byte afterwards, nothing but whole messages is, offsets have not changed, and a
second recovery changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.models.depth import by_depth
from tests.models.log.disk import NOTHING, SIZES
from tests.models.log.explorer import ENDINGS, KILL, Explorer, torn_survivals
from tests.models.log.scenarios import SCENARIOS

if TYPE_CHECKING:
    from pathlib import Path


def tell(name: str, explorer: Explorer) -> None:
    counts = ", ".join(f"{count} {what}" for what, count in explorer.counts.items())
    print(f"\n{name}: {counts}")  # noqa: T201 (how far a deep run went)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_crash_at_any_moment_loses_nothing_that_was_flushed(name: str, tmp_path: Path) -> None:
    """Nor does one during recovery, and what recovery cut is kept."""
    explorer = Explorer(
        tmp_path,
        endings=(*ENDINGS, *torn_survivals(by_depth(1, 30))),
        inner_endings=by_depth((NOTHING, *torn_survivals(name == "delete")), (*ENDINGS, *torn_survivals(5))),
    )
    explorer.crash_everywhere(SCENARIOS[name])
    tell(name, explorer)


@pytest.mark.parametrize("name", SCENARIOS)
def test_any_call_that_fails_is_survived_or_refused(name: str, tmp_path: Path) -> None:
    """A full disk, no more files, an I/O error, once or lasting, or a greenlet that is killed; then a crash."""
    explorer = Explorer(
        tmp_path,
        endings=by_depth((KILL, NOTHING, *torn_survivals(1)), (*ENDINGS, *torn_survivals(4))),
        inner_endings=by_depth((), (KILL, NOTHING)),
    )
    explorer.fail_everywhere(SCENARIOS[name], step=by_depth(5, 1), twice=by_depth(False, True))
    tell(name, explorer)


def test_the_search_finds_the_moments_that_matter(tmp_path: Path) -> None:
    """There are crash points, they leave different states, and recoveries have moments of their own."""
    explorer = Explorer(tmp_path, endings=(KILL, NOTHING, SIZES), inner_endings=(NOTHING,))
    explorer.crash_everywhere(SCENARIOS["roll"])
    assert explorer.counts["crash points"] > 20
    assert explorer.counts["recoveries"] > 100
    assert explorer.counts["crash points in recoveries"] > 100
