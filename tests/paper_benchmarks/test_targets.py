"""Ratios of rounds, and what they say of the targets."""

from __future__ import annotations

from typing import Any

import pytest

from paper_benchmarks.experiments.targets import EXPERIMENT, Ratio, Target, ratios
from paper_benchmarks.samples import Spread


def sample(number: int, kind: str, rate: float, *, client: str = "sync", batch: int = 50, do: str = "produce") -> Any:
    return {
        "round": number,
        "kind": kind,
        "title": kind,
        "do": do,
        "client": client,
        "batch": batch,
        "messages": 100,
        "rate": rate,
        "client_cpu_us": 1.0,
        "server_cpu_us": None,
        "written_bytes": 0,
    }


BODY = {
    "rounds": 3,
    "versions": {"kafka2011": "1"},
    "samples": [
        sample(1, "kafka2011", 600.0),
        sample(1, "rabbitmq", 10.0, batch=1),
        sample(1, "rabbitmq", 5.0, batch=1, client="raw"),
        sample(2, "kafka2011", 900.0),
        sample(2, "kafka2011", 9000.0, client="raw"),
        sample(2, "rabbitmq", 5.0, batch=1),
        sample(2, "rabbitmq", 10.0, batch=1, client="raw"),
        sample(3, "kafka2011", 500.0),
        sample(3, "rabbitmq", 10.0, batch=1),
    ],
}


def test_a_ratio_is_of_two_lines_of_one_round() -> None:
    """Others by the better of their clients; ours never by bytes that were encoded before."""
    [found] = ratios(BODY)
    assert (found.target.title, found.spread) == ("produce, batch 50, over RabbitMQ", Spread(50.0, 60.0, 90.0))
    assert found.verdict == "reached"


@pytest.mark.parametrize(
    ("least", "aim", "verdict"),
    [(3, 10, "**short of it**"), (2, 3, "reached"), (1, 2, "aim reached"), (None, 3, "**short of the aim**")],
)
def test_the_median_is_held_against_the_target(least: float | None, aim: float, verdict: str) -> None:
    """Whichever of the two it has."""
    target = Target("a", ("produce", 1), "b", ("produce", 1), least, aim)
    assert Ratio(target, Spread(1.0, 2.0, 20.0)).verdict == verdict


def test_the_chapter_has_both_tables() -> None:
    """What is not known is a dash."""
    from pathlib import Path

    text = EXPERIMENT.chapter(BODY, Path("nowhere"))
    assert "| produce, batch 50, over RabbitMQ | 60.0 | 50.0 to 90.0 | 60.0 | 100 | reached |" in text
    assert "| rabbitmq, produce, sync, batch 1 | 5.00 | 10.0 | 10.0 | 1.00 | - |" in text
