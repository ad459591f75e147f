"""The blocks of pages that need Spark, typed as they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration.blocks.plans import PROOF_PLANS, Plan
from integration.blocks.typist import type_page
from zk import LocalZooKeeper

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TIMEOUT_S = 600.0

pytestmark = pytest.mark.timeout(4 * TIMEOUT_S)


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[LocalZooKeeper]:
    with LocalZooKeeper() as running:
        yield running


@pytest.mark.parametrize("plan", PROOF_PLANS, ids=lambda plan: plan.page)
def test_a_page_as_it_stands(plan: Plan, zookeeper: LocalZooKeeper, tmp_path: Path) -> None:
    """Each block of the page that needs a Spark session is run in one, and prints what the page says."""
    type_page(plan, zookeeper, tmp_path, TIMEOUT_S)
