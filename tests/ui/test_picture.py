"""The picture that browsers get."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafka2011.admin.replicas import BrokerReplicas, ReplicaStanding
from kafka2011.admin.snapshot.cluster_snapshot import BrokerInfo, ClusterSnapshot, GroupInfo, LogOffsets, MemberInfo
from kafka2011.replica.state import Replica, ReplicaState
from kafka2011.ui import picture as picture_module
from kafka2011.ui.history import RebalanceHistory
from kafka2011.ui.lag import LagBook
from kafka2011.ui.picture import picture, rows_of
from zk.cluster import Broker, TopicPartition
from zk.gateway_members import GatewayMember
from zk.offsets import CommittedOffset
from zk.owners import Owner

if TYPE_CHECKING:
    import pytest

HOSTILE = "<img src=x onerror=alert(1)>"
WHERES = [TopicPartition("views", number // 2, number % 2) for number in range(4)]
ENDS = {where: LogOffsets(100, 1000) for where in WHERES}
MEMBER = MemberInfo('{ "views": 1 }', 400)


def seen(**groups: GroupInfo) -> ClusterSnapshot:
    errors = ("", "refused")
    brokers = {number: BrokerInfo(Broker(number, "h", 9092 + number), 7, errors[number]) for number in (0, 1)}
    return ClusterSnapshot(brokers, {"views": {0: 2, 1: 2}}, groups, ENDS)


def drawn(cluster: ClusterSnapshot) -> dict[str, Any]:
    lags = LagBook()
    lags.note(rows_of(cluster), 1.0)
    return picture(cluster, rows_of(cluster), lags, RebalanceHistory())


def row(where: TopicPartition, **known: object) -> dict[str, object]:
    fields = ("owner", "owned_since_ms", "committed", "committed_at_ms", "lag_bytes", "lag_s")
    named = {"topic": where.topic, "broker": where.broker_id, "partition": where.znode_name}
    return {**named, "end": 1000, **dict.fromkeys(fields), "state": "learning", **known}


def test_it_says_who_owns_what_and_how_far_they_are() -> None:
    """Row by row; what a group subscribes to and nobody owns is there too."""
    group = GroupInfo({"g_a": MEMBER}, {WHERES[0]: Owner("g_a-0", 1, 500)}, {WHERES[0]: CommittedOffset(700, 3, 600)})
    found = drawn(seen(g=group))
    [of_group] = found["groups"]
    assert of_group["partitions"] == [
        row(WHERES[0], owner="g_a", owned_since_ms=500, committed=700, committed_at_ms=600, lag_bytes=300),
        *map(row, WHERES[1:]),
    ]
    assert (of_group["ownerless"], of_group["lag_bytes"], of_group["state"]) == (3, 300, "learning")
    assert found["partitions"][0] == {"topic": "views", "broker": 0, "partition": "0-0", "earliest": 100, "end": 1000}
    assert [(each["bytes"], each["unread"], each["error"]) for each in found["brokers"]] == [
        (1800, {"g": 300}, ""),
        (1800, {}, "refused"),
    ]


def test_copies_are_told_where_there_are_some() -> None:
    """A broker without replicas has none."""
    a, b = Replica("a", "0a"), Replica("b", "0b")
    standings = (
        ReplicaStanding(1, a, "leader", True, 3, "h:1", 0, 0.0),
        ReplicaStanding(1, b, "follower", False, 3, "h:2", 700, 1.5),
    )
    replicated = replace(seen(), replicas={1: BrokerReplicas(1, ReplicaState.first(a), standings)})
    found = picture(replicated, {}, LagBook(), RebalanceHistory())
    assert [each["replicas"] for each in found["brokers"]] == [
        [],
        [
            {"name": "a", "role": "leader", "is_in_sync": True, "bytes_behind": 0, "seconds_behind": 0.0},
            {"name": "b", "role": "follower", "is_in_sync": False, "bytes_behind": 700, "seconds_behind": 1.5},
        ],
    ]


def test_a_group_without_members_is_told_at_once() -> None:
    """It needs no ten looks; one that has read everything is well all the same."""
    behind = GroupInfo(offsets={WHERES[0]: CommittedOffset(700, 3)})
    done = GroupInfo(offsets={WHERES[0]: CommittedOffset(1000, 3)})
    found = {each["name"]: each["state"] for each in drawn(seen(behind=behind, done=done))["groups"]}
    assert found == {"behind": "nobody reads", "done": "ok"}


def test_an_empty_partition_is_no_reason_to_doubt() -> None:
    """Nobody commits what cannot be read."""
    empty = replace(seen(g=GroupInfo({"g_a": MEMBER})), log_offsets=dict.fromkeys(WHERES, LogOffsets(0, 0)))
    [group] = drawn(empty)["groups"]
    assert group["state"] == "ok"


def test_a_malformed_subscription_is_none() -> None:
    """The group's own members say so; the picture shows the text as it is."""
    [group] = drawn(seen(g=GroupInfo({HOSTILE: MemberInfo(HOSTILE, 1)})))["groups"]
    assert (group["partitions"], group["members"][0]["subscription"]) == ([], HOSTILE)


def test_members_of_today_are_shown_with_client_id_and_address() -> None:
    client = GatewayMember("rdkafka-1", HOSTILE, "10.0.0.1")
    [group] = drawn(seen(g=GroupInfo({"g_a": MEMBER, "g_b": MEMBER._replace(client=client)})))["groups"]
    assert [member["client"] for member in group["members"]] == [None, [HOSTILE, "10.0.0.1"]]


def test_so_many_rows_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out is counted."""
    monkeypatch.setattr(picture_module, "MOST_ROWS", 3)
    offsets = dict.fromkeys(WHERES, CommittedOffset(700, 3))
    found = drawn(seen(a=GroupInfo(offsets=offsets), b=GroupInfo(offsets=offsets)))
    assert [len(each["partitions"]) for each in found["groups"]] == [3, 0]
    assert (len(found["partitions"]), found["omitted"]) == (3, 1 + 1 + 4)
    assert found["groups"][1]["lag_bytes"] == 1200
