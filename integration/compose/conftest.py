"""One cluster for the tests in this directory, with two back ends; and no silent skip of the one with containers."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from integration.compose.clusters import Cluster, ComposeCluster, ProcessCluster

sys.path.insert(0, str(Path(__file__).parent))  # for `clusters`

BACK_ENDS = ("processes", "compose")


@cache
def why_no_docker() -> str | None:
    """Return why containers cannot be started here; None when they can."""
    reason: str | None = import_module("clusters").why_no_docker()
    return reason


@pytest.fixture(scope="module", params=BACK_ENDS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start three brokers, of processes and then of containers."""
    clusters = import_module("clusters")
    made: ComposeCluster | ProcessCluster
    if request.param == "processes":
        made = clusters.ProcessCluster(tmp_path_factory.mktemp("cluster"))
    else:
        reason = why_no_docker()
        if reason is not None:
            pytest.skip(reason)
        made = clusters.ComposeCluster()
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where Docker answers, a skipped test of this directory is a failed one."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and why_no_docker() is None:
        report.outcome = "failed"
        report.longrepr = f"skipped, although Docker answers: {report.longrepr}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests of containers were skipped, and why."""
    here = f"{Path(__file__).parent.name}/"
    skipped = [report for report in terminalreporter.getreports("skipped") if here in report.nodeid]
    if skipped:
        terminalreporter.write_line(f"compose: {len(skipped)} tests skipped: {why_no_docker()}")
