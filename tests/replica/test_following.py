"""A follower of several partitions: what is wrong with one of them stays with it."""

from __future__ import annotations

import pytest

from kafka2011.errors import LogClosedError, LogError
from kafka2011.replica.exchange import Ask, Given, ReplicaData
from kafka2011.replica.followed_log import DamagedBytesError, DoubtfulCutError, OtherBytesError
from kafka2011.replica.following import Following
from kafka2011.replica.segments import DamageGiven
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


def _copies_damage(views: RefusingLog) -> Following:
    """Copy four damaged bytes, of a segment that has two more."""
    following = _following(views, ModelLog())
    views.error = DamagedBytesError("offset 0 of views-0 is damaged")
    following.take(_given(Given(0, 8, 8, data=b"????m5"), NOTHING))
    assert following.end_of(VIEWS) == 0
    assert following.copy_damaged(VIEWS, 0, DamageGiven.listed(0, 4, 0, b"????"))
    views.error = None
    return following


def test_damaged_bytes_are_copied_as_they_are_where_the_log_goes_on() -> None:
    views = RefusingLog()
    following = _copies_damage(views)
    assert following.obstacles() == {}
    assert views.now == ((0, b"????"),)
    assert not following.copy_damaged(VIEWS, 0, DamageGiven.listed(0, 4, 0, b"????"))
    assert following.fetch().asks[VIEWS] == Ask(4, 0)


def is_known_only_behind_the_damaged_segment() -> None:
    """Check that a disk has what it knows to be readable after a crash, which cuts its last segment at the damage."""
    views = RefusingLog()
    following = _copies_damage(views)
    views.flush()
    following.take(_given(Given(0, 8, 8, data=b"m5"), NOTHING))
    views.flush()
    following.take(_given(Given(0, 8, 8), NOTHING))
    assert following.readable()[VIEWS] == 0
    following.take(_given(Given(0, 8, 8, segment=6, data=b"m7"), NOTHING))
    views.flush()
    following.take(_given(Given(0, 8, 8), NOTHING))
    assert following.readable()[VIEWS] == 8


def test_what_is_readable_is_noted_once_the_damaged_segment_is_closed() -> None:
    is_known_only_behind_the_damaged_segment()


def _differs_in_first_message(views: ModelLog) -> tuple[Following, OtherBytesError]:
    views.append(b"m1m2m3", 0)
    views.flush()
    logs: dict[TopicPartition, ModelLog] = {VIEWS: views}
    following = Following(B, Follow(7, A), logs=logs, readable={VIEWS: 6}, new_log=lambda _: ModelLog())
    following.fetch()
    with pytest.raises(OtherBytesError) as raised:
        following.take(ReplicaData(7, {VIEWS: Given(0, 6, 6, equal=0)}))
    return following, raised.value


def test_good_messages_are_kept_where_the_leader_has_damaged_ones() -> None:
    """What comes after these is compared; nothing is cut."""
    views = ModelLog()
    following, error = _differs_in_first_message(views)
    assert (error.where, error.offset) == (VIEWS, 0)
    assert following.pass_damaged(VIEWS, error.offset, 2)
    ranges = following.fetch().asks[VIEWS].compare
    assert (ranges[0].start, ranges[-1].end) == (2, 6)
    following.take(ReplicaData(7, {VIEWS: Given(0, 6, 6, equal=len(ranges))}))
    assert following.fetch().asks[VIEWS] == Ask(6, 6)
    assert views.messages().keys() == {0, 2, 4}


def test_messages_that_are_damaged_here_too_are_not_kept() -> None:
    class DamagedLog(ModelLog):
        def are_good(self, _start: int, _end: int) -> bool:
            return False

    following, error = _differs_in_first_message(DamagedLog())
    assert not following.pass_damaged(VIEWS, error.offset, 2)


def keeps_what_may_be_the_only_good_copy() -> None:
    """No client was told of it yet; it is cut only once the leader's message is known to be good."""
    views = ModelLog()
    views.append(b"m1m2m3", 0)
    views.flush()
    logs: dict[TopicPartition, ModelLog] = {VIEWS: views}
    following = Following(B, Follow(7, A), logs=logs, readable={}, new_log=lambda _: ModelLog(), asks_before_cuts=True)
    differs = ReplicaData(7, {VIEWS: Given(0, 6, 6, equal=0)})
    for _ in range(2):
        following.fetch()
        with pytest.raises(DoubtfulCutError) as raised:
            following.take(differs)
        assert (raised.value.where, raised.value.offset) == (VIEWS, 0)
        assert views.messages().keys() == {0, 2, 4}
    following.confirm_cut(VIEWS, 0)
    following.fetch()
    following.take(differs)
    assert views.messages() == {}


def test_a_good_message_that_differs_is_cut_only_once_the_leaders_is_known_to_be_good() -> None:
    keeps_what_may_be_the_only_good_copy()


def test_a_message_that_is_cut_without_a_question_is_noticed() -> None:
    with (
        planted(read_defects("damage")["a good message is cut before the leader is asked"]),
        pytest.raises(pytest.fail.Exception),
    ):
        keeps_what_may_be_the_only_good_copy()


def test_what_the_leader_has_nothing_of_is_cut_without_a_question() -> None:
    views = ModelLog()
    views.append(b"m1m2m3", 0)
    views.flush()
    logs: dict[TopicPartition, ModelLog] = {VIEWS: views}
    following = Following(B, Follow(7, A), logs=logs, readable={}, new_log=lambda _: ModelLog(), asks_before_cuts=True)
    following.fetch()
    following.take(ReplicaData(7, {VIEWS: Given(0, 0, 0, equal=0)}))
    assert views.messages() == {}


def test_a_disk_that_knows_too_much_is_noticed() -> None:
    with planted(read_defects("damage")["what is damaged is known as readable"]), pytest.raises(AssertionError):
        is_known_only_behind_the_damaged_segment()
