"""From samples to the table: the best of rounds, the spread, the multiples and the targets."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from paper_benchmarks.clients.lines import COMPILED, LINES, PURE, YARDSTICKS, Line, Targets, Yardstick
from paper_benchmarks.clients.results import results
from paper_benchmarks.clients.run import YARDSTICK_SYSTEM
from paper_benchmarks.clients.table import show
from paper_benchmarks.samples import Sample, Spread

UNIT = Yardstick("unit", "a yardstick", 1, 100)
LINE = Line(
    "sync",
    "a client",
    "sync",
    1,
    100,
    targets=Targets(2.0, 4.0),
    broker_title="its broker",
    broker_targets=Targets(1, 2),
)


def sample(
    number: int, line: str, cpu_s: float, wall_s: float, broker_cpu_s: float | None = None, code: str = COMPILED
) -> Sample:
    system = YARDSTICK_SYSTEM if line == UNIT.name else "ours"
    return Sample(
        round=number,
        system=system,
        code=code,
        line=line,
        messages=100,
        cpu_s=cpu_s,
        wall_s=wall_s,
        broker_cpu_s=broker_cpu_s,
    )


SAMPLES = [
    sample(1, "unit", 0.0001, 0.01),
    sample(1, "sync", 0.0003, 0.05, 0.0001),
    sample(2, "unit", 0.0001, 0.02),
    sample(2, "sync", 0.0001, 0.04, 0.0004),
    sample(3, "unit", 0.0001, 0.03),
    sample(3, "sync", 0.0002, 0.03, 0.0002),
]


def test_time_is_given_by_message() -> None:
    """In microseconds, and the rate in messages a second."""
    one = sample(1, "sync", 0.0003, 0.05, 0.0001)
    assert one.cpu_us_per_message == pytest.approx(3.0)
    assert one.broker_cpu_us_per_message == pytest.approx(1.0)
    assert one.messages_per_s == pytest.approx(2000.0)


def test_a_spread_leaves_out_what_is_not_known() -> None:
    """And is not known itself where nothing is."""
    assert Spread.of([3.0, None, 1.0, 10.0]) == Spread(1.0, 3.0, 10.0)
    assert Spread.of([None]) is None


def test_a_line_is_compared_with_its_target_and_with_the_yardstick_of_the_same_round() -> None:
    """The least CPU time counts for the target; a multiple is of two rates of one round."""
    unit, client, broker = results(SAMPLES, [LINE], [UNIT])
    assert (unit.title, client.title, broker.title) == ("a yardstick", "a client", "its broker")
    assert astuple(client.cpu_us) == pytest.approx((1.0, 2.0, 3.0))
    assert client.target_us == 2.0
    assert client.of_target == pytest.approx(0.5)
    assert client.rate is not None
    assert astuple(client.rate) == pytest.approx((2000.0, 2500.0, 100 / 0.03))
    assert astuple(client.multiples["unit"]) == pytest.approx((0.2, 0.5, 1.0))
    assert unit.multiples["unit"] == Spread(1.0, 1.0, 1.0)
    assert unit.of_target is None


def test_the_broker_has_lines_of_its_own() -> None:
    """CPU time alone, against targets of their own."""
    broker = results(SAMPLES, [LINE], [UNIT])[-1]
    assert broker.line == "broker-sync"
    assert astuple(broker.cpu_us) == pytest.approx((1.0, 2.0, 4.0))
    assert broker.of_target == pytest.approx(1.0)
    assert broker.rate is None


def test_each_code_has_its_own_results_and_targets() -> None:
    """What Python takes is not compared with what C should."""
    slow = sample(1, "sync", 0.0004, 0.05, code=PURE)
    found = results([*SAMPLES, slow], [LINE], [UNIT])
    assert [(each.code, each.line) for each in found[1:]] == [("C", "sync"), ("C", "broker-sync"), ("Python", "sync")]
    assert found[-1].target_us == 4.0
    assert found[-1].of_target == pytest.approx(1.0)


def test_the_table_says_what_misses_its_target(capsys: pytest.CaptureFixture[str]) -> None:
    """By how much; what is not known is a dash."""
    show(results([*SAMPLES, sample(1, "sync", 0.0006, 0.05, code=PURE)], [LINE], [UNIT]), ["unit"])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["a", "client", "1.00", "2.00", "3.00", "2.00", "0.50", "2", "2", "3", "0.500"] in rows
    assert ["a", "client", "6.00", "6.00", "6.00", "4.00", "1.50", "2", "2", "2", "0.200"] in rows
    assert ["its", "broker", "1.00", "2.00", "4.00", "1.00", "1.00", "-", "-", "-", "-"] in rows


def test_scaled_lines_have_whole_batches() -> None:
    """However small: each message counts."""
    assert [line.scaled(1).messages for line in LINES] == [line.messages for line in LINES]
    assert {line.scaled(1e-9).messages for line in (*LINES, *YARDSTICKS)} == {50}
    assert Line("a", "b", "c", 1, 1000).scaled(0.12).messages == 100
