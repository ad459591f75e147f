"""Replicas of a broker under faults lose nothing that was confirmed, and the account of that would notice."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from integration.chaos.replicas import PLANTED, run

if TYPE_CHECKING:
    from pathlib import Path

RUN_S = 600.0
PLANTED_RUN_S = 120.0
MOST_RUNS = 5
DEFECTS = ("a barrier is answered when it arrives", "nothing is cut", "the readable end is the leader's own")

pytestmark = pytest.mark.timeout(2400)


@pytest.mark.parametrize("count", [2, 3])
def test_nothing_confirmed_is_lost(count: int, tmp_path: Path) -> None:
    """Ten minutes of killed, suspended and stopped replicas, and of disks that are lost one at a time."""
    seed = secrets.randbelow(10**6)
    account = run(tmp_path, count, RUN_S, seed)
    assert not account.problems, f"seed {seed}: {account.problems}"
    assert account.confirmed
    assert account.epochs > 1


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found(defect: str, tmp_path: Path) -> None:
    """Within ten minutes of runs."""
    program = (*PLANTED, defect)
    runs = (
        run(tmp_path / str(number), 2, PLANTED_RUN_S, secrets.randbelow(10**6), program=program)
        for number in range(MOST_RUNS)
    )
    assert any(account.problems for account in runs), f"{defect}: not found"
