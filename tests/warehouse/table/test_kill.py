"""kill -9 of a process that commits to Delta; before every step in proof/test_delta.py and test_warehouse.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.table_kills import kill_and_check, steps_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("what", ["load", "compact"])
def test_a_process_that_is_killed_has_committed_all_or_nothing(tmp_path: Path, what: str) -> None:
    """Just before the entry has its name nothing, just after it all; what it left is removed."""
    steps = steps_of(tmp_path / "whole", what)
    [named] = [number for number, step in enumerate(steps, 1) if step == "linkat 00000000000000000009.json"]
    assert any("checkpoint.parquet" in step for step in steps[named:])
    assert not kill_and_check(tmp_path / "before", what, named)
    assert kill_and_check(tmp_path / "after", what, named + 1)
