"""The table that people read."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import click

from kafka2011.cli.output import show_table
from paper_benchmarks.clients.run import YARDSTICK_SYSTEM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paper_benchmarks.clients.results import Result
    from paper_benchmarks.samples import Spread

COLUMNS = ("line", "CPU_us", "median", "highest", "target", "x_target", "k/s_lowest", "median", "highest")


def show(results: Sequence[Result], yardsticks: Sequence[str]) -> None:
    """Print one table for each system and code."""
    columns = (*COLUMNS, *(f"x_{name}" for name in yardsticks))
    for (system, code), group in groupby(results, lambda each: (each.system, each.code)):
        click.echo(f"\n{system}" + ("" if system == YARDSTICK_SYSTEM else f", messages in {code}"))
        show_table(columns, [_row(each, yardsticks) for each in group], as_json=False)


def _row(result: Result, yardsticks: Sequence[str]) -> tuple[str | None, ...]:
    return (
        result.title,
        *_spread(result.cpu_us, 1, 2),
        _number(result.target_us, 2),
        _number(result.of_target, 2),
        *_spread(result.rate, 1e-3, 0),
        *(_number(spread.median if (spread := result.multiples.get(name)) else None, 3) for name in yardsticks),
    )


def _spread(spread: Spread | None, factor: float, digits: int) -> tuple[str | None, ...]:
    if spread is None:
        return None, None, None
    return tuple(_number(value * factor, digits) for value in (spread.lowest, spread.median, spread.highest))


def _number(value: float | None, digits: int) -> str | None:
    return None if value is None else f"{value:.{digits}f}"
