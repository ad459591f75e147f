"""What a client is told of its share, and when a partition may be given up: each rule by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafka2011.gateway.groups.member_state import MemberState
from kafka2011.gateway.protocol.errors import ErrorCode
from tests.planted.patches import Defect, read_defects
from tests.support.noticing import assert_noticed
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

P, Q, R = (TopicPartition("t", 0, number) for number in range(3))


def joined(*share: TopicPartition) -> MemberState:
    """Return a member whose client has joined and was told its share."""
    state = MemberState()
    state.take(share)
    state.join(())
    state.sync(state.answer_join())
    return state


def told(state: MemberState, may_have: Callable[[TopicPartition], bool] = lambda _: True) -> set[TopicPartition]:
    """Answer the client that has joined, and return what it is told."""
    share = state.sync(state.answer_join(), may_have)
    assert not isinstance(share, ErrorCode)
    return set(share)


def test_a_client_is_told_its_share_and_then_left_alone() -> None:
    state = MemberState()
    state.take([P, Q])
    state.join(())
    assert told(state) == {P, Q}
    assert state.heartbeat(state.generation) is ErrorCode.NONE


def test_what_is_claimed_later_makes_the_client_join_again() -> None:
    state = joined(P)
    state.take([Q])
    assert state.heartbeat(1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_partition_is_given_up_once_the_client_has_joined_without_it() -> None:
    """One that gives up everything before it joins has nothing; one that keeps what it can says what it still has."""
    state = joined(P, Q)
    state.begin_release(Q)
    assert not state.may_release(Q)
    assert state.waits_for_client
    assert state.heartbeat(1) is ErrorCode.REBALANCE_IN_PROGRESS
    state.join([P, Q])
    assert not state.may_release(Q)
    assert told(state) == {P}
    assert not state.may_release(Q)
    state.join([P])
    assert state.may_release(Q)
    assert not state.waits_for_client


def test_a_client_has_nothing_that_it_was_never_given() -> None:
    state = joined(P)
    state.begin_release(P)
    state.join([P, R])
    state.end_release(P)
    state.begin_release(R)
    assert state.may_release(R)


def test_what_the_client_had_counts_until_it_says_otherwise() -> None:
    """It gives up what it is not given only after the answer to SyncGroup."""
    state = joined(P)
    state.begin_release(P)
    state.join([P])
    state.take([Q])
    assert told(state) == {Q}
    assert not state.may_release(P)


def test_what_was_lost_with_a_session_makes_the_client_join_again() -> None:
    state = joined(P)
    state.end_release(P)
    assert state.heartbeat(1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_what_has_no_number_yet_is_told_later() -> None:
    state = MemberState()
    state.take([P, Q])
    state.join(())
    assert told(state, lambda where: where == P) == {P}
    assert state.may_release(Q)
    assert state.heartbeat(1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_older_generation_is_refused() -> None:
    state = joined(P)
    state.join(())
    state.answer_join()
    for answer in (state.sync(1), state.heartbeat(1), state.may_commit(1)):
        assert answer is ErrorCode.ILLEGAL_GENERATION
    assert state.may_commit(2) is ErrorCode.NONE


def test_nothing_waits_for_a_client_that_is_gone() -> None:
    state = joined(P)
    state.begin_release(P)
    state.leave()
    assert state.may_release(P)
    assert state.heartbeat(1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert state.may_commit(1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_another_process_of_a_static_member_has_nothing_yet() -> None:
    """Its share stays, and it is told that when it joins."""
    state = joined(P, Q)
    state.begin_release(Q)
    state.restart()
    assert state.may_release(Q)
    state.join(())
    assert told(state) == {P}


DEFECTS = [defect for defect in read_defects("gateway_groups").values() if defect.shows["file"] == "test_member_state"]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_noticed(defect: Defect, request: pytest.FixtureRequest) -> None:
    """The test that it names fails with it."""
    assert_noticed(defect, globals()[defect.shows["noticed_by"]], request)
