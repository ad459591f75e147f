"""The way of one client, as points, and what comes out of them."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import pytest

from paper_benchmarks.clients.job import Job, Progress, polling
from paper_benchmarks.clients.measure import points_of
from paper_benchmarks.measuring.errors import BenchmarkError
from tests.paper_benchmarks.runs import run


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


def test_a_timed_client_needs_both_bounds_or_all_its_time() -> None:
    """So many messages and so many seconds; or the longest time, with however few."""
    timed = Job(do="produce", client="any", topic="views", messages=100, every=10, seconds=10.0, most_s=30.0)
    assert [timed.is_done(*way) for way in ((100, 9.9), (99, 10.1), (100, 10.0), (1, 29.9), (1, 30.0))] == [
        False,
        False,
        True,
        False,
        True,
    ]


def test_a_timed_producer_goes_on_from_point_to_point() -> None:
    """It sends in whole steps until the clock lets it go, and has a point for each."""
    timed = Job(do="produce", client="any", topic="views", messages=25, every=10, seconds=0.01)
    progress = Progress(timed)
    began_s = time.perf_counter()
    assert set(progress.chunks()) == {10}
    assert time.perf_counter() - began_s >= 0.01
    points = progress.facts()["points"]
    assert points[-1][0] >= 30
    assert [later[0] - earlier[0] for earlier, later in pairwise(points)] == [10] * (len(points) - 1)


def test_a_consumer_that_reads_once_ends_at_the_last_message_or_when_its_time_is_up() -> None:
    """Behind the last message comes none that could be the next point."""
    once = Job(do="consume", client="any", topic="views", messages=25, every=10, most_s=60.0)
    progress = Progress(once)
    progress.start()
    assert [progress.read(9), progress.read(9), progress.read(7)] == [True, True, False]
    assert progress.facts()["messages"] == 25
    late = Progress(replace(once, most_s=1e-9))
    late.start()
    assert not late.read(10)
    assert late.facts()["messages"] == 10


def test_what_is_confirmed_after_the_end_counts() -> None:
    """A producer that learns of its messages later has a last point for them, and one at least."""
    progress = Progress(Job(do="produce", client="any", topic="views", messages=0, every=100, most_s=1e-9))
    progress.start()
    assert progress.wants_more(0) is False
    progress.read(30)
    progress.finish()
    assert progress.facts()["messages"] == 30
    progress.read(20)
    progress.finish()
    assert [messages for messages, _ in progress.facts()["points"]] == [30, 50]


def test_a_timed_consumer_reads_the_topic_again() -> None:
    """It goes back after each message of the topic, and fetches none beyond its end; one too many is an error."""
    passes, fetched = [], []

    def fetch(left: int) -> int:
        fetched.append(min(left, 20))
        return fetched[-1]

    timed = Job(do="consume", client="any", topic="views", messages=120, every=10, seconds=0.0001, present=50)
    done = polling(timed, fetch, lambda: passes.append(sum(fetched)))()
    assert passes[:2] == [50, 100]
    assert fetched[:4] == [20, 20, 10, 20]
    assert done["messages"] >= 120
    with pytest.raises(BenchmarkError, match="10 messages more than the 50"):
        polling(timed, lambda _left: 60)()


def test_a_consumer_of_a_part_gets_more_than_counts() -> None:
    """A batch that goes beyond its end, and batches that were on their way."""
    progress = Progress(Job(do="consume", client="any", topic="views", messages=250, every=100, part=True))
    progress.start()
    assert [progress.read(200), progress.read(200), progress.read(200)] == [True, False, False]
    assert [point[0] for point in progress.facts()["points"]] == [200, 250]


def test_a_curve_ends_at_the_rate_of_the_whole_run() -> None:
    """Over megabytes of payloads; what was handed over early counts when the server had handled it."""
    done = run("produce", 40_000, points=[(10_000, 1.0), (20_000, 1.5), (40_000, 2.0)], wall_s=4.0)
    assert done.curve() == [(2.0, 10_000.0), (4.0, pytest.approx(13_333.33)), (8.0, 10_000.0)]
    assert done.curve()[-1][1] == done.rate


def test_points_lie_in_whole_batches() -> None:
    """Twenty of them, or fewer where there are few messages."""
    assert points_of(10_000_000, 50) == 500_000
    assert points_of(10_000, 50) == 500
    assert points_of(10_000, 3) == 498
    assert points_of(10, 50) == 50
