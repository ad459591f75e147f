"""How rates change as messages accumulate, from what was measured at each step; and filling up what was consumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paper_benchmarks.experiments.accumulation import OWN_PLANS, PLANS, chapter, shares, step_of
from paper_benchmarks.experiments.experiment import plain
from tests.paper_benchmarks.runs import run

if TYPE_CHECKING:
    from pathlib import Path


FIRST = [
    (backlog, run("produce", produced), run("consume", consumed, stored_bytes=(backlog + 200) * 210))
    for backlog, produced, consumed in ((0, 100.0, 50.0), (200, 200.0, 60.0), (400, 300.0, 70.0))
]
STEPS: list[dict[str, Any]] = [
    {"backlog": 200, "stored_bytes": 400 * 210, "produce": [100.0, 200.0, 300.0], "consume": [50.0, 60.0, 70.0]},
    {"backlog": 1000, "stored_bytes": 1200 * 210, "produce": [100.0] * 3, "consume": [90.0] * 3},
]
BODY: dict[str, Any] = {
    "memory_bytes": 16e9,
    "lines": [
        {"kind": "kafka2011", "title": "kafka2011", "stopped": None, "steps": STEPS},
        {"kind": "rabbitmq", "title": "RabbitMQ", "stopped": "it took too long", "steps": STEPS[:1]},
        {"kind": "activemq", "title": "ActiveMQ", "stopped": "it did not start", "steps": []},
    ],
}


def test_a_step_has_the_medians_of_its_times() -> None:
    """And how far rates were spread."""
    assert plain(step_of(FIRST)) == STEPS[0]


def test_rates_are_multiples_of_the_first_ones() -> None:
    """Of medians at each step; a system without a step has none."""
    found = [(each["title"], each["backlog"], each["produce_share"], each["consume_share"]) for each in shares(BODY)]
    assert found == [("kafka2011", 200, 1.0, 1.0), ("kafka2011", 1000, 0.5, 1.5), ("RabbitMQ", 200, 1.0, 1.0)]


def test_the_chapter_says_what_ended_early(tmp_path: Path) -> None:
    """And why."""
    text = chapter(BODY, tmp_path)
    assert "RabbitMQ ends early: it took too long." in text
    assert "| kafka2011 | 1,000 | 0.0003 | 100 | 0.50 | 90.0 | 1.50 |" in text
    assert (tmp_path / "accumulation.svg").exists()


def test_backlogs_grow_by_more_than_is_produced_beside_them() -> None:
    """From an empty topic on; sets that fill it have all the same size."""
    for plan in (*PLANS.values(), *OWN_PLANS.values()):
        assert plan.backlogs[0] == 0
        steps = [after - before for before, after in zip(plan.backlogs, plan.backlogs[1:], strict=False)]
        assert min(steps[1:]) >= plan.messages * plan.times
        assert plan.messages % 50 == 0
