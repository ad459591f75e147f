from __future__ import annotations

import pytest

from kafka2011.replica.known import Known
from kafka2011.replica.state import (
    Follow,
    Lead,
    Replica,
    ReplicaState,
    ReplicaStateError,
    StateWrite,
    Wait,
    choose_role,
)
from zk.cluster import TopicPartition

A, B = Replica("a", "9c2e"), Replica("b", "51f3")
STATE = ReplicaState(7, B, frozenset({A, B}))
VIEWS = TopicPartition("views", 3, 0)


def test_a_state_is_read_as_it_was_written() -> None:
    """Also one with an accepted loss, and one without a leader."""
    assert STATE.text == '{"epoch": 7, "leader": "b:51f3", "in_sync": ["a:9c2e", "b:51f3"]}'
    for state in (STATE, ReplicaState.first(A), STATE.elected(A), STATE.elected(A).led_by(A)):
        assert ReplicaState.of(state.text, "/replicas/3/state") == state


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"epoch": 7}',
        '{"epoch": -1, "leader": null, "in_sync": ["a:1"]}',
        '{"epoch": true, "leader": null, "in_sync": ["a:1"]}',
        '{"epoch": 1, "leader": null, "in_sync": ["a:1"], "loss_epoch": 2}',
        '{"epoch": 1, "leader": null, "in_sync": []}',
        '{"epoch": 1, "leader": null, "in_sync": ["a:1", "a:2"]}',
        '{"epoch": 1, "leader": "a", "in_sync": ["a:1"]}',
        '{"epoch": 1, "leader": null, "in_sync": ["a b:1"]}',
        '{"epoch": 1, "leader": null, "in_sync": [1]}',
        '{"epoch": 1, "leader": null, "in_sync": 1}',
    ],
)
def test_a_damaged_state_is_refused_by_its_path(text: str) -> None:
    """Whatever is wrong with it."""
    with pytest.raises(ReplicaStateError, match="/replicas/3/state"):
        ReplicaState.of(text, "/replicas/3/state")


def test_who_is_in_sync_takes_the_lead_that_nobody_has() -> None:
    """In a new epoch, on the version that was read; also one's own lead that was not answered."""
    lead = Lead(StateWrite(ReplicaState(8, A, STATE.in_sync), 12))
    assert choose_role(A, 7, STATE, 12, None, is_mine=False) == lead
    assert choose_role(A, 7, STATE, 12, A, is_mine=True) == lead


def test_others_follow_the_leader_that_the_state_names() -> None:
    """Whether in sync or not, and not their own node of an earlier session."""
    assert choose_role(A, 7, STATE, 12, B, is_mine=False) == Follow(7, B)
    assert choose_role(Replica("c", "1"), 0, STATE, 12, B, is_mine=False) == Follow(7, B)
    assert isinstance(choose_role(B, 7, STATE, 12, B, is_mine=False), Wait)
    assert isinstance(choose_role(B, 7, STATE, 12, A, is_mine=False), Wait)


def test_a_disk_that_is_not_in_sync_waits() -> None:
    """Also under a name that is."""
    assert isinstance(choose_role(Replica("a", "2"), 7, STATE, 12, None, is_mine=False), Wait)


def test_a_state_older_than_what_was_seen_is_refused() -> None:
    """ZooKeeper may have come back from a backup."""
    with pytest.raises(ReplicaStateError, match="seen epoch 8"):
        choose_role(A, 8, STATE, 12, None, is_mine=False)


def test_what_a_replica_knows_is_read_as_it_was_written() -> None:
    """With topics of any name."""
    known = Known(A, 7, {VIEWS: 10, TopicPartition('q"é', 3, 1): 0})
    assert Known.of(known.text, "replica") == known


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"replica": "a:1", "epoch": 1}',
        '{"replica": "a:1", "epoch": "1", "readable": []}',
        '{"replica": "a:1", "epoch": 1, "readable": [["t", 0, 0, -1]]}',
        '{"replica": "a:1", "epoch": 1, "readable": [["t", 0, 0]]}',
        '{"replica": "a", "epoch": 1, "readable": []}',
    ],
)
def test_damaged_knowledge_is_refused_by_its_path(text: str) -> None:
    """Whatever is wrong with it."""
    with pytest.raises(ReplicaStateError, match="/data/replica"):
        Known.of(text, "/data/replica")


def test_what_is_known_never_goes_back_but_by_a_loss() -> None:
    """Neither epochs nor offsets."""
    known = Known(A, 7, {VIEWS: 10})
    assert known.with_readable({VIEWS: 8}).readable == {VIEWS: 10}
    assert known.entering(STATE.led_by(A)) == Known(A, 8, {VIEWS: 10})
    assert known.entering(STATE.elected(A)) == Known(A, 8)
    assert Known(A, 8, {VIEWS: 4}).entering(STATE.elected(A).led_by(A)) == Known(A, 9, {VIEWS: 4})


def test_partitions_that_a_disk_had_are_missed() -> None:
    """In order."""
    other = TopicPartition("clicks", 3, 0)
    assert Known(A, 7, {VIEWS: 10, other: 0}).missing([]) == [other, VIEWS]
    assert Known(A, 7, {VIEWS: 10}).missing([VIEWS, other]) == []
