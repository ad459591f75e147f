"""kill -9 of a process that commits to Iceberg; before every step in proof/test_iceberg.py and test_warehouse.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.iceberg_kills import kill_and_check, steps_of

if TYPE_CHECKING:
    from pathlib import Path


def test_a_loader_that_is_killed_has_committed_all_or_nothing(tmp_path: Path) -> None:
    """Just before the catalogue's commit nothing, just after it all; what it left is removed."""
    steps = steps_of(tmp_path / "whole", "load")
    after = steps.index("after commit_table") + 1
    assert "commit" in steps[: after - 1]
    assert not kill_and_check(tmp_path / "before", "load", after - 1)
    assert kill_and_check(tmp_path / "after", "load", after)
