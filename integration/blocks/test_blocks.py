"""Pages are typed as they stand, each on a cluster of its own, and print what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration.blocks.plans import PLANS, Plan
from integration.blocks.typist import TIMEOUT_S, type_page
from zk import LocalZooKeeper

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(4 * TIMEOUT_S)


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[LocalZooKeeper]:
    with LocalZooKeeper() as running:
        yield running


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.page)
def test_a_page_as_it_stands(plan: Plan, zookeeper: LocalZooKeeper, tmp_path: Path) -> None:
    """Each block of the page that can be run is run, in order, and prints what the page or its plan says."""
    type_page(plan, zookeeper, tmp_path)
