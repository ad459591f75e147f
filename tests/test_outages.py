"""What the log says of something that fails again and again."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafka2011.outages import Outages, RepeatLimit
from tests.support.clocks import ManualClock

if TYPE_CHECKING:
    import pytest

logger = logging.getLogger(__name__)


def test_the_first_failure_in_a_row_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Those that follow are information, until it was over; the record names the caller's function."""
    caplog.set_level(logging.DEBUG)
    outages = Outages(logger)
    for number in (1, 2, 3):
        outages.failed("%s fails: %d", "it", number)
    outages.over()
    outages.over()
    outages.failed("it fails again")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "it fails: 1"),
        ("INFO", "it fails: 2"),
        ("INFO", "it fails: 3"),
        ("WARNING", "it fails again"),
    ]
    assert {(record.name, record.module) for record in caplog.records} == {(__name__, "test_outages")}


def test_each_thing_that_may_fail_has_its_own_first_failure(caplog: pytest.LogCaptureFixture) -> None:
    """At the levels that were given; the end of one outage ends no other."""
    caplog.set_level(logging.DEBUG)
    outages = Outages(logger, logging.INFO, logging.DEBUG)
    for of in (None, "one", "two", "one"):
        outages.failed("%s fails", of, of=of)
    outages.over("one")
    for of in (None, "one", "two"):
        outages.failed("%s fails", of, of=of)
    assert [record.levelname for record in caplog.records] == ["INFO"] * 3 + ["DEBUG"] * 2 + ["INFO", "DEBUG"]


def test_one_statement_logs_so_many_lines_in_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """Other statements are not held up, and the next line says how many were left out."""
    clock = ManualClock()
    limit = RepeatLimit(2, clock.monotonic_s)
    caplog.handler.addFilter(limit)

    def repeat(times: int) -> None:
        for number in range(times):
            logger.warning("broker %d is away", number)

    try:
        repeat(5)
        logger.warning("another statement")
        clock.sleep(RepeatLimit.MINUTE_S)
        repeat(1)
    finally:
        caplog.handler.removeFilter(limit)
    assert [record.getMessage() for record in caplog.records] == [
        "broker 0 is away",
        "broker 1 is away",
        "another statement",
        "broker 0 is away (3 more lines like this were left out)",
    ]
