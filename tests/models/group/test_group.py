"""The shipped parts of a group's members keep their promises in every order of events that was tried.

`referee` says what they promise at each step, and `rest` what holds once nothing more happens.
"""

from __future__ import annotations

import sys
from random import SystemRandom

import pytest

from tests.models.depth import IS_DEEP, by_depth
from tests.models.group.scenarios import SCENARIOS
from tests.models.group.search import Failure, search, shortened, wander
from tests.planted.patches import Defect, read_defects
from tests.planted.planting import planted

RUNS = 60
WALKS = by_depth(150, 10_000)
LONGEST_S = 20.0
DEFECTS = read_defects("group")


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_order_of_events_breaks_a_promise(name: str) -> None:
    """The orders nearest to the one without interruptions; in the deep search, those with two of them."""
    if IS_DEEP:
        found = search(SCENARIOS[name], switches=2, longest_s=LONGEST_S)
    else:
        found = search(SCENARIOS[name], switches=1, most_runs=RUNS)
    end = "all" if found.is_whole else "cut short"
    tried = f"{found.runs} runs, {len(found.positions)} states, {found.rests} at rest, {end}"
    sys.stdout.write(f"\n{name}: {tried}\n")
    assert found.rests


def test_no_random_order_of_random_events_breaks_a_promise() -> None:
    """Up to three members of 0.7, of ours and of today, three partitions, two brokers, three servers, and any fault."""
    first = SystemRandom().randrange(2**32) if IS_DEEP else 0
    sys.stdout.write(f"\nrandom walks from seed {first}\n")
    steps = sum(wander(first + number).steps for number in range(WALKS))
    sys.stdout.write(f"{WALKS} walks of {steps} steps\n")
    assert steps > WALKS


@pytest.mark.parametrize("defect", DEFECTS.values(), ids=lambda defect: defect.name)
def test_the_model_notices(defect: Defect) -> None:
    """A model that misses a known defect proves nothing."""
    with planted(defect), pytest.raises(Failure):
        search(SCENARIOS[defect.shows["scenario"]], switches=1, most_runs=RUNS)


def test_a_failure_is_told_with_few_events() -> None:
    """Those of a walk without which it would not fail are left out."""
    scenario = SCENARIOS["a member joins one of 0.7"]
    with planted(DEFECTS["new owners do not fence"]):
        order = shortened(scenario, [("read", "b"), ("join", "a"), ("try", "a"), ("commit", "b")])
    assert order == [("join", "a")]
