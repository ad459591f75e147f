"""The model notices the defects that it is for."""

from __future__ import annotations

import pytest

from tests.models.depth import by_depth
from tests.models.producer.mutations import MUTATIONS, Mutation
from tests.models.producer.simulation import FailedRunError, simulate_all
from tests.support.mutation import mutated

MOST_SEEDS = by_depth(1000, 10_000)
SOUGHT = [mutation for mutation in MUTATIONS if by_depth(not mutation.is_rare, True)]


@pytest.mark.parametrize("mutation", SOUGHT, ids=lambda mutation: mutation.defect)
def test_a_defect_is_noticed(mutation: Mutation) -> None:
    """By one of the first schedules."""
    with mutated(mutation.function, mutation.old, mutation.new), pytest.raises(FailedRunError):
        simulate_all(range(MOST_SEEDS))
