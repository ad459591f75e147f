"""Replicas keep their promises in walks of every kind, and a defect in their rules is noticed."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import ExitStack

import pytest

from tests.models.depth import by_depth
from tests.models.replica.mutations import MUTATIONS, Mutation
from tests.models.replica.scenarios import SCENARIOS
from tests.models.replica.world import walk
from tests.support.mutation import mutated

WALKS = by_depth(400, 60_000)
AT_A_TIME = 100
MUST_HAPPEN = ("takeovers", "registrations", "expansions", "shrinks", "doubts", "confirmed", "cuts", "wiped disks")


@pytest.mark.parametrize("first", range(0, WALKS, AT_A_TIME))
def test_nothing_readable_changes_and_nothing_confirmed_is_lost(first: int) -> None:
    """Processes die, disks are wiped, power fails, messages are late, sessions end, answers of ZooKeeper are lost."""
    seed = os.environ.get("MODEL_SEED")
    seeds = range(first, first + AT_A_TIME) if seed is None else range(int(seed), int(seed) + 1)
    seen: Counter[str] = Counter()
    for each in seeds:
        seen += walk(each).counts
    assert seed is not None or all(seen[what] for what in MUST_HAPPEN), seen


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_breaks_no_promise(name: str) -> None:
    """Each is an order of events that walks hardly ever take."""
    assert SCENARIOS[name]().counts["confirmed"]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.defect)
def test_a_defect_is_noticed(mutation: Mutation) -> None:
    """A model that misses a known defect proves nothing."""
    with ExitStack() as changed:
        changed.enter_context(mutated(mutation.function, mutation.old, mutation.new))
        if mutation.also is not None:
            changed.enter_context(mutated(*mutation.also))
        with pytest.raises(AssertionError):
            _meet(mutation)


def _meet(mutation: Mutation) -> None:
    if isinstance(mutation.meets, str):
        SCENARIOS[mutation.meets]()
    else:
        walk(mutation.meets)
