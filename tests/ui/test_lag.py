"""How a group's lag is judged."""

from __future__ import annotations

import pytest

from kafka2011.admin.snapshot.cluster_snapshot import GroupPartition
from kafka2011.ui.lag import LOOK_S, LOOKS, OK, STOPPED, UNKNOWN, CommitSample, LagBook, judge
from zk.cluster import TopicPartition

WHERE = TopicPartition("views", 0, 1)


def looks(offsets: list[int], ends: list[int], versions: list[int] | None = None) -> list[CommitSample]:
    each_version = versions or list(range(len(offsets)))
    return [CommitSample(*each) for each in zip(offsets, each_version, map(int.__sub__, ends, offsets), strict=True)]


MOVING = [100 * number for number in range(LOOKS)]
STILL = [100] * LOOKS


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (looks(STILL, [*([500] * 9), 100]), "ok"),  # at the end in one look
        (looks([200, 100], [500, 500]), "rewound"),
        (looks([100, 100], [500, 600]), "learning"),
        (looks(STILL, MOVING_ENDS := [500 + each for each in MOVING], [7] * LOOKS), "stopped"),
        (looks(STILL, [500] * LOOKS, [7] * LOOKS), "stopped"),
        (looks(STILL, MOVING_ENDS), "stalled"),
        (looks(MOVING, [500 + 2 * each for each in MOVING]), "slow"),
        (looks(MOVING, MOVING_ENDS), "ok"),  # as far behind as before
        (looks(MOVING, [5000] * LOOKS), "ok"),  # it catches up
        (looks(MOVING, [*(500 + 2 * each for each in MOVING[:5]), *(600 + each for each in MOVING[5:])]), "ok"),
    ],
)
def test_ten_looks_are_judged_without_thresholds(seen: list[CommitSample], state: str) -> None:
    """The rules at the head of the module, one after the other."""
    assert judge(seen) == state


def note(book: LagBook, offset: int, end: int, now_s: float, group: str = "reports") -> None:
    book.note({group: [GroupPartition(WHERE, None, offset, end, commit_version=1)]}, now_s)


def test_looks_are_taken_at_their_own_pace() -> None:
    """However often something is read, ten looks are a hundred seconds."""
    book = LagBook()
    for tenth in range(10 * int(LOOK_S) * (LOOKS - 1)):
        note(book, 100, 500, tenth / 10)
    assert book.lag("reports", WHERE).state == "learning"
    assert book.points("reports") == [400] * (LOOKS - 1)
    note(book, 100, 500, LOOK_S * (LOOKS - 1))
    assert book.lag("reports", WHERE).state == STOPPED


def test_an_offset_read_after_the_end_is_not_beyond_it() -> None:
    """What was committed between the two readings is no lag of less than nothing."""
    book = LagBook()
    note(book, 600, 500, 1.0)
    assert book.lag("reports", WHERE) == (0, 0.0, OK)


def test_what_is_gone_is_forgotten() -> None:
    """Groups come and go for years."""
    book = LagBook()
    note(book, 100, 500, 1.0, "old")
    note(book, 100, 500, 20.0, "new")
    assert book.lag("old", WHERE) == UNKNOWN
    assert (book.points("old"), len(book.samples), len(book.paces.samples)) == ([], 1, 1)
