"""A follower of several partitions: what is wrong with one of them stays with it."""

from __future__ import annotations

import pytest

from kafka2011.errors import LogClosedError, LogError
from kafka2011.replica.exchange import Ask, Given, ReplicaData
from kafka2011.replica.followed_log import DamagedBytesError, OtherBytesError
from kafka2011.replica.following import Following
from kafka2011.replica.state import Follow, Replica
from tests.models.replica.logs import ModelLog
from tests.planted.patches import read_defects
from tests.planted.planting import planted
from zk.cluster import TopicPartition

A, B = Replica("a", "9c2e"), Replica("b", "51f3")
VIEWS, CLICKS = TopicPartition("views", 3, 0), TopicPartition("clicks", 3, 0)
NOTHING = Given(0, 0, 0)


class RefusingLog(ModelLog):
    """Raises `error` instead of appending, while there is one."""

    error: LogError | None = None

    def append(self, data: bytes, segment: int, _modified_ms: int = 0) -> None:
        if self.error is not None:
            raise self.error
        super().append(data, segment)


def _following(views: ModelLog, clicks: ModelLog) -> Following:
    """Return a follower that has compared its empty logs."""
    logs: dict[TopicPartition, ModelLog] = {VIEWS: views, CLICKS: clicks}
    following = Following(B, Follow(7, A), logs=logs, readable={}, new_log=lambda _: ModelLog())
    following.fetch()
    following.take(_given(NOTHING, NOTHING))
    following.fetch()
    return following


def _given(views: Given, clicks: Given) -> ReplicaData:
    return ReplicaData(7, {VIEWS: views, CLICKS: clicks})


def test_a_partition_that_cannot_append_stops_no_other() -> None:
    """It asks from the leader's end on until it is to try again, and says truly what it has on disk."""
    views, clicks = RefusingLog(), ModelLog()
    following = _following(views, clicks)
    views.error = DamagedBytesError("offset 0 of views-0 is damaged")
    following.take(_given(Given(0, 8, 8, data=b"m1m2"), Given(0, 4, 4, data=b"n1n2")))
    assert following.obstacles() == {VIEWS: views.error}
    assert clicks.appended_end_offset == 4
    assert following.fetch().asks == {VIEWS: Ask(8, 0), CLICKS: Ask(4, 0)}
    following.take(_given(Given(0, 10, 8, data=b"m5"), Given(0, 6, 4, data=b"n3")))
    assert (views.appended_end_offset, clicks.appended_end_offset) == (0, 6)
    assert following.fetch().asks[VIEWS] == Ask(10, 0)


def test_a_partition_that_tries_again_has_its_obstacle_until_something_came() -> None:
    """An answer may be full of what other partitions get."""
    views, clicks = RefusingLog(), ModelLog()
    following = _following(views, clicks)
    views.error = error = DamagedBytesError("offset 0 of views-0 is damaged")
    following.take(_given(Given(0, 4, 4, data=b"m1m2"), NOTHING))
    following.retry([VIEWS])
    assert following.fetch().asks[VIEWS] == Ask(0, 0)
    following.take(_given(Given(0, 4, 4), NOTHING))
    assert following.obstacles() == {VIEWS: error}
    following.take(_given(Given(0, 4, 4, data=b"m1m2"), NOTHING))
    assert following.fetch().asks[VIEWS] == Ask(4, 0)
    following.retry([VIEWS])
    views.error = None
    following.take(_given(Given(0, 4, 4, data=b"m1m2"), NOTHING))
    assert following.obstacles() == {}
    assert views.appended_end_offset == 4


def test_an_error_that_an_operator_decides_is_raised_when_all_others_have_taken_theirs() -> None:
    """Before any other error. The partition begins to compare again."""
    views, clicks = ModelLog(), ModelLog()
    views.append(b"m1", 0)
    views.flush()
    following = Following(
        B, Follow(7, A), logs={VIEWS: views, CLICKS: clicks}, readable={VIEWS: 2}, new_log=lambda _: ModelLog()
    )
    following.fetch()
    with pytest.raises(OtherBytesError):
        following.take(_given(Given(0, 2, 2, equal=0), NOTHING))
    assert following.fetch().asks[CLICKS] == Ask(0, 0)  # its comparison is over
    assert following.obstacles() == {}


def test_a_log_that_has_failed_ends_all() -> None:
    """The process cannot go on with a disk that does not write."""
    views = RefusingLog()
    following = _following(views, ModelLog())
    views.error = LogClosedError("closed")
    with pytest.raises(LogClosedError):
        following.take(_given(Given(0, 4, 4, data=b"m1m2"), NOTHING))


@pytest.mark.parametrize("name", ["an error of one partition holds up all", "a partition that is held up claims all"])
def test_a_planted_defect_is_noticed(name: str) -> None:
    """The tests above fail for these."""
    with planted(read_defects("damage")[name]), pytest.raises((AssertionError, LogError)):
        test_a_partition_that_cannot_append_stops_no_other()
