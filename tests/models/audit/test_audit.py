"""A loader never says that it has everything when it has not, and says so when it has; and defects are noticed."""

from __future__ import annotations

import os

import pytest

from tests.models.audit.world import FalseCompleteError, walks
from tests.models.depth import by_depth
from tests.planted.patches import Defect, read_defects
from tests.planted.planting import planted

SEEDS = by_depth(40, 3000)
AT_A_TIME = 10
SOUGHT = by_depth(60, 6000)
"""Walks in which a defect is looked for, from one on that has met it."""


@pytest.mark.parametrize("first", range(0, SEEDS, AT_A_TIME))
def test_complete_is_complete(first: int) -> None:
    """Whatever dies or is late: tiers, reports, brokers, mirrors, and clocks, which differ by less than the margin."""
    seed = os.environ.get("MODEL_SEED")
    seeds = range(first, first + AT_A_TIME) if seed is None else range(int(seed), int(seed) + 1)
    assert walks(seeds) > 0


@pytest.mark.parametrize("defect", read_defects("audit").values(), ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect) -> None:
    """It makes the loader say what is not so."""
    seed = defect.shows.get("seed", 0)
    with planted(defect), pytest.raises(FalseCompleteError):
        walks(range(seed, seed + SOUGHT), mends=False)
