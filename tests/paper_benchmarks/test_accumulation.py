"""How rates change as messages accumulate, from what was measured at each step; and filling up what was consumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paper_benchmarks.experiments.accumulation import OWN_PLANS, PLANS, chapter, points

if TYPE_CHECKING:
    from pathlib import Path


def sample(step: int, do: str, backlog: int, rate: float) -> dict[str, Any]:
    return {"step": step, "do": do, "backlog": backlog, "stored_bytes": backlog * 210, "rate": rate}


SAMPLES = [
    sample(0, "produce", 0, 100.0),
    sample(0, "consume", 200, 50.0),
    sample(0, "produce", 200, 200.0),
    sample(0, "consume", 400, 60.0),
    sample(0, "produce", 400, 300.0),
    sample(0, "consume", 600, 70.0),
    sample(1, "produce", 1000, 100.0),
    sample(1, "consume", 1200, 90.0),
]
BODY: dict[str, Any] = {
    "memory_bytes": 16e9,
    "lines": [
        {"kind": "kafka2011", "title": "kafka2011", "stopped": None, "samples": SAMPLES},
        {
            "kind": "rabbitmq",
            "title": "RabbitMQ",
            "stopped": "it took too long",
            "samples": [*SAMPLES, sample(2, "produce", 2000, 1.0)],
        },
        {"kind": "activemq", "title": "ActiveMQ", "stopped": "it did not start", "samples": []},
    ],
}


def test_rates_are_multiples_of_the_first_ones() -> None:
    """Of medians at each step."""
    first, second = points(BODY)["kafka2011"]
    assert first == (200, 400 * 210, 200.0, 60.0, 1.0, 1.0)
    assert second == (1000, 1200 * 210, 100.0, 90.0, 0.5, 1.5)


def test_a_step_that_a_system_gave_up_in_does_not_count() -> None:
    """Those before do; where there are none, there is no point."""
    assert points(BODY)["RabbitMQ"] == points(BODY)["kafka2011"]
    assert points(BODY)["ActiveMQ"] == []


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
