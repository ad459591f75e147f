from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from kafka2011.replica.known import Known
from kafka2011.replica.lineage import MOST_BEGUN, BegunEpoch, SeenState, read_seen
from kafka2011.replica.state import (
    MOST_DELETIONS,
    Follow,
    Lead,
    Proposal,
    ReadableFloor,
    Replica,
    ReplicaState,
    ReplicaStateError,
    StateWrite,
    Wait,
    choose_role,
    to_be_elected,
    why_too_old,
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
        ReplicaState.first(A, "d"),
        ReplicaState.first(A, "d", seen_epoch=4),
        STATE.elected(A, 12, "d", seen_epoch=20),
        STATE.elected(A, 12, "d").led_by(A, 13, "e"),
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
        '{"epoch": 1, "leader": null, "in_sync": ["a:1"], "line": 1}',
        '{"epoch": 1, "leader": null, "in_sync": ["a:1"], "line": [[1, "d"]]}',
        '{"epoch": 1, "leader": null, "in_sync": ["a:1"], "line": ["1d3"]}',
        '{"epoch": 1, "leader": null, "in_sync": ["a:1"], "line": [[1, "d", -1]]}',
        '{"epoch": 1, "leader": null, "in_sync": ["a:1"], "line": [[1, 2, 3]]}',
    ],
)
def test_a_damaged_state_is_refused_by_its_path(text: str) -> None:
    """Whatever is wrong with it."""
    with pytest.raises(ReplicaStateError, match="/replicas/3/state"):
        ReplicaState.of(text, "/replicas/3/state")


def test_who_is_in_sync_takes_the_lead_that_nobody_has() -> None:
    """In a new epoch, on the version that was read; also one's own lead that was not answered."""
    lead = Lead(StateWrite(ReplicaState(8, A, STATE.in_sync, line=(BegunEpoch(8, "d", 13),)), 12))
    assert choose_role(A, 7, STATE, 12, None, is_mine=False, draw="d", has_bytes=0) == lead
    assert choose_role(A, 7, STATE, 12, A, is_mine=True, draw="d", has_bytes=0) == lead


def test_others_follow_the_leader_that_the_state_names() -> None:
    """Whether in sync or not, and not their own node of an earlier session."""
    assert choose_role(A, 7, STATE, 12, B, is_mine=False, draw="d", has_bytes=0) == Follow(7, B)
    assert choose_role(Replica("c", "1"), 0, STATE, 12, B, is_mine=False, draw="d", has_bytes=0) == Follow(7, B)
    assert isinstance(choose_role(B, 7, STATE, 12, B, is_mine=False, draw="d", has_bytes=0), Wait)
    assert isinstance(choose_role(B, 7, STATE, 12, A, is_mine=False, draw="d", has_bytes=0), Wait)


def test_a_disk_that_is_not_in_sync_waits() -> None:
    """Also under a name that is."""
    assert isinstance(choose_role(Replica("a", "2"), 7, STATE, 12, None, is_mine=False, draw="d", has_bytes=0), Wait)


def _line(*draws: str) -> tuple[ReplicaState, int]:
    """Return the state after a takeover for each draw, and its version; in_sync is written after each."""
    state, version = ReplicaState.first(A, "first"), 0
    for draw in draws:
        state = state.led_by(B, version, draw).with_in_sync(frozenset({A, B}), 0)
        version += 2
    return state, version


def test_a_state_comes_after_those_of_its_own_line() -> None:
    """Whatever epoch they are of, and whether their draws are known."""
    state, version = _line("d1", "d2", "d3")
    for earlier in (_line(), _line("d1"), _line("d1", "d2"), (state, version)):
        seen = earlier[0].seen_by(A, earlier[1])
        assert state.comes_after(seen, version), seen
        assert state.comes_after(seen._replace(draw=""), version)
    assert state.comes_after(SeenState(3, "d3", version - 1, is_in_sync=True), version)


def test_a_state_that_went_back_does_not_come_after_what_was_seen() -> None:
    """Also when it has gone on from there, to higher epochs and versions."""
    seen = _line("d1", "d2", "d3")[0].seen_by(A, 6)
    for draws in (["d1"], ["d1", "d2"], ["d1", "d2", "e3"], ["d1", "d2", "e3", "e4", "e5"]):
        assert not _line(*draws)[0].comes_after(seen, 2 * len(draws)), draws
    state, version = _line("d1", "d2", "d3")
    assert not state.comes_after(seen, version - 1)
    begun_later = state.led_by(A, version - 1, "e4")  # instead of the last write that was seen
    assert not begun_later.comes_after(seen, version)


def test_what_was_seen_before_an_accepted_loss_counts_no_more() -> None:
    """An operator has chosen the other one; what an older release has seen is known by its epoch."""
    state, version = _line("d1")
    seen = SeenState(20, "x", 90, is_in_sync=True)
    assert not state.comes_after(seen, version)
    elected = state.elected(A, version, "e", seen_epoch=20)
    assert elected.epoch == 21
    assert elected.comes_after(seen, version + 1)
    assert not state.comes_after(Known(A, 2).newest_seen, version)
    assert state.comes_after(Known(A, 1).newest_seen, version)


def test_only_the_newest_epochs_stand_in_the_state() -> None:
    """Of one that is older nothing is told."""
    state, version = _line(*(f"d{number}" for number in range(1, MOST_BEGUN + 5)))
    assert [begun.epoch for begun in state.line] == list(range(5, MOST_BEGUN + 5))
    assert state.comes_after(SeenState(2, "other", 3, is_in_sync=True), version)


def test_who_has_seen_a_newer_state_keeps_all_from_acting() -> None:
    """The one to be elected was in sync in the newest; of those that were not, the newest."""
    state, version = _line("d1")
    seen = {
        A: SeenState(1, "d1", 2, is_in_sync=True),
        B: SeenState(1, "d1", 4, is_in_sync=True),
        Replica("c", "1"): SeenState(2, "d2", 6, is_in_sync=False),
    }
    why = why_too_old(state, version, seen)
    assert "epoch 1, version 2" in why
    assert "b:51f3 has seen epoch 1, version 4, in sync, c:1 has seen epoch 2, version 6." in why
    assert to_be_elected(state, version, seen) == Proposal(B, may_lack=True)
    seen[Replica("c", "1")] = SeenState(1, "d1", 3, is_in_sync=False)
    assert to_be_elected(state, version, seen) == Proposal(B, may_lack=False)
    del seen[B]
    assert to_be_elected(state, version, seen) == Proposal(A, may_lack=True), "it is in sync by the state"
    del seen[A]
    assert to_be_elected(state, version, seen) == Proposal(Replica("c", "1"), may_lack=True)
    del seen[Replica("c", "1")]
    assert to_be_elected(state, version, seen) is None
    assert not why_too_old(state, version, seen)


@pytest.mark.parametrize("text", ["", "7", "7:d", "7:d:x", "-1:d:3", "7:d:3:x", "7:d:3:in_sync:1"])
def test_what_was_seen_is_not_read_from_another_text(text: str) -> None:
    """A later release may say more there: then it says nothing to this one."""
    with pytest.raises(ValueError, match="is not a state that was seen"):
        SeenState.of(text)
    assert read_seen({A: text, B: "7:d:3:in_sync"}) == {B: SeenState(7, "d", 3, is_in_sync=True)}


def test_a_disk_that_has_gone_back_waits() -> None:
    """Whoever leads; it has not seen what all in sync have seen, or has less than all in sync had."""
    settled, floor = replace(STATE, settled=7), ReadableFloor(5, 100)
    for node, has_bytes, noted in itertools.product((None, B), (99, 100), (None, floor)):
        for seen in (6, 7):
            role = choose_role(A, seen, settled, 12, node, is_mine=False, draw="d", has_bytes=has_bytes, floor=noted)
            has_gone_back = seen == 6 or (noted is not None and has_bytes == 99)
            assert (isinstance(role, Wait) and role.has_gone_back) == has_gone_back
    after_loss = replace(settled, loss_epoch=6)
    assert isinstance(choose_role(A, 7, after_loss, 12, None, is_mine=False, draw="d", has_bytes=0, floor=floor), Lead)
    others = replace(settled, in_sync=frozenset({B}))
    assert choose_role(A, 6, others, 12, B, is_mine=False, draw="d", has_bytes=0, floor=floor) == Follow(7, B)


def test_it_says_how_many_bytes_are_missing() -> None:
    """An operator has to know what an election gives up."""
    role = choose_role(A, 7, STATE, 12, None, is_mine=False, draw="d", has_bytes=40, floor=ReadableFloor(5, 100))
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
    seen = SeenState(8, "d", 13, is_in_sync=True)
    elected = STATE.elected(A, 12, "d")
    assert known.entering(STATE.led_by(A, 12, "d"), 13) == Known(A, 8, {VIEWS: 10}, seen)
    assert known.entering(elected, 13) == Known(A, 8, seen=seen)
    led = elected.led_by(A, 13, "e")
    assert Known(A, 8, {VIEWS: 4}).entering(led, 14) == Known(A, 9, {VIEWS: 4}, SeenState(9, "e", 14, is_in_sync=True))


def test_partitions_that_a_disk_had_are_missed() -> None:
    """In order."""
    other = TopicPartition("clicks", 3, 0)
    assert Known(A, 7, {VIEWS: 10, other: 0}).missing([]) == [other, VIEWS]
    assert Known(A, 7, {VIEWS: 10}).missing([VIEWS, other]) == []


def test_a_topic_is_deleted_in_an_epoch_of_its_own() -> None:
    """Whoever has seen that has done it; a request that is repeated does it again, and another topic too."""
    state = ReplicaState(4, A, frozenset({A, B}), settled=4)
    deleting = state.deleting("views", "1-0", 7, "draw")
    assert deleting.leader is None
    assert (deleting.epoch, deleting.in_sync, deleting.settled) == (5, frozenset({A, B}), 4)
    assert ReplicaState.of(deleting.text, "here") == deleting
    assert [sorted(deleting.deleted_since(epoch)) for epoch in (3, 4, 5)] == [["views"], ["views"], []]
    assert deleting.has_done("views", "1-0")
    assert not deleting.has_done("views", "2-0")
    assert not deleting.has_done("clicks", "1-0")
    assert (state.floor_epoch, deleting.floor_epoch) == (0, 5)
    later = deleting.led_by(A, 8, "draw").deleting("clicks", "3-0", 9, "draw").elected(B, 10, "draw")
    assert later.deleted_since(4) == {"views", "clicks"}
    assert later.deleted_since(5) == {"clicks"}
    again = later.deleting("views", "4-0", 11, "draw")
    assert [each.topic for each in again.deleted] == ["clicks", "views"]
    assert again.deleted_since(7) == {"views"}


def test_only_the_last_deletions_are_remembered() -> None:
    """The state stays small enough for a znode."""
    state = ReplicaState(0, A, frozenset({A}))
    for number in range(MOST_DELETIONS + 5):
        state = state.deleting(f"t{number}", "1-0", number, "draw")
    assert len(state.deleted) == MOST_DELETIONS
    assert (state.deleted[0].topic, state.deleted[-1].topic) == ("t5", f"t{MOST_DELETIONS + 4}")


@pytest.mark.parametrize("deleted", [7, [["views", 1]], [["views", "1", "1-0"]], [[1, 1, "1-0"]], [["views", 1, 1]]])
def test_deletions_that_are_none_are_refused(deleted: object) -> None:
    document = {"epoch": 4, "leader": str(A), "in_sync": [str(A)], "deleted": deleted}
    with pytest.raises(ReplicaStateError, match="the state of replicas in here is not one"):
        ReplicaState.of(json.dumps(document), "here")
