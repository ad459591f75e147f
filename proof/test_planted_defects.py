"""Chaos names each planted defect within ten minutes of runs; what is known is kept in build/chaos/planted."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.chaos.defects import PLANTINGS
from integration.chaos.planted import DIRECTORY, MOST_S, find

ROOT = Path(__file__).parent.parent

pytestmark = [
    pytest.mark.timeout(4 * MOST_S),
    # asyncio does not close what a server has accepted, but not yet made a stream of, when the server is closed.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.parametrize("defect", [name for name, planting in PLANTINGS.items() if not planting.is_rare])
def test_each_is_named(defect: str) -> None:
    """By a rule of the account that is about it."""
    directory = ROOT / DIRECTORY
    directory.mkdir(parents=True, exist_ok=True)
    outcome = find(defect, directory, lambda _: None)
    assert outcome.rule, outcome.text
