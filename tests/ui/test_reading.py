"""Ages of segments, from which of them are older than which time."""

from __future__ import annotations

from itertools import pairwise

from kafka2011.ui.reading import AGES_S, ages_of


def test_ages_are_a_third_apart_from_a_second_to_two_months() -> None:
    """So an age is known to about a third, in one round trip."""
    assert (AGES_S[0], AGES_S[-1]) == (1.0, 60 * 86_400)
    assert all(1.2 < after / before < 1.4 for before, after in pairwise(AGES_S))


def test_a_segment_is_as_old_as_the_times_that_it_is_before() -> None:
    """Three segments, last written 100 s ago, 10 s ago and now."""
    written_s = {0: 100.0, 500: 10.0, 900: 0.0}
    newest = [max((start for start, ago_s in written_s.items() if ago_s > age_s), default=None) for age_s in AGES_S]
    found = ages_of(list(written_s), newest)
    for (start, ago_s), (older, younger) in zip(written_s.items(), found, strict=True):
        assert younger is not None, start
        assert (older or 0.0) <= ago_s <= younger
    assert found[-1] == (None, 1.0)
    assert ages_of([0], [0] * len(AGES_S)) == [(AGES_S[-1], None)]
