from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from kafka2011.replica.known import Known
from kafka2011.replica.state import (
    Follow,
    Lead,
    ReadableFloor,
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
    for state in (
        STATE,
        replace(STATE, settled=6),
        ReplicaState.first(A),
        STATE.elected(A),
        STATE.elected(A).led_by(A),
    ):
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
        '{"epoch": 1, "leader": null, "in_sync": ["a:1"], "settled": 2}',
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
    assert choose_role(A, 7, STATE, 12, None, is_mine=False, has_bytes=0) == lead
    assert choose_role(A, 7, STATE, 12, A, is_mine=True, has_bytes=0) == lead


def test_others_follow_the_leader_that_the_state_names() -> None:
    """Whether in sync or not, and not their own node of an earlier session."""
    assert choose_role(A, 7, STATE, 12, B, is_mine=False, has_bytes=0) == Follow(7, B)
    assert choose_role(Replica("c", "1"), 0, STATE, 12, B, is_mine=False, has_bytes=0) == Follow(7, B)
    assert isinstance(choose_role(B, 7, STATE, 12, B, is_mine=False, has_bytes=0), Wait)
    assert isinstance(choose_role(B, 7, STATE, 12, A, is_mine=False, has_bytes=0), Wait)


def test_a_disk_that_is_not_in_sync_waits() -> None:
    """Also under a name that is."""
    assert isinstance(choose_role(Replica("a", "2"), 7, STATE, 12, None, is_mine=False, has_bytes=0), Wait)


def test_a_state_older_than_what_was_seen_is_refused() -> None:
    """ZooKeeper may have come back from a backup."""
    with pytest.raises(ReplicaStateError, match="seen epoch 8"):
        choose_role(A, 8, STATE, 12, None, is_mine=False, has_bytes=0)


def test_a_disk_that_has_gone_back_waits() -> None:
    """Whoever leads; it has not seen what all in sync have seen, or has less than all in sync had."""
    settled, floor = replace(STATE, settled=7), ReadableFloor(5, 100)
    for node, has_bytes, noted in itertools.product((None, B), (99, 100), (None, floor)):
        for seen in (6, 7):
            role = choose_role(A, seen, settled, 12, node, is_mine=False, has_bytes=has_bytes, floor=noted)
            has_gone_back = seen == 6 or (noted is not None and has_bytes == 99)
            assert (isinstance(role, Wait) and role.has_gone_back) == has_gone_back
    after_loss = replace(settled, loss_epoch=6)
    assert isinstance(choose_role(A, 7, after_loss, 12, None, is_mine=False, has_bytes=0, floor=floor), Lead)
    others = replace(settled, in_sync=frozenset({B}))
    assert choose_role(A, 6, others, 12, B, is_mine=False, has_bytes=0, floor=floor) == Follow(7, B)


def test_it_says_how_many_bytes_are_missing() -> None:
    """An operator has to know what an election gives up."""
    role = choose_role(A, 7, STATE, 12, None, is_mine=False, has_bytes=40, floor=ReadableFloor(5, 100))
    assert isinstance(role, Wait)
    assert "60 are missing" in role.reason


def test_a_floor_is_read_as_it_was_written() -> None:
    """And refused by its path if it is damaged."""
    floor = ReadableFloor(7, 100)
    assert ReadableFloor.of(floor.text, "/replicas/3/floor") == floor
    for text in ("", "{}", '{"epoch": 7}', '{"epoch": -1, "readable_bytes": 1}', '{"epoch": 1, "readable_bytes": "1"}'):
        with pytest.raises(ReplicaStateError, match="/replicas/3/floor"):
            ReadableFloor.of(text, "/replicas/3/floor")


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
