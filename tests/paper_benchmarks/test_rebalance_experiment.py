"""When a group has settled, and how long that took."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from paper_benchmarks.experiments.rebalance import EVENTS, chapter, is_settled, settled_s

if TYPE_CHECKING:
    from pathlib import Path

BODY = {
    "samples": [
        {"members": 2, "partitions": partitions, "event": event, "settled_s": partitions + number}
        for partitions in (10, 100)
        for number, event in enumerate(EVENTS)
    ]
}


@pytest.mark.parametrize(
    ("owners", "settled"),
    [
        (["g_a-0", "g_a-0", "g_b-0"], True),
        (["g_b-0", "g_a-0", "g_b-0"], True),
        (["g_a-0", "g_b-0"], False),  # one partition has no owner
        (["g_a-0", "g_a-0", "g_c-0"], False),  # one is owned by who is no member
        (["g_a-0", "g_a-0", "g_a-0"], False),  # one member has no share yet
    ],
)
def test_a_group_has_settled_when_members_share_all_partitions_evenly(owners: list[str], settled: bool) -> None:
    """Whoever has one more."""
    assert is_settled(["g_a", "g_b"], owners, 3) is settled


def test_some_members_have_nothing_where_there_are_more_than_partitions() -> None:
    """Such a group settles too."""
    assert is_settled(["g_a", "g_b"], ["g_b-0"], 1)


def test_times_are_those_of_a_shape_and_an_event() -> None:
    """And not known where they were not measured."""
    assert settled_s(BODY, 2, 100, "is killed") == 101
    assert settled_s(BODY, 3, 100, "is killed") is None


def test_the_chapter_has_a_row_for_each_shape(tmp_path: Path) -> None:
    """And a picture."""
    text = chapter(BODY, tmp_path)
    assert (tmp_path / "rebalance.svg").exists()
    assert "| 2 | 100 | 100 | 101 | 102 |" in text
