"""A failing schedule is made smaller."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING

from integration.chaos.schedule import LONGEST_GAP_S, close_gaps, draw_schedule
from integration.chaos.shrink import shrink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from integration.chaos.schedule import Fault


def test_what_matters_is_left() -> None:
    """However many faults there are, those that make it fail remain, in order."""
    for seed in range(20):
        faults = draw_schedule(seed, 120)
        guilty = sorted(random.Random(seed).sample(faults, 3), key=lambda fault: fault.at_s)
        assert shrink(faults, lambda smaller, guilty=guilty: set(guilty) <= set(smaller), 1000) == guilty  # type: ignore[misc]


def test_the_number_of_tries_is_bounded() -> None:
    """It ends with the smallest that has failed so far."""
    faults = draw_schedule(1, 120)
    tried: list[Sequence[Fault]] = []

    def fails(smaller: Sequence[Fault]) -> bool:
        tried.append(smaller)
        return True

    assert shrink(faults, fails, 1) == tried[0]
    assert len(tried) == 1


def test_nothing_can_be_left_out() -> None:
    """A schedule that fails as a whole only stays whole, and is never tried without any fault."""
    faults = draw_schedule(1, 30)
    assert shrink(faults, lambda smaller: not smaller, 1000) == faults


def test_no_time_passes_without_a_fault() -> None:
    """What is left comes as soon after one another as faults are drawn, in order, and otherwise as it was."""
    faults = draw_schedule(1, 600)
    assert close_gaps(faults) == faults
    left = [faults[0], faults[1], faults[-2], faults[-1]]
    closed = close_gaps(left)
    assert [each.pick for each in closed] == [each.pick for each in left]
    gaps_s = [round(after.at_s - before.at_s, 2) for before, after in pairwise(closed)]
    drawn_s = [round(after.at_s - before.at_s, 2) for before, after in pairwise(left)]
    assert gaps_s == [drawn_s[0], LONGEST_GAP_S, drawn_s[2]]
