"""The model notices the defects that it is for."""

from __future__ import annotations

import pytest

from tests.models.depth import by_depth
from tests.models.producer.simulation import FailedRunError, simulate_all
from tests.planted.patches import Defect, read_defects
from tests.planted.planting import planted

MOST_SEEDS = by_depth(1000, 10_000)
SOUGHT = [defect for defect in read_defects("producer").values() if by_depth("is_rare" not in defect.shows, True)]


@pytest.mark.parametrize("defect", SOUGHT, ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect) -> None:
    """By one of the first schedules."""
    with planted(defect), pytest.raises(FailedRunError):
        simulate_all(range(MOST_SEEDS))
