"""kill -9 before every step of a compaction in Iceberg: all or nothing is there, each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.iceberg_kills import kill_and_check, steps_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.timeout(1800)
def test_a_process_killed_before_any_step_has_committed_all_or_nothing(tmp_path: Path) -> None:
    """Its files are removed once they are old, and the next loader goes on. Of loads see test_warehouse.py."""
    steps = steps_of(tmp_path / "whole", "compact")
    committed = [kill_and_check(tmp_path / str(step), "compact", step) for step in range(1, len(steps) + 1)]
    assert committed == sorted(committed), steps
    assert {False, True} == set(committed), steps
    print(f"killed before {len(steps)} calls, {committed.count(True)} of them after the commit: {steps}")  # noqa: T201
