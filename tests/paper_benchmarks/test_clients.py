"""What a message costs, from samples to the table: the best of rounds, the multiples and the targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paper_benchmarks.experiments.clients import COMPILED, LINES, PURE, YARDSTICKS, Key, chapter, lines, rows
from paper_benchmarks.experiments.experiment import plain
from paper_benchmarks.measuring.spread import Sample, Spread, spread_of_known

if TYPE_CHECKING:
    from pathlib import Path


def sample(cpu_us: float, rate: float, broker_cpu_us: float | None = None) -> Sample:
    broker_cpu_s = None if broker_cpu_us is None else broker_cpu_us * 100 / 1e6
    return Sample(amount=100, wall_s=100 / rate, cpu_s=cpu_us * 100 / 1e6, server_cpu_s=broker_cpu_s)


UNIT = [sample(1.0, rate) for rate in (10_000, 5000, 2500)]
FOUND = {
    Key("sink", "-", "sendall-1"): UNIT,
    Key("kafka2011", COMPILED, "sync-1"): [sample(9.0, 2000, 0.75), sample(2.25, 2500, 3.0), sample(4.5, 2500, 1.5)],
    Key("kafka2011", PURE, "sync-1"): [sample(7.5, 2500)] * 3,
    Key("kafka2011", PURE, "simple"): [sample(7.5, 2500, 1.0)] * 3,
}
ROWS = rows(plain(lines(FOUND)))


def test_time_is_given_by_message() -> None:
    """In microseconds, and the rate in messages a second."""
    one = sample(3.0, 2000, 1.0)
    assert one.client_cpu_us == pytest.approx(3.0)
    assert one.server_cpu_us == pytest.approx(1.0)
    assert one.rate == pytest.approx(2000.0)


def test_a_spread_leaves_out_what_is_not_known() -> None:
    """And is not known itself where nothing is."""
    assert spread_of_known([3.0, None, 1.0, 10.0]) == Spread(1.0, 3.0, 10.0)
    assert spread_of_known([None]) is None


def test_a_line_is_compared_with_its_target_and_with_the_yardstick_of_the_same_round() -> None:
    """The least CPU time counts for the target; a multiple is of two rates of one round."""
    unit, client = ROWS[:2]
    assert client["cpu_us"] == pytest.approx([2.25, 4.5, 9.0])
    assert (client["target_us"], client["of_target"]) == (4.5, pytest.approx(0.5))
    assert client["rate"] == pytest.approx([2000.0, 2500.0, 2500.0])
    assert client["times"]["sendall-1"] == pytest.approx([0.2, 0.5, 1.0])
    assert unit["times"]["sendall-1"] == [1.0, 1.0, 1.0]
    assert unit["of_target"] is None


def test_the_broker_has_lines_of_its_own() -> None:
    """CPU time alone, against targets of their own; only where it is known and has one."""
    assert [row["title"].rpartition(", ")[0] for row in ROWS if "broker" in row["title"]] == [
        "kafka2011, messages in C, broker"
    ]
    broker = ROWS[2]
    assert broker["cpu_us"] == pytest.approx([0.75, 1.5, 3.0])
    assert broker["of_target"] == pytest.approx(0.5)
    assert broker["rate"] is None


def test_each_code_has_its_own_targets() -> None:
    """What Python takes is not compared with what C should."""
    slow = ROWS[3]
    assert slow["target_us"] == 5.0
    assert slow["of_target"] == pytest.approx(1.5)


def test_the_table_says_what_misses_its_target(tmp_path: Path) -> None:
    """By how much; what is not known is a dash."""
    body = {"lines": [{**line, "times": {name: [1.0] * 3 for name in YARDSTICKS}} for line in plain(lines(FOUND))]}
    text = chapter(body, tmp_path)
    title = f"kafka2011, messages in Python, {LINES['sync-1'].title}"
    assert f"| {title} | 7.50 | 7.50 | 7.50 | 5.00 | 1.50 | 2,500 | 2,500 | 2,500 | 1.00 | 1.00 |" in text
    assert "broker, batch 1 | 0.750 | 1.50 | 3.00 | 1.50 | 0.50 | - | - | - | - | - |" in text
