"""The picture that browsers get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka2011.admin.snapshot.cluster_snapshot import Ends, SeenBroker, SeenCluster, SeenGroup, SeenMember
from kafka2011.ui import picture as picture_module
from kafka2011.ui.history import History
from kafka2011.ui.lag import LagBook
from kafka2011.ui.picture import picture
from zk.cluster import Broker, TopicPartition
from zk.offsets import CommittedOffset
from zk.owners import Owner

if TYPE_CHECKING:
    import pytest

HOSTILE = "<img src=x onerror=alert(1)>"
WHERES = [TopicPartition("views", number // 2, number % 2) for number in range(4)]
ENDS = {where: Ends(100, 1000) for where in WHERES}
MEMBER = SeenMember('{ "views": 1 }', 400)


def seen(**groups: SeenGroup) -> SeenCluster:
    brokers = {number: SeenBroker(Broker(number, "h", 9092 + number), 7) for number in (0, 1)}
    return SeenCluster(brokers, {"views": {0: 2, 1: 2}}, groups)


def drawn(cluster: SeenCluster, ends: dict[TopicPartition, Ends] = ENDS) -> dict[str, Any]:
    lags = LagBook()
    lags.note(cluster.groups, ends, 1.0)
    return picture(cluster, ends, {1: "refused"}, lags, History())


def test_it_says_who_owns_what_and_how_far_they_are() -> None:
    """Row by row; what a group subscribes to and nobody owns is there too."""
    group = SeenGroup({"g_a": MEMBER}, {WHERES[0]: Owner("g_a-0", 1, 500)}, {WHERES[0]: CommittedOffset(700, 3, 600)})
    found = drawn(seen(g=group))
    [of_group] = found["groups"]
    assert of_group["partitions"] == [
        ["views", 0, 0, "g_a", 500, 700, 600, 300, None, "learning"],
        *([*each, None, None, None, None, None, None, "learning"] for each in WHERES[1:]),
    ]
    assert (of_group["ownerless"], of_group["lag_bytes"], of_group["state"]) == (3, 300, "learning")
    assert found["partitions"][0] == ["views", 0, 0, 100, 1000]
    assert [(each["bytes"], each["unread"], each["error"]) for each in found["brokers"]] == [
        (1800, {"g": 300}, ""),
        (1800, {}, "refused"),
    ]


def test_copies_are_told_where_there_are_some() -> None:
    """A broker without replicas has none."""
    rows = {1: [("a", "leader", True, 0, 0.0), ("b", "follower", False, 700, 1.5)]}
    found = picture(seen(), ENDS, {}, LagBook(), History(), rows)
    assert [each["replicas"] for each in found["brokers"]] == [[], rows[1]]


def test_a_group_without_members_is_told_at_once() -> None:
    """It needs no ten looks; one that has read everything is well all the same."""
    behind = SeenGroup(offsets={WHERES[0]: CommittedOffset(700, 3)})
    done = SeenGroup(offsets={WHERES[0]: CommittedOffset(1000, 3)})
    found = {each["name"]: each["state"] for each in drawn(seen(behind=behind, done=done))["groups"]}
    assert found == {"behind": "nobody reads", "done": "ok"}


def test_an_empty_partition_is_no_reason_to_doubt() -> None:
    """Nobody commits what cannot be read."""
    [group] = drawn(seen(g=SeenGroup({"g_a": MEMBER})), dict.fromkeys(WHERES, Ends(0, 0)))["groups"]
    assert group["state"] == "ok"


def test_a_malformed_subscription_is_none() -> None:
    """The group's own members say so; the picture shows the text as it is."""
    [group] = drawn(seen(g=SeenGroup({HOSTILE: SeenMember(HOSTILE, 1)})))["groups"]
    assert (group["partitions"], group["members"][0]["subscription"]) == ([], HOSTILE)


def test_so_many_rows_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left out is counted."""
    monkeypatch.setattr(picture_module, "MOST_ROWS", 3)
    offsets = dict.fromkeys(WHERES, CommittedOffset(700, 3))
    found = drawn(seen(a=SeenGroup(offsets=offsets), b=SeenGroup(offsets=offsets)))
    assert [len(each["partitions"]) for each in found["groups"]] == [3, 0]
    assert (len(found["partitions"]), found["omitted"]) == (3, 1 + 1 + 4)
    assert found["groups"][1]["lag_bytes"] == 1200
