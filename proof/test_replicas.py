"""Replicas of a broker under faults lose nothing that was confirmed, and the account of that would notice."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from integration.chaos.broker import clear
from integration.chaos.defects import announced
from integration.chaos.replica_faults import GATEWAY_WEIGHTS, WEIGHTS
from integration.chaos.replicas import run
from integration.chaos.schedule import GATEWAYS
from proof.answer_codes.clients import jars_of_java

if TYPE_CHECKING:
    from pathlib import Path

RUN_S = 600.0
PLANTED_RUN_S = 60.0
MOST_RUNS = 8
DEFECTS = {
    "a barrier is answered when it arrives": (2, ("outrun",)),
    "the readable end is the leader's own": (2, ("outrun",)),
    "who is not in sync takes the lead": (2, ("left behind",)),
    "a name is enough to lead": (2, ("wiped alone",)),
    "the readable end goes without one follower": (3, ("outrun",)),
    "a disk with less than the floor leads": (3, ("put back alone",)),
    "a disk that has not seen a settled epoch leads": (3, ("led before",)),
}
"""With how many replicas each is looked for, and with which kinds of faults, if not with all."""

pytestmark = pytest.mark.timeout(2400)


@pytest.mark.parametrize(("count", "gateways"), [(2, 0), (3, GATEWAYS)])
def test_nothing_confirmed_is_lost(count: int, gateways: int, tmp_path: Path) -> None:
    """Ten minutes of killed, suspended and slow replicas, of links that fail, power cuts, and disks that are lost.

    Two Java clients work through the gateways, where there is Java.
    """
    seed = secrets.randbelow(10**6)
    try:
        jars = jars_of_java() if gateways else None
        account = run(tmp_path, count, RUN_S, seed, GATEWAY_WEIGHTS if gateways else WEIGHTS, gateways, jars)
    finally:
        clear(tmp_path)
    assert not account.problems, f"seed {seed}: {account.problems}"
    assert account.confirmed
    assert account.answers
    assert bool(account.acknowledged) == bool(gateways)
    assert bool(account.read_by_java) == bool(jars)
    assert account.epochs > 1


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found(defect: str, tmp_path: Path) -> None:
    """Within ten minutes of runs, by any rule of the account."""
    count, kinds = DEFECTS[defect]
    with announced(defect):
        for _ in range(MOST_RUNS):
            seed = secrets.randbelow(10**6)
            account = run(tmp_path, count, PLANTED_RUN_S, seed, {kind: WEIGHTS[kind] for kind in kinds or WEIGHTS})
            clear(tmp_path)
            if account.problems:
                return
    pytest.fail(f"{defect}: not found")
