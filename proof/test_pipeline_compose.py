"""The profile `pipeline` of docker-compose.yml: events reach tables and a page, and the audit says that all did."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import TYPE_CHECKING
from urllib.error import URLError

import pytest

from integration.compose.clusters import ComposeCluster, why_no_docker
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

BUILD_TIMEOUT_S = 1500.0
RUN_TIMEOUT_S = 900.0

pytestmark = pytest.mark.timeout(2 * (BUILD_TIMEOUT_S + RUN_TIMEOUT_S))


@pytest.fixture
def cluster() -> Iterator[ComposeCluster]:
    why_not = why_no_docker()
    if why_not:
        pytest.skip(why_not)
    cluster = ComposeCluster(1)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def test_events_reach_tables_and_a_page(cluster: ComposeCluster) -> None:
    """Without a gap in any closed window, and with figures on the page."""
    cluster.add_pipeline(BUILD_TIMEOUT_S)
    page = f"http://{cluster.host}:{cluster.reports_port}/report.html"

    def has_figures() -> bool:
        try:
            with urllib.request.urlopen(page, timeout=5) as answer:  # the first one may be made before there are any
                return re.search(r"<dt>page views</dt><dd>[1-9]", answer.read().decode()) is not None
        except (URLError, ConnectionError, TimeoutError):
            return False

    eventually(has_figures, RUN_TIMEOUT_S)
    audit = ["audit", "--zookeeper", "zookeeper-1:2181/offline", "--tiers", "producer,mirror,warehouse"]

    def is_closed() -> bool:
        try:
            totals = json.loads(cluster.run_in("mirror", [*audit, "--grace", "240", "--json"]))["totals"]
        except AssertionError:
            return False  # a busy machine may be behind for more than the grace; what stays missing meets the deadline
        return len({total["topic"] for total in totals if total["tier"] == "warehouse"}) == 5

    eventually(is_closed, RUN_TIMEOUT_S)
