"""The table of the mirror's benchmark."""

from __future__ import annotations

from paper_benchmarks.mirror.command import LINES, rows
from paper_benchmarks.samples import Sample


def sample(number: int, line: str, wall_s: float) -> Sample:
    return Sample(
        round=number,
        system="plain",
        code="C",
        line=line,
        messages=1_000_000,
        cpu_s=wall_s / 2,
        wall_s=wall_s,
        broker_cpu_s=wall_s / 4,
    )


def test_a_line_is_compared_with_the_plain_consumer_of_its_round() -> None:
    """Rates in messages and MB of the log; a ratio of two samples of one round."""
    samples = [sample(1, line, wall_s) for line, wall_s in zip(LINES, (1.0, 0.5, 2.0), strict=True)]
    samples += [sample(2, line, wall_s) for line, wall_s in zip(LINES, (2.0, 1.0, 5.0), strict=True)]
    [_, sets, mirror] = rows(samples, 210_000_000)
    assert sets == ("a consumer, stream.sets()", "0.25", "0.38", "0.12", "1500", "2000", "315", "420", "2.00")
    assert mirror == ("a mirror into another cluster", "1.00", "1.75", "0.50", "350", "500", "74", "105", "0.45")
