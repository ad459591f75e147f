from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka2011.replica.comparison import Comparison, count_equal
from tests.models.replica.logs import SIZE, ModelLog

MESSAGES = st.lists(st.tuples(st.sampled_from([b"m1", b"m2"]), st.booleans()), max_size=12)
WIDTHS = st.sampled_from([1, 2, 3, 5, 100])


def _log(messages: list[tuple[bytes, bool]]) -> ModelLog:
    log = ModelLog()
    for message, rolls in messages:
        if rolls:
            log.roll()
        log.append(message, log.segment_offsets[-1])
    return log


def _cut(follower: ModelLog, leader: ModelLog, start: int, range_bytes: int) -> int:
    comparison = Comparison(follower, start, range_bytes=range_bytes)
    for _ in range(200):
        if comparison.cut is not None:
            return comparison.cut
        comparison.answered(count_equal(leader, comparison.question()))
    raise AssertionError("it comes to no end")


@given(MESSAGES, MESSAGES, MESSAGES, WIDTHS)
def test_the_cut_is_the_first_message_that_differs(
    same: list[tuple[bytes, bool]], ours: list[tuple[bytes, bool]], theirs: list[tuple[bytes, bool]], width: int
) -> None:
    """In its bytes or in its segment, whatever the ranges."""
    follower, leader = _log(same + ours), _log(same + theirs)
    has = leader.messages()
    differing = [offset for offset, message in follower.messages().items() if has.get(offset) != message]
    assert _cut(follower, leader, 0, width) == min(differing, default=follower.appended_end_offset)


@given(MESSAGES, MESSAGES, WIDTHS)
def test_the_same_is_found_when_the_leader_goes_on(
    same: list[tuple[bytes, bool]], more: list[tuple[bytes, bool]], width: int
) -> None:
    """What the leader appends between two answers may become equal: the rest is compared all the same."""
    follower, leader = _log(same + more), _log(same)
    comparison = Comparison(follower, 0, range_bytes=width)
    left = list(more)
    for _ in range(300):
        if comparison.cut is not None:
            break
        comparison.answered(count_equal(leader, comparison.question()))
        if left:
            message, rolls = left.pop(0)
            if rolls:
                leader.roll()
            leader.append(message, leader.segment_offsets[-1])
    assert comparison.cut is not None
    assert len(same) * SIZE <= comparison.cut <= follower.appended_end_offset


def test_below_the_start_nothing_is_compared() -> None:
    """A log that is readable to its end is not compared at all."""
    follower, leader = _log([(b"m1", False), (b"m2", False)]), _log([(b"m2", False), (b"m2", False)])
    assert _cut(follower, leader, SIZE, 1) == 2 * SIZE
    assert Comparison(follower, 2 * SIZE).cut == 2 * SIZE
    assert _cut(follower, leader, 0, 1) == 0


def test_what_the_leader_lacks_differs() -> None:
    """Also a whole partition."""
    follower = _log([(b"m1", False)])
    assert count_equal(None, Comparison(follower, 0).question()) == 0
