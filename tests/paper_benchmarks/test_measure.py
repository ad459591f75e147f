"""The way of one client, as points, and what comes out of them."""

from __future__ import annotations

import pytest

from paper_benchmarks.clients.job import Job, Progress
from paper_benchmarks.clients.measure import curve, points_of, steady
from paper_benchmarks.measuring.errors import BenchmarkError


def job(messages: int, every: int) -> Job:
    return Job(do="consume", client="any", topic="views", messages=messages, every=every)


def test_a_producer_is_told_how_many_to_send_next() -> None:
    """The last chunk may be smaller; each one's end is a point."""
    progress = Progress(job(250, 100))
    assert list(progress.chunks()) == [100, 100, 50]
    assert [point[0] for point in progress.facts()["points"]] == [100, 200, 250]


def test_a_consumer_tells_how_many_it_got() -> None:
    """A point for each so many, wherever batches end, and one at the end."""
    progress = Progress(job(250, 100))
    progress.start()
    assert [progress.read(90), progress.read(90), progress.read(70)] == [True, True, False]
    assert [point[0] for point in progress.facts()["points"]] == [180, 250]


@pytest.mark.parametrize("read", [249, 251])
def test_a_client_that_did_not_handle_just_the_messages_there_are_gives_no_figure(read: int) -> None:
    """Neither fewer nor more."""
    progress = Progress(job(250, 100))
    progress.start()
    progress.read(read)
    with pytest.raises(BenchmarkError, match=f"{read} messages were handled: there are 250"):
        progress.facts()


def test_a_consumer_of_a_part_gets_more_than_counts() -> None:
    """A batch that goes beyond its end, and batches that were on their way."""
    progress = Progress(Job(do="consume", client="any", topic="views", messages=250, every=100, part=True))
    progress.start()
    assert [progress.read(200), progress.read(200), progress.read(200)] == [True, False, False]
    assert [point[0] for point in progress.facts()["points"]] == [200, 250]


def test_a_curve_is_made_of_the_rates_between_points() -> None:
    """Over megabytes of payloads; the steady rate is the median without the first quarter."""
    rates = curve([(10_000, 1.0), (20_000, 1.5), (40_000, 2.0)], 200)
    assert rates == [(2.0, 10_000.0), (4.0, 20_000.0), (8.0, 40_000.0)]
    assert steady(rates) == 30_000


def test_a_few_messages_at_the_end_have_no_rate_of_their_own() -> None:
    """They came with those before them, in no time."""
    points = [(1000, 1.0), (2000, 2.0), (2010, 2.01)]
    megabytes, rates = zip(*curve(points, 200), strict=True)
    assert megabytes == (0.2, 0.402)
    assert rates == pytest.approx((1000, 1000))


def test_points_lie_ten_megabytes_apart_in_whole_batches() -> None:
    """And closer where there are few messages."""
    assert points_of(10_000_000, 50) == 50_000
    assert points_of(10_000, 50) == 500
    assert points_of(10_000, 3) == 498
    assert points_of(10, 50) == 50
