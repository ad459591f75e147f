"""The model notices the defects that a log might have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.models.log.disk import NAMES_AND_SIZES, NOTHING, SIZES, SOME_SECTORS
from tests.models.log.explorer import KILL, Explorer, ViolationError, torn_survivals
from tests.models.log.scenarios import SCENARIOS
from tests.planted.patches import Defect, read_defects
from tests.planted.planting import planted

if TYPE_CHECKING:
    from pathlib import Path

DEFECTS = read_defects("log").values()
BY_CRASHES = [defect for defect in DEFECTS if "fails" not in defect.shows]
BY_FAULTS = [defect for defect in DEFECTS if "fails" in defect.shows]


@pytest.mark.parametrize("defect", BY_CRASHES, ids=lambda defect: defect.name)
def test_crashes_show_it(defect: Defect, tmp_path: Path) -> None:
    scenario = defect.shows["scenario"]
    # Of a deletion that goes on, some names have to survive and others not.
    inner = (NOTHING, *torn_survivals(3 if scenario == "delete" else 0))
    explorer = Explorer(tmp_path, endings=(KILL, NOTHING, NAMES_AND_SIZES, SIZES), inner_endings=inner)
    with planted(defect), pytest.raises(ViolationError):
        explorer.crash_everywhere(SCENARIOS[scenario])


@pytest.mark.parametrize("defect", BY_FAULTS, ids=lambda defect: defect.name)
def test_calls_that_fail_show_it(defect: Defect, tmp_path: Path) -> None:
    explorer = Explorer(tmp_path, endings=(KILL, NOTHING, SOME_SECTORS, *torn_survivals(1)))
    with planted(defect), pytest.raises(ViolationError):
        explorer.fail_everywhere(SCENARIOS[defect.shows["scenario"]], only={defect.shows["fails"]}, twice=False)
