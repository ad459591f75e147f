"""The coverage check: what was written against what was to be loaded."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from kafka2011.warehouse.errors import CoverageError
from kafka2011.warehouse.loading.coverage import Coverage, Gap, Run, runs_of
from zk.cluster import TopicPartition

ONE, TWO = TopicPartition("views", 1, 0), TopicPartition("views", 2, 1)
Place = tuple[int, int, int, int, int]

ALONE = [(1, 0, at, at + 10, 0) for at in range(100, 200, 10)]
SET = [(1, 0, 200, 200, index) for index in range(4)] + [(1, 0, 200, 260, 4)]
AFTER = [(1, 0, at, at + 20, 0) for at in range(260, 300, 20)]
ELSEWHERE = [(2, 1, at, at + 5, 0) for at in range(0, 50, 5)]
EVERY = ALONE + SET + AFTER + ELSEWHERE


def covered(*batches: list[Place]) -> Coverage:
    coverage = Coverage("views")
    for batch in batches:
        for run in runs(batch):
            coverage.add(run)
    return coverage


def runs(places: list[Place]) -> list[Run]:
    columns: list[Any] = [np.array(column, np.int64) for column in zip(*places, strict=True)]
    return runs_of(*columns)


def test_every_place_in_any_order_and_in_several_batches_covers_the_ranges() -> None:
    """Rows are sorted by time, so places come in no order, and a compressed set may lie in several files."""
    chance = random.Random(1)
    for _ in range(50):
        places = chance.sample(EVERY, len(EVERY))
        cut = chance.randrange(1, len(places))
        coverage = covered(places[:cut], places[cut:])
        assert coverage.gaps(ONE, 100, 300) == []
        assert coverage.gaps(TWO, 0, 50) == []
        assert coverage.counts(ONE) == (17, 0)


def test_few_runs_come_of_many_places() -> None:
    """What goes to the driver does not grow with the rows."""
    assert len(runs(EVERY)) == 4


@pytest.mark.parametrize("missing", EVERY)
def test_any_place_that_is_missing_is_a_gap(missing: Place) -> None:
    """Of a compressed set also when only one message of it is missing, whichever."""
    coverage = covered([place for place in EVERY if place != missing])
    assert coverage.gaps(ONE, 100, 300) + coverage.gaps(TWO, 0, 50)


@pytest.mark.parametrize("twice", EVERY)
def test_any_place_that_is_there_twice_is_refused(twice: Place) -> None:
    """In one file or in two."""
    for coverage in (covered([*EVERY, twice]), covered(EVERY, [twice])):
        with pytest.raises(CoverageError):
            assert not coverage.gaps(ONE, 100, 300) + coverage.gaps(TWO, 0, 50)


def test_one_message_of_a_set_twice_in_place_of_another_is_a_gap() -> None:
    """Their number alone is right."""
    places = [place for place in EVERY if place != SET[1]]
    assert covered([*places, SET[2]]).gaps(ONE, 100, 300) == [Gap(ONE, 200, 260)]


def test_what_lies_outside_is_refused() -> None:
    """It would be loaded twice."""
    for start, end in ((110, 300), (100, 280)):
        with pytest.raises(CoverageError, match=r"views/1-0: what was written from offset .* is not between"):
            covered(EVERY).gaps(ONE, start, end)


def test_nothing_at_all_is_one_gap() -> None:
    assert Coverage("views").gaps(ONE, 100, 300) == [Gap(ONE, 100, 300)]
    assert Coverage("views").gaps(ONE, 100, 100) == []


def test_quarantined_messages_fill_the_gaps() -> None:
    """Alone, or within a set; and bytes that are no message, be it a whole set with good messages at its start."""
    bad = [ALONE[3], SET[0], SET[4]]
    coverage = covered([place for place in EVERY if place not in bad])
    assert coverage.gaps(ONE, 100, 300) == [Gap(ONE, 130, 140), Gap(ONE, 200, 260)]
    for place in bad:
        [run] = runs([place])
        coverage.add(run, quarantined=True)
    assert coverage.gaps(ONE, 100, 300) == []
    assert coverage.counts(ONE) == (14, 3)

    broken = covered([*ALONE, *SET[:2], *AFTER])
    assert broken.gaps(ONE, 100, 300) == [Gap(ONE, 200, 260)]
    broken.add_corrupt(ONE, 200, 260)
    assert broken.gaps(ONE, 100, 300) == []
    assert broken.counts(ONE) == (14, 1)
