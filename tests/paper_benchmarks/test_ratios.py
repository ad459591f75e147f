"""Ratios of rounds, and what they say of the targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paper_benchmarks.experiments.ratios import EXPERIMENT, Line, Target, ratios
from paper_benchmarks.measuring.spread import Spread
from tests.paper_benchmarks.runs import sample

FOUND = {
    Line("kafka2011", "produce", "sync", 50): (600.0, 900.0, 500.0),
    Line("kafka2011", "produce", "raw", 50): (1.0, 9000.0, 1.0),
    Line("rabbitmq", "produce", "pika", 1): (10.0, 5.0, 10.0),
    Line("rabbitmq", "produce", "raw", 1): (5.0, 10.0, 1.0),
}
SAMPLES = {line: [sample(rate) for rate in rates] for line, rates in FOUND.items()}
RABBIT = "produce, batch 50, over RabbitMQ"


def test_a_ratio_is_of_two_lines_of_one_round() -> None:
    """Others by the better of their clients; ours never by bytes that were encoded before."""
    assert ratios(SAMPLES) == {RABBIT: Spread(50.0, 60.0, 90.0)}


@pytest.mark.parametrize(
    ("least", "aim", "verdict"),
    [(3, 10, "**short of it**"), (2, 3, "reached"), (1, 2, "aim reached"), (None, 3, "**short of the aim**")],
)
def test_the_median_is_held_against_the_target(least: float | None, aim: float, verdict: str) -> None:
    """Whichever of the two it has."""
    target = Target("a", ("produce", 1), "b", ("produce", 1), least, aim)
    assert target.verdict(2.0) == verdict


def test_the_chapter_has_both_tables() -> None:
    """What is not known is a dash."""
    line = Line("rabbitmq", "produce", "pika", 1)._asdict()
    rates: dict[str, Any] = {"rate": [5.0, 10.0, 10.0], "client_cpu_us": [1.0] * 3, "server_cpu_us": None}
    body = {
        "rounds": 3,
        "versions": {"kafka2011": "1"},
        "ratios": {RABBIT: [50.0, 60.0, 90.0]},
        "lines": [{"title": "RabbitMQ", **line, **rates}],
    }
    text = EXPERIMENT.chapter(body, Path("nowhere"))
    assert "| produce, batch 50, over RabbitMQ | 60.0 | 50.0 to 90.0 | 60.0 | 100 | reached |" in text
    assert "| RabbitMQ, produce, pika, batch 1 | 5.00 | 10.0 | 10.0 | 1.00 | - |" in text
