"""The model notices the defects that a log might have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.models.log.disk import NAMES_AND_SIZES, NOTHING, SIZES, SOME_SECTORS
from tests.models.log.explorer import KILL, Explorer, ViolationError, torn_survivals
from tests.models.log.mutations import BY_CRASHES, BY_FAULTS
from tests.models.log.scenarios import SCENARIOS
from tests.support.mutation import mutated

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", BY_CRASHES)
def test_crashes_show_it(name: str, tmp_path: Path) -> None:
    scenario, function, old, new, _call = BY_CRASHES[name]
    # Of a deletion that goes on, some names have to survive and others not.
    inner = (NOTHING, *torn_survivals(3 if scenario == "delete" else 0))
    explorer = Explorer(tmp_path, endings=(KILL, NOTHING, NAMES_AND_SIZES, SIZES), inner_endings=inner)
    with mutated(function, old, new), pytest.raises(ViolationError):
        explorer.crash_everywhere(SCENARIOS[scenario])


@pytest.mark.parametrize("name", BY_FAULTS)
def test_calls_that_fail_show_it(name: str, tmp_path: Path) -> None:
    scenario, function, old, new, call = BY_FAULTS[name]
    explorer = Explorer(tmp_path, endings=(KILL, NOTHING, SOME_SECTORS, *torn_survivals(1)))
    with mutated(function, old, new), pytest.raises(ViolationError):
        explorer.fail_everywhere(SCENARIOS[scenario], only={call}, twice=False)
