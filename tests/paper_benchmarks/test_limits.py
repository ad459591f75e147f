"""The tables of docs/reference/limits.md, as they are printed."""

from __future__ import annotations

import importlib

import pytest

from paper_benchmarks.limits.__main__ import LIMITS, shown
from paper_benchmarks.limits.limit import Limit, percentile, until


@pytest.mark.parametrize("name", LIMITS)
def test_each_limit_can_be_named(name: str) -> None:
    """It is a module, which says how it measures."""
    limit = importlib.import_module(f"paper_benchmarks.limits.{name}").LIMIT
    assert isinstance(limit, Limit)
    assert limit.title
    assert limit.how


def test_rows_are_a_table() -> None:
    """Whole numbers whole, others by the digits that count."""
    rows = [{"what": "one", "count": 10_000, "share": 0.12345}, {"what": "two", "count": 1, "share": 123.4}]
    assert shown(rows).splitlines() == [
        "| what | count | share |",
        "| --- | ---: | ---: |",
        "| one | 10,000 | 0.123 |",
        "| two | 1 | 123 |",
    ]


def test_a_percentile_is_a_value_that_was_measured() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0], 0.99) == 1.0


def test_a_wait_ends() -> None:
    """In time, with what was waited for."""
    assert until(lambda: True, "nothing") < 10
    with pytest.raises(TimeoutError, match="within 0 s: the end"):
        until(lambda: False, "the end", 0)
