"""The tiers of the demo, as far as they start no process."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka2011.cli.app import COMMANDS
from kafka2011.demo.arrivals import latency_of
from kafka2011.demo.frontends import EVENT_TOPICS, Frontends
from kafka2011.demo.tiers import TierRate, TiersResult
from kafka2011.events.types import EVENT_TYPES


def test_a_file_goes_in_by_the_collector() -> None:
    """Its lines are page views; without a file events of all topics are made up."""
    of_file, made_up = Frontends(Path("/a.log"), 30), Frontends(None, 30)
    assert of_file.arguments("zk:1", Path("/state"))[:2] == ["collect", "/a.log"]
    assert (of_file.tier, of_file.topics) == ("collector", ("page_views",))
    assert made_up.arguments("zk:1", Path("/state"))[0] == "generate"
    assert (made_up.tier, made_up.topics) == ("producer", tuple(EVENT_TYPES))
    assert tuple(EVENT_TYPES) == EVENT_TOPICS
    assert {"collect", "generate"} <= set(COMMANDS)


def test_latency_is_summed_up() -> None:
    """Mean, median, and what all but the slowest twentieth stay below."""
    latency = latency_of([*range(100), 1000])
    assert latency is not None
    assert (latency.events, latency.median_s, latency.p95_s) == (101, 50, 95)
    assert latency.mean_s == pytest.approx((4950 + 1000) / 101)
    assert latency_of([]) is None


def test_what_went_wrong_is_said() -> None:
    """A gap, a message that cannot be decoded, and an audit of nothing."""
    result = TiersResult("producer")
    assert result.failures() == ["nothing was audited"]
    result.totals = [{}]
    assert result.failures() == []
    result.gaps, result.quarantined = 2, 3
    assert result.failures() == ["the audit has found 2 windows with a gap", "3 messages could not be decoded"]
    result.doubts = [{"topic": "views", "why": "web1 died"}]
    assert result.failures()[1] == "the audit cannot tell of views: web1 died"
    result.report_error = "Spark has failed"
    assert result.failures()[-1] == "no reports: Spark has failed"
    assert TierRate("mirror", 30, 2).events_per_s == 15
