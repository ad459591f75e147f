"""Stretches of a log with their largest timestamps: none is left out in which a time may be found."""

from __future__ import annotations

import random

import pytest

from kafka2011.gateway.numbering import time_stretches
from kafka2011.gateway.numbering.time_stretches import UNKNOWN, TimeStretches


def stretches_of(*newest: int, size: int = 10) -> TimeStretches:
    """Return stretches of one piece of 10 bytes each."""
    times = TimeStretches(0, size)
    for index, each in enumerate(newest, 1):
        times.note(10 * index, each)
    return times


def test_the_first_stretch_with_a_time_so_large_is_found() -> None:
    times = stretches_of(100, 50, 300, 200)
    assert times.reaching(0) == times.reaching(100) == (0, 10)
    assert times.reaching(101) == times.reaching(300) == (20, 30)
    assert times.reaching(301) is None
    assert times.reaching(60, 10) == (20, 30)
    assert times.reaching(200, 35) == (35, 40)
    assert times.newest == 300


def test_small_pieces_make_one_stretch() -> None:
    times = stretches_of(100, 300, 200, 400, size=20)
    assert times.reaching(300) == (0, 20)
    assert times.reaching(301) == (20, 40)


def test_a_time_that_retention_has_removed_hides_no_other() -> None:
    times = stretches_of(10_000, 50, 300)
    times.drop_before(10)
    assert times.reaching(200) == (20, 30)
    assert times.reaching(301) is None
    assert times.newest == 300


def test_messages_without_timestamps_are_found() -> None:
    times = stretches_of(100, -1, 300, -1)
    assert times.undated() == times.undated(15 - 5) == (10, 20)
    assert times.undated(15) == (15, 20)
    assert times.undated(20) == (30, 40)
    assert times.undated(40) is None


def test_what_an_older_gateway_has_indexed_is_unknown_until_it_is_read() -> None:
    times = TimeStretches.of(None, 0, 40, 10)
    times.note(50, 500)
    assert times.reaching(600) == times.undated() == (0, 40)
    assert times.newest == 500
    for end, newest in ((10, 100), (20, -1)):
        times.note(end, newest)
    assert times.reaching(600) == (20, 40)
    assert times.reaching(100) == (0, 10)
    assert times.undated() == (10, 20)
    times.note(10, 700)  # another search, which is late
    assert times.reaching(100) == (0, 10)
    times.note(40, 300)
    assert times.reaching(600) is times.undated(20) is None
    assert times.reaching(400) == (40, 50)


def test_a_damaged_piece_may_hold_anything_once_it_is_repaired() -> None:
    times = stretches_of(100, UNKNOWN, 300, size=40)
    assert times.reaching(200) == times.undated() == (10, 20)
    assert times.reaching(200, 20) == (20, 30)
    times.note(20, 250)
    assert times.reaching(251) == (20, 30)


@pytest.mark.parametrize("document", [None, [], [[30, 5, 0]]], ids=["none", "empty", "of another range"])
def test_a_document_that_is_not_of_the_range_says_nothing(document: object) -> None:
    assert TimeStretches.of(document, 0, 40, 10).reaching(10**12) == (0, 40)
    assert TimeStretches.of([], 40, 40, 10).reaching(0) is None


@pytest.mark.parametrize("seed", range(20))
def test_no_time_is_missed_however_many_stretches_are_joined(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_stretches, "MOST_STRETCHES", 16)
    draw = random.Random(seed)
    times = TimeStretches(0, 20)
    pieces: list[tuple[int, int, int]] = []
    end = 0
    for _ in range(300):
        begin, end = end, end + draw.randint(1, 30)
        newest = draw.choice([draw.randint(0, 1000), draw.randint(0, 1000), -1, UNKNOWN])
        times.note(end, newest)
        pieces.append((begin, end, newest))
        if draw.random() < 0.02:
            start = draw.choice(pieces)[0]
            pieces = [piece for piece in pieces if piece[0] >= start]
            times.drop_before(start)
        if draw.random() < 0.05:
            assert len(times.document(8)) <= 8
            times = TimeStretches.of(times.document(), pieces[0][0], end, 20)
        assert len(times.document()) <= 16
    for begin, end, newest in pieces:
        found = times.reaching(newest, begin) if newest >= 0 else times.undated(begin)
        assert found is not None
        assert found[0] == begin
        assert found[1] >= end
        first = min(piece[0] for piece in pieces if piece[2] >= newest)
        assert newest < 0 or times.reaching(newest)[0] <= first  # type: ignore[index]
