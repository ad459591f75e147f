"""Runs with planted defects are made once each, and end with the first seed that notices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.chaos import planted_replicas
from integration.chaos.defects import LOSING, replica_defects
from integration.chaos.planted_replicas import find
from integration.chaos.replicas import Account

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_each_that_loses_something_can_be_planted() -> None:
    """And is listed once."""
    assert set(LOSING) <= replica_defects().keys()
    assert len(set(LOSING)) == len(LOSING)


def test_a_defect_is_tried_until_a_run_notices_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that breaks off notices nothing; what is known is not tried again."""
    made: list[int] = []

    def run(_directory: Path, _count: int, _seconds: float, seed: int, _kinds: object) -> Account:
        made.append(seed)
        if seed == 1:
            raise RuntimeError("no room")
        return Account(problems=["one is lost"] if seed == 3 else [])

    monkeypatch.setattr(planted_replicas, "run", run)
    said: list[str] = []
    for _ in range(2):
        found = find(LOSING[:1], (1, 2, 3, 4), 5.0, tmp_path, said.append)[LOSING[0]]
        assert found is not None
        assert (found.seed, found.problems) == (3, ["one is lost"])
    assert made == [1, 2, 3]
    assert [text.split(": ")[1].partition(",")[0] for text in said[:3]] == ["broke off", "nothing", "one is lost"]
