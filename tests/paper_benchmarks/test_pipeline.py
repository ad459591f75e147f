"""What the chapter of the whole pipeline makes of what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil
import pytest

from kafka2011.demo.arrivals import Latency
from kafka2011.demo.tiers import TierRate, TiersResult
from paper_benchmarks.experiments import pipeline
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.usage import TierUsage, tree_cpu_s

if TYPE_CHECKING:
    from pathlib import Path


def result(**changes: object) -> TiersResult:
    rates = [TierRate("producer", 100, 10.0), TierRate("mirror", 100, 11.0), TierRate("warehouse", 100, 20.0)]
    totals = [{"tier": "producer", "distinct": 100}]
    made = TiersResult("producer", rows=101, totals=totals, rates=rates, latency=Latency(101, 4.0, 3.5, 8.0))
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_a_pipeline_that_loses_something_gives_no_figure() -> None:
    pipeline.check(result())
    fewer = [TierRate("producer", 100, 10.0), TierRate("warehouse", 99, 20.0)]
    wrong: list[dict[str, object]] = [{"rates": fewer}, {"quarantined": 1}, {"gaps": 1}, {"totals": []}]
    for changes in wrong:
        with pytest.raises(BenchmarkError, match="no figure"):
            pipeline.check(result(**changes))


def test_the_pipelines_chapter_gives_rates_costs_and_latency(tmp_path: Path) -> None:
    made = pipeline.facts(result())
    tiers = [{"tier": each.tier, "events": each.events, "seconds": each.seconds} for each in made["tiers"]]
    body = {**made, "tiers": tiers, "rate": 50, "seconds": 2, "cpu_s": {"mirror": 0.5}}
    text = pipeline.chapter(body, tmp_path)
    assert "mean 4.00 s, median 3.50 s, 95% within 8.00 s" in text
    assert "| warehouse | 100 | 20.0 | 5 |" in text
    assert "| mirror | 0.500 | 5,000 | 0.250 |" in text


def test_usage_of_a_process_is_kept_when_it_has_gone() -> None:
    this = psutil.Process().pid
    there = {"tier": this}
    usage = TierUsage(lambda: there)
    usage.look()
    there.clear()
    usage.look()
    assert 0 < usage.cpu_s["tier"] <= tree_cpu_s()
