"""Nobody says that all is there when it is not, nor that what is late is lost; and defects are noticed."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.models.audit.origins import MissedGapError, Origins
from tests.models.audit.scenarios import SCENARIOS
from tests.models.audit.world import FalseCompleteError, FalseGapError, StuckError, World, walks
from tests.models.depth import by_depth
from tests.planted.patches import Defect, read_defects
from tests.planted.planting import planted

if TYPE_CHECKING:
    from collections.abc import Callable

WORLDS = {"one origin": World, "origins": Origins}
SEEDS = {"one origin": by_depth(40, 3000), "origins": by_depth(10, 2000)}
"""A walk has 500 steps at least, so a deep run has two million states."""
AT_A_TIME = 10
SOUGHT = by_depth(60, 6000)
"""Walks in which a defect is looked for, from one on that has met it."""


@pytest.mark.parametrize(
    ("name", "first"), [(name, first) for name in WORLDS for first in range(0, SEEDS[name], AT_A_TIME)]
)
def test_complete_is_complete(name: str, first: int) -> None:
    """Whatever dies or is late: tiers, reports, brokers, mirrors, clocks, and an origin that was never reached.

    Nor is there a gap where messages are merely late.
    """
    seed = os.environ.get("MODEL_SEED")
    seeds = range(first, first + AT_A_TIME) if seed is None else range(int(seed), int(seed) + 1)
    assert walks(seeds, world=WORLDS[name]) > 0


@pytest.mark.parametrize("defect", read_defects("audit").values(), ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect) -> None:
    """It makes the loader or the audit say what is not so."""
    seed, world = defect.shows.get("seed", 0), WORLDS[defect.shows.get("world", "one origin")]
    walk: Callable[[], object] = partial(walks, range(seed, seed + SOUGHT), mends=False, world=world)
    scenarios: list[Callable[[], object]] = [SCENARIOS[name] for name in defect.shows.get("scenarios", ())]
    for meet in scenarios or [walk]:
        with planted(defect), pytest.raises((FalseCompleteError, FalseGapError, MissedGapError, StuckError)):
            meet()


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_absent_event_is_missed(name: str) -> None:
    """And there is a defect with which it would not be."""
    SCENARIOS[name]()
    assert any(name in defect.shows.get("scenarios", ()) for defect in read_defects("audit").values())
