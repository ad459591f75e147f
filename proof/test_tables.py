"""kill -9 before every step of a load, and of a compaction: all or nothing is there, each time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.dying import telling
from tests.support.table_kills import kill_and_check, steps_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("what", ["load", "compact"])
def test_a_process_killed_before_any_step_has_committed_all_or_nothing(tmp_path: Path, what: str) -> None:
    """Its files are removed once they are old, and the next loader goes on. Of loads see test_warehouse.py too."""
    steps = steps_of(tmp_path / "whole", what)
    numbers = telling(steps)
    committed = [kill_and_check(tmp_path / str(number), what, number) for number in numbers]
    names = [steps[number - 1] for number in numbers]
    assert committed == sorted(committed), names
    assert {False, True} == set(committed), names
    print(f"killed before {len(names)} steps, {committed.count(True)} of them after the commit: {names}")  # noqa: T201
