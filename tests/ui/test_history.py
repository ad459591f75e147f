"""What is made of two looks at a cluster."""

from __future__ import annotations

from dataclasses import replace

from kafka2011.admin.snapshot.cluster_snapshot import BrokerInfo, ClusterSnapshot, GroupInfo, MemberInfo
from kafka2011.ui.history import (
    CAME,
    CLAIMED,
    JOINED,
    LEFT,
    RELEASED,
    UNSEEN,
    WENT,
    RebalanceHistory,
    RebalanceStep,
    rebalances_of,
)
from zk.cluster import Broker, TopicPartition
from zk.owners import Owner

ONE, TWO = TopicPartition("views", 0, 0), TopicPartition("views", 1, 0)
BROKERS = {number: BrokerInfo(Broker(number, "h", 9092), 1000) for number in (0, 1)}


def cluster(members: dict[str, int], owners: dict[TopicPartition, tuple[str, int]]) -> ClusterSnapshot:
    group = GroupInfo(
        {name: MemberInfo("*1*.*", since_ms) for name, since_ms in members.items()},
        {where: Owner(f"{name}-0", 1, since_ms) for where, (name, since_ms) in owners.items()},
    )
    return ClusterSnapshot(BROKERS, {"views": {0: 1, 1: 1}}, {"g": group})


def history_of(*looks: tuple[int, ClusterSnapshot]) -> RebalanceHistory:
    history = RebalanceHistory()
    for now_ms, seen in looks:
        history.note(seen, now_ms)
    return history


def span(partition: str, member: str, begin_ms: int, end_ms: int | None) -> dict[str, object]:
    return {"partition": partition, "member": member, "begin_ms": begin_ms, "end_ms": end_ms}


BOTH = cluster({"a": 500, "b": 600}, {ONE: ("a", 700), TWO: ("b", 700)})


def test_what_stood_before_the_first_look_is_no_step() -> None:
    """But since when it stands is known from ZooKeeper."""
    history = history_of((5000, BOTH), (6000, BOTH))
    assert history.rebalances("g") == []
    assert history.document("g")["spans"] == [span("views/0-0", "a", 700, None), span("views/1-0", "b", 700, None)]


def test_a_member_that_dies_is_told_step_by_step() -> None:
    """Its session ends, its nodes go, another claims the partition, and the time without an owner is counted."""
    gone = cluster({"a": 500}, {ONE: ("a", 700)})
    taken = cluster({"a": 500}, {ONE: ("a", 700), TWO: ("a", 6800)})
    history = history_of((5000, BOTH), (6000, gone), (7000, taken))
    [found] = history.rebalances("g")
    assert found.steps == [
        RebalanceStep(6000, LEFT, "b"),
        RebalanceStep(6000, RELEASED, "b-0", "views/1-0"),
        RebalanceStep(6800, CLAIMED, "a-0", "views/1-0"),
    ]
    assert (found.causes, found.moved, found.longest_without_owner_ms, found.waiting) == (["member b left"], 1, 800, 0)
    assert history.document("g")["spans"][1:] == [
        span("views/1-0", "b", 700, 6000),
        span("views/1-0", "a", 6800, None),
    ]
    assert history.document("g")["rebalances"][0]["steps"][0] == {
        "at_ms": 6000,
        "kind": LEFT,
        "who": "b",
        "where": "",
    }
    assert history.last("g") == found


def test_who_left_did_so_before_another_claimed() -> None:
    """Also when both were seen at once, and ZooKeeper's time of the claim is the only one."""
    taken = cluster({"a": 500}, {ONE: ("a", 700), TWO: ("a", 5800)})
    [found] = history_of((5000, BOTH), (6000, taken)).rebalances("g")
    assert [(step.at_ms, step.kind) for step in found.steps] == [(5800, LEFT), (5800, RELEASED), (5800, CLAIMED)]


def test_who_left_is_stamped_by_the_first_look_that_missed_something_of_theirs() -> None:
    """The list of members may be read a moment before a session ends, and the owners after it."""
    ownerless = cluster({"a": 500, "b": 600}, {ONE: ("a", 700)})
    taken = cluster({"a": 500}, {ONE: ("a", 700), TWO: ("a", 6800)})
    [found] = history_of((5000, BOTH), (6000, ownerless), (7000, taken)).rebalances("g")
    assert [(step.at_ms, step.kind) for step in found.steps] == [(6000, RELEASED), (6000, LEFT), (6800, CLAIMED)]


def test_who_left_did_so_before_a_claim_that_an_earlier_look_saw() -> None:
    """A look may read the members before a session ends, and the owners after another member has claimed them."""
    taken = {ONE: ("a", 700), TWO: ("a", 5800)}
    looks = ((5000, BOTH), (6000, cluster({"a": 500, "b": 600}, taken)), (7000, cluster({"a": 500}, taken)))
    [rebalance] = history_of(*looks).rebalances("g")
    assert [(step.at_ms, step.kind) for step in rebalance.steps] == [(5800, RELEASED), (5800, LEFT), (5800, CLAIMED)]


def test_clocks_that_are_apart_do_not_change_the_order() -> None:
    """A stamp of ZooKeeper's is kept between the looks before and after it."""
    early = cluster({"a": 500, "c": 10}, {ONE: ("c", 20), TWO: ("b", 99_000)})
    [found] = history_of((5000, BOTH), (6000, early)).rebalances("g")
    assert [(step.at_ms, step.kind, step.who) for step in found.steps] == [
        (5000, JOINED, "c"),
        (5000, RELEASED, "a-0"),
        (5000, CLAIMED, "c-0"),
        (6000, LEFT, "b"),
        (6000, RELEASED, "b-0"),
        (6000, CLAIMED, "b-0"),
    ]
    assert found.moved == 1  # b has claimed its own again


def test_rebalances_are_told_apart_by_quiet() -> None:
    """One that still waits for an owner goes on, however long it takes; brokers that go have no partitions to own."""
    steps = [RebalanceStep(1000, RELEASED, "a-0", "views/0-0"), RebalanceStep(60_000, CLAIMED, "b-0", "views/0-0")]
    [one] = rebalances_of([*steps, RebalanceStep(61_000, JOINED, "c")])
    assert (one.longest_without_owner_ms, one.moved, one.end_ms) == (59_000, 1, 61_000)
    assert len(list(rebalances_of([*steps, RebalanceStep(64_000, JOINED, "c")]))) == 2
    gone = [
        RebalanceStep(1000, RELEASED, "a-0", "views/0-0"),
        RebalanceStep(1000, WENT, "0"),
        RebalanceStep(9000, CAME, "0"),
    ]
    assert [each.waiting for each in rebalances_of(gone)] == [1, 0]


def test_a_time_in_which_nobody_looked_is_said() -> None:
    """What changed in it is stamped by the looks around it."""
    history = RebalanceHistory()
    history.note(BOTH, 5000, is_first=True)
    history.note(cluster({"a": 500}, {ONE: ("a", 700), TWO: ("a", 50_000)}), 90_000, is_first=True)
    assert {step.kind for each in history.rebalances("g") for step in each.steps} >= {UNSEEN, LEFT, CLAIMED}


def test_brokers_and_groups_come_and_go() -> None:
    """A broker is part of each group's history; a new group's members have joined; one that is deleted is forgotten."""
    history = history_of((5000, replace(BOTH, groups={})), (6000, BOTH), (16_000, replace(BOTH, brokers={})))
    kinds = [step.kind for each in history.rebalances("g")[::-1] for step in each.steps]
    assert kinds.count(JOINED) == 2
    assert kinds[-2:] == [WENT, WENT]
    history.note(replace(BOTH, groups={}), 17_000)
    assert history.rebalances("g") == []
