"""A gateway keeps its promises in walks of every kind."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.models.depth import by_depth
from tests.models.gateway.walk import walk

WALKS = by_depth(200, 6000)
AT_A_TIME = by_depth(100, 300)
MUST_HAPPEN = ("killed", "killed in a restart", "failed", "jumps", "reconnects", "repeat", "out of order", "rot")


@pytest.mark.parametrize("first", range(0, WALKS, AT_A_TIME))
def test_an_offset_never_names_two_messages(first: int) -> None:
    """Processes die at any step, files are lost, ZooKeeper and disks are put back, bytes are damaged and repaired."""
    seed = os.environ.get("MODEL_SEED")
    seeds = range(first, first + AT_A_TIME) if seed is None else range(int(seed), int(seed) + 1)
    seen: Counter[str] = Counter()
    for each in seeds:
        seen += walk(each).counts
    assert seed is not None or all(seen[what] for what in MUST_HAPPEN), seen
