"""One cluster for the tests in this directory, made by either Compose; and no silent skip of it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.compose import clusters
from integration.compose.clusters import ComposeCluster

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

COMPOSES = {"compose-1": 1, "compose-2": 2}


@cache
def why_no_docker() -> str | None:
    """Return why containers cannot be started here; None when they can."""
    return clusters.why_no_docker()


@cache
def why_not(compose: str) -> str | None:
    """Return why a Compose cannot be had here; None when it can."""
    if why_no_docker() is not None:
        return why_no_docker()
    try:
        clusters.find_compose(COMPOSES[compose])
    except LookupError as error:
        return str(error)
    return None


@pytest.fixture(scope="module", params=COMPOSES)
def cluster(request: pytest.FixtureRequest) -> Iterator[ComposeCluster]:
    """Start three brokers, by either Compose."""
    reason = why_not(request.param)
    if reason is not None:
        pytest.skip(reason)
    made = ComposeCluster(COMPOSES[request.param])
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where Docker answers, a skipped test of this directory is a failed one.

    Except those for one Compose of the two, when only that one is not to be had.
    """
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and why_no_docker() is None:
        missing = [name for name in COMPOSES if why_not(name) is not None]
        if len(missing) == 1 and f"[{missing[0]}]" in report.nodeid:
            return report
        report.outcome = "failed"
        report.longrepr = f"skipped, although Docker answers: {report.longrepr}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests of containers were skipped, and why."""
    here = f"{Path(__file__).parent.name}/"
    skipped = [report.nodeid for report in terminalreporter.getreports("skipped") if here in report.nodeid]
    for compose in COMPOSES:
        count = sum(f"[{compose}]" in name for name in skipped)
        if count:
            terminalreporter.write_line(f"{compose}: {count} tests skipped: {why_not(compose)}")
