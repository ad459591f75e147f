"""What a snapshot of a cluster says of partitions and groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka2011.admin.snapshot.cluster_snapshot import (
    BrokerInfo,
    ClusterSnapshot,
    GroupInfo,
    GroupPartition,
    LogOffsets,
    MemberInfo,
    Pace,
    PartitionEnds,
)
from kafka2011.errors import KafkaError
from kafka2011.ui.history import RebalanceHistory
from kafka2011.ui.lag import LagBook
from kafka2011.ui.picture import picture, rows_of
from zk.cluster import Broker, TopicPartition
from zk.offsets import CommittedOffset
from zk.owners import Owner

ZERO, ONE, CLICKS = TopicPartition("views", 0, 0), TopicPartition("views", 1, 0), TopicPartition("clicks", 0, 0)
GROUP = GroupInfo(
    {"g_a": MemberInfo('{ "views": 1 }', 5)},
    {ZERO: Owner("g_a-0", 1, 7), ONE: Owner("g_a-0", 1, 8)},
    {ZERO: CommittedOffset(300, 4, 9)},
    frozenset({"views"}),
)
SNAPSHOT = ClusterSnapshot(
    {0: BrokerInfo(Broker(0, "h", 9092), 3), 1: BrokerInfo(Broker(1, "h", 9093), 3)},
    {"views": {0: 1, 1: 1}, "clicks": {0: 1}},
    {"g": GROUP},
    {ZERO: LogOffsets(100, 1000)},
)


def with_group(**changes: object) -> ClusterSnapshot:
    return replace(SNAPSHOT, groups={"g": replace(GROUP, **changes)})  # type: ignore[arg-type]


def test_partitions_have_their_brokers_and_ends() -> None:
    """Of one topic or of all; what no broker has said is None."""
    assert SNAPSHOT.partitions() == [CLICKS, ZERO, ONE]
    assert SNAPSHOT.partitions("views") == [ZERO, ONE]
    assert SNAPSHOT.partitions("nosuch") == []
    assert (SNAPSHOT.has(ONE), SNAPSHOT.has(ONE._replace(partition=1))) == (True, False)
    assert SNAPSHOT.partition_ends(ZERO) == PartitionEnds(ZERO, Broker(0, "h", 9092), 100, 1000)
    assert SNAPSHOT.partition_ends(ONE._replace(broker_id=7)) == PartitionEnds(
        ONE._replace(broker_id=7), None, None, None
    )


def test_a_group_s_partitions() -> None:
    """Owner, offsets and lag of each."""
    assert SNAPSHOT.group_partitions("g") == [
        GroupPartition(ZERO, "g_a-0", 300, 1000, 100, 7, 9, 4, is_subscribed=True),
        GroupPartition(ONE, "g_a-0", None, None, owned_since_ms=8, is_subscribed=True),
    ]
    assert [partition.lag_bytes for partition in SNAPSHOT.group_partitions("g")] == [700, None]
    with pytest.raises(KafkaError, match="there is no group h"):
        SNAPSHOT.group_partitions("h")


def test_partitions_of_topics_that_a_group_has_left() -> None:
    """All of a topic in which it has an offset or had an owner; and what no living broker has."""
    gone = TopicPartition("gone", 3, 0)
    left = with_group(members={}, owners={}, offsets={gone: CommittedOffset(1, 1)})
    assert [(row.where, row.is_subscribed) for row in left.group_partitions("g")] == [
        (gone, False),
        (ZERO, False),
        (ONE, False),
    ]


def test_filters_and_malformed_subscriptions() -> None:
    """A filter allows topics that there are; of a text that is none, the member is named."""
    members = {"g_a": MemberInfo("*1*cl.*", 5), "g_b": MemberInfo("what?", 6)}
    group = replace(GROUP, members=members)
    assert (group.subscribed(SNAPSHOT.topics), group.malformed) == ({"clicks"}, ["g_b"])


@pytest.mark.parametrize(
    ("changes", "problems"),
    [
        ({}, []),
        ({"members": {}}, ["group g has no members"]),
        ({"owners": {ZERO: Owner("g_a-0", 1)}}, ["views/1-0 has no owner"]),
        (
            {"owners": {ZERO: Owner("g_a-0", 1), ONE: Owner("g_b-0", 1)}},
            ["views/1-0 is owned by g_b-0, which is no member"],
        ),
        (
            {"owners": {**GROUP.owners, ONE._replace(partition=1): Owner("g_a-0", 1)}},
            ["views/1-1 is owned by g_a-0, but no broker has it"],
        ),
        ({"owners": {**GROUP.owners, CLICKS: Owner("g_b-0", 1)}}, []),  # nobody subscribes to it
    ],
)
def test_problems(changes: dict[str, object], problems: list[str]) -> None:
    """Each partition is to have one owner, which is a member; a topic that nobody subscribes to does not count."""
    assert with_group(**changes).problems("g") == problems


def test_a_column_reaches_the_console_too() -> None:
    """What `groups` shows of a partition is in the console's picture, by the same names."""
    [row, _] = SNAPSHOT.group_partitions("g")
    shown = picture(SNAPSHOT, rows_of(SNAPSHOT), LagBook(), RebalanceHistory())["groups"][0]["partitions"][0]
    assert row.columns().keys() <= shown.keys()
    paced = row._replace(pace=Pace(10.0, 5.0, 70.0))
    assert paced.columns() == {
        "partition": "views/0-0",
        "owner": "g_a-0",
        "committed": 300,
        "end": 1000,
        "lag_bytes": 700,
        "appended_bytes_per_s": 10.0,
        "committed_bytes_per_s": 5.0,
        "lag_s": 70.0,
    }
