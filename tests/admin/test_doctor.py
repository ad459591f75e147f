"""What the doctor finds in a snapshot of a cluster, and that it finds nothing in a healthy one."""

from __future__ import annotations

import os
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kafka2011.admin.doctor.checks import CHECKS, CLOCK_LIMIT_MS, RETENTION_LIMIT_MS, lag_that_grows
from kafka2011.admin.doctor.checkup import Checkup, PendingRequest, ZooKeeperServer
from kafka2011.admin.doctor.examination import server_of
from kafka2011.admin.doctor.machine import (
    MOST_SNAPSHOTS,
    disk_against_retention,
    segment_times_that_are_wrong,
    settings_that_do_not_fit,
    snapshots_that_pile_up,
)
from kafka2011.admin.replicas import BrokerReplicas, ReplicaStanding
from kafka2011.admin.snapshot.cluster_snapshot import BrokerInfo, ClusterSnapshot, GroupInfo, LogOffsets, MemberInfo
from kafka2011.config import BrokerConfig
from kafka2011.disk import SYSTEM_DISK
from kafka2011.log.clock_file import FILE_NAME, ClockNotes, store_clock_notes
from kafka2011.log.clock_trust import NotedClock
from kafka2011.replica.state import Replica, ReplicaState
from zk.broker_clocks import BrokerClock, ComparedClock
from zk.cluster import Broker, TopicPartition
from zk.gateway_members import GatewayMember
from zk.gateways import BrokerFault, GatewayStatus
from zk.offsets import CommittedOffset
from zk.owners import Owner
from zk.protection import Protection

if TYPE_CHECKING:
    from pathlib import Path

NOW_MS = 1_700_000_000_000
WHERE, OTHER = TopicPartition("views", 1, 0), TopicPartition("views", 2, 0)
MEMBER = f"g_host-{NOW_MS}-0123abcd"
OWNER = Owner(f"{MEMBER}-0", 1)


def broker(number: int, host: str = "", ahead_ms: int = 0, error: str = "") -> BrokerInfo:
    return BrokerInfo(Broker.created(number, host or f"b{number}", 6667, NOW_MS + ahead_ms), NOW_MS, error)


def replicas(
    number: int, leader: str | None, in_sync: str, alive: str, behind_bytes: int | None = None, error: str = ""
) -> dict[int, BrokerReplicas]:
    """Give a broker replicas, each named by a letter; those that are not in sync are behind by so many bytes."""
    standings = tuple(
        ReplicaStanding(
            number,
            Replica(name, f"0{name}"),
            "leader" if name == leader else "follower",
            is_in_sync=name in in_sync,
            epoch=1,
            address="h:1" if name in alive else None,
            bytes_behind=0 if name in in_sync else behind_bytes,
            seconds_behind=None,
        )
        for name in sorted({*in_sync, *alive})
    )
    state = ReplicaState(1, None, frozenset(standing.replica for standing in standings if standing.is_in_sync))
    return {number: BrokerReplicas(number, state, standings, error)}


GROUP = GroupInfo(
    {MEMBER: MemberInfo('{ "views": 1 }', NOW_MS)}, {WHERE: OWNER, OTHER: OWNER}, {WHERE: CommittedOffset(500, 1)}
)
CLUSTER = ClusterSnapshot(
    brokers={1: broker(1), 2: broker(2)},
    topics={"views": {1: 1, 2: 1}},
    groups={"g": GROUP},
    log_offsets={WHERE: LogOffsets(100, 900), OTHER: LogOffsets(0, 0)},
    replicas=replicas(2, "a", "ab", "ab"),
)
FULL_GATEWAY = GatewayStatus("/data/topics.json: No space left on device")
HEALTHY = Checkup(
    CLUSTER,
    clocks={1: ComparedClock(BrokerClock(NOW_MS), NOW_MS - RETENTION_LIMIT_MS)},
    servers=(server_of("zk:2181", "Zookeeper version: 3.8\nLatency min/avg/max: 0/0.5/20\nMode: standalone\n"),),
)


def sick(**changes: Any) -> Checkup:
    return replace(HEALTHY, cluster=replace(CLUSTER, **changes))


def sick_group(**changes: Any) -> Checkup:
    return sick(groups={"g": replace(GROUP, **changes)})


def committed(offset: int) -> dict[TopicPartition, CommittedOffset]:
    return {WHERE: CommittedOffset(offset, 1)}


SICK: dict[str, tuple[Checkup, str, str]] = {
    "a ZooKeeper that is away": (
        replace(HEALTHY, servers=(ZooKeeperServer("zk:1", error="does not answer: refused"),)),
        "ZooKeeper zk:1",
        "does not answer: refused",
    ),
    "a ZooKeeper that has lost the others": (
        replace(HEALTHY, servers=(server_of("zk:1", "This ZooKeeper instance is not currently serving requests\n"),)),
        "ZooKeeper zk:1",
        "does not serve: This ZooKeeper instance is not currently serving requests",
    ),
    "a ZooKeeper that is slow": (
        replace(HEALTHY, servers=(server_of("zk:1", "Latency min/avg/max: 0/1.5/4200\nMode: leader\n"),)),
        "ZooKeeper zk:1",
        "an answer took 4.2 s",
    ),
    "a ZooKeeper without transactions": (
        replace(HEALTHY, servers=(server_of("zk:1", "Zookeeper version: 3.3.4-1, built on 2011\nMode: leader\n"),)),
        "ZooKeeper zk:1",
        "is of version 3.3.4, which has no transactions",
    ),
    "two ZooKeepers": (
        replace(HEALTHY, servers=(*HEALTHY.servers, *HEALTHY.servers)),
        "ZooKeeper",
        "2 servers survive the loss of no more servers than 1 would",
    ),
    "a node that cannot be read": (replace(HEALTHY, malformed=("/brokers/ids/x is odd",)), "ZooKeeper", "x is odd"),
    "a request to a broker that is away": (
        replace(HEALTHY, requests=(PendingRequest(7, "old", "delete topic old", None, 7200),)),
        "broker 7",
        "is down, and will delete topic old when it starts: requested 2 h ago",
    ),
    "a request that a broker does not act on": (
        replace(
            HEALTHY,
            requests=(
                PendingRequest(1, "views", "grow topic views to 4", None, 180),
                PendingRequest(2, "clicks", "delete topic clicks", None, 5),
            ),
        ),
        "broker 1",
        "was requested 3 min ago to grow topic views to 4, and has not done it",
    ),
    "a request that is refused": (
        replace(HEALTHY, requests=(PendingRequest(2, "views", "", "it is odd", 1),)),
        "broker 2",
        "refuses a request for topic views: it is odd",
    ),
    "an offset within a message": (
        replace(HEALTHY, misplaced={"g": {WHERE: "no message of views/1-0 starts at offset 500"}}),
        "group g",
        "no message starts: no message of views/1-0 starts at offset 500",
    ),
    "a member that cannot be read": (
        sick_group(members={**GROUP.members, "odd": MemberInfo("[]", NOW_MS)}),
        "group g",
        "member odd has registered '[]', which is not a subscription",
    ),
    "a member that is shut out": (
        replace(HEALTHY, protection=Protection(shut_out={"/consumers/g/ids/x": "/consumers/g/offsets"})),
        "/consumers/g/ids/x",
        "is registered without the user of zk.connect, and needs /consumers/g/offsets,",
    ),
    "a broker without a gateway": (
        replace(HEALTHY, claimed=frozenset({1})),
        "broker 2",
        "no gateway serves it, and gateways serve other brokers",
    ),
    "a gateway that cannot use its directory": (
        replace(HEALTHY, claimed=frozenset({1, 2}), gateways={0: GatewayStatus(), 4: FULL_GATEWAY}),
        "gateway 4",
        "cannot use its directory: /data/topics.json: No space left on device",
    ),
    "message numbers of many deleted topics": (
        replace(HEALTHY, deleted_topics=9_500),
        "gateways",
        "keep the message numbers of 9,500 deleted topics in /gateway/floors",
    ),
    "a broker at which today's clients wait": (
        replace(HEALTHY, claimed=frozenset({1, 2}), gateways={4: GatewayStatus("", {2: BrokerFault("slow", "flush")})}),
        "broker 2",
        "gateway 4: slow",
    ),
    "no broker": (sick(brokers={}, topics={}, groups={}), "brokers", "none is registered"),
    "a broker that does not answer": (
        sick(brokers={1: broker(1), 2: broker(2, error="refused")}),
        "broker 2",
        "is registered at b2:6667, which does not answer: refused",
    ),
    "replicas that nobody leads": (
        sick(replicas=replicas(3, None, "a", "b")),
        "replicas of broker 3",
        "no replica leads: in sync are a, and alive b",
    ),
    "a replica that is alone": (
        sick(replicas=replicas(3, "a", "a", "a")),
        "replicas of broker 3",
        "only a is in sync",
    ),
    "a replica that is behind": (
        sick(replicas=replicas(3, "a", "ab", "abc", 700)),
        "replica c of broker 3",
        "is not in sync, and 700 bytes behind",
    ),
    "a leader that does not answer": (
        sick(replicas=replicas(3, "a", "ab", "ab", error="refused")),
        "replicas of broker 3",
        "a leads, and does not report the lag of the others: refused",
    ),
    "two brokers at one address": (
        sick(brokers={1: broker(1, "b"), 2: broker(2, "b")}),
        "brokers 1, 2",
        "are all registered at b:6667",
    ),
    "an address of its own machine": (
        sick(brokers={1: broker(1, "127.0.0.1"), 2: broker(2)}),
        "broker 1",
        "is registered as 127.0.0.1",
    ),
    "a broker's clock": (
        sick(brokers={1: broker(1), 2: broker(2, ahead_ms=90_000)}),
        "broker 2",
        "its clock was 90 s ahead of ZooKeeper's",
    ),
    "a member's clock": (
        sick_group(members={MEMBER: MemberInfo('{ "views": 1 }', NOW_MS - 2 * CLOCK_LIMIT_MS)}),
        f"member {MEMBER}",
        "its clock was 10 s ahead",
    ),
    "a broker that deletes nothing by age": (
        replace(HEALTHY, clocks={2: ComparedClock(BrokerClock(NOW_MS, "it may have moved"), NOW_MS)}),
        "broker 2",
        "deletes no segments by age: it may have moved",
    ),
    "a broker that does not know yet that its clock is wrong": (
        replace(HEALTHY, clocks={2: ComparedClock(BrokerClock(NOW_MS), NOW_MS + RETENTION_LIMIT_MS + 1)}),
        "broker 2",
        "the wall clock is 3600 s behind ZooKeeper's",
    ),
    "a topic without a broker": (
        sick(topics={**CLUSTER.topics, "old": {}}),
        "topic old",
        "no living broker has it",
    ),
    "a topic on one of two brokers": (
        sick(topics={"views": {1: 1}}, groups={}),
        "topic views",
        "only broker 1 of 2 brokers have it",
    ),
    "a topic of a broker that is not registered": (
        sick(topics={"views": {1: 1, 2: 1, 7: 1}}, groups={}),
        "topic views",
        "broker 7 has registered the topic, but not itself",
    ),
    "a partition without an owner": (
        sick_group(owners={WHERE: OWNER}),
        "group g",
        "views/2-0 has no owner",
    ),
    "an owner without a member": (
        sick_group(members={}, owners={WHERE: OWNER}),
        "group g",
        f"views/1-0 is owned by {MEMBER}-0, and the group has no members",
    ),
    "an offset beyond the log": (
        sick_group(offsets=committed(901)),
        "group g",
        "has committed offset 901 of views/1-0, which ends at 900",
    ),
    "an offset that retention has overtaken": (
        sick_group(offsets=committed(40)),
        "group g",
        "retention has deleted 60 bytes that the group has not read",
    ),
}


def test_a_healthy_cluster_has_nothing() -> None:
    """A group without members is healthy too, and so is a topic that was never written to."""
    assert [finding for check in CHECKS for finding in check(HEALTHY)] == []
    at_rest = sick_group(members={}, owners={})
    assert [finding for check in CHECKS for finding in check(at_rest)] == []


@pytest.mark.parametrize("what", SICK)
def test_each_thing_is_found(what: str) -> None:
    """Once, with its name, and with something to do about it."""
    checkup, where, text = SICK[what]
    [finding] = [finding for check in CHECKS for finding in check(checkup)]
    assert finding.where == where
    assert text in finding.what
    assert finding.remedy


def test_a_server_that_may_not_say_how_it_is_passes() -> None:
    """Later ZooKeepers answer what they are allowed to."""
    server = server_of("zk:1", "srvr is not executed because it is not in the whitelist.\n")
    assert (server.fields, server.error) == ({}, "")


def test_lag_that_grows_is_found() -> None:
    """Where nothing was committed while more came; not where there are no members, or where there is progress."""
    more = replace(CLUSTER, log_offsets={**CLUSTER.log_offsets, WHERE: LogOffsets(100, 2900)})
    [finding] = lag_that_grows(CLUSTER, more)
    assert finding.what.startswith("lags by 2400 bytes in views/1-0, 2000 more than at the first sample")
    assert f"{MEMBER}-0 should read it" in finding.remedy
    client = GatewayMember("rdkafka-1", "rdkafka", "10.0.0.1")
    of_today = replace(GROUP, members={MEMBER: MemberInfo('{ "views": 1 }', NOW_MS, client)})
    [finding] = lag_that_grows(CLUSTER, replace(more, groups={"g": of_today}))
    assert f"{MEMBER}-0 (rdkafka at 10.0.0.1) should read it" in finding.remedy
    slow = replace(more, groups={"g": replace(GROUP, offsets=committed(501))})
    at_rest = replace(more, groups={"g": replace(GROUP, members={})})
    for other in (CLUSTER, slow, at_rest, replace(more, groups={})):
        assert list(lag_that_grows(CLUSTER, other)) == []


def config(directory: Path, **settings: object) -> BrokerConfig:
    return BrokerConfig.of({"brokerid": 1, "log.dir": str(directory), "enable.zookeeper": False, **settings})


def test_settings_that_do_not_fit_are_found(tmp_path: Path) -> None:
    """Those that are shipped fit."""
    assert list(settings_that_do_not_fit(config(tmp_path))) == []
    for settings, text in (
        ({"max.message.size": 2**20}, "max.message.size is 1048576"),
        ({"log.retention.hours": 1}, "messages of a quiet topic stay for up to 169 hours"),
        ({"log.retention.size": 1000}, "less than one segment"),
    ):
        [finding] = settings_that_do_not_fit(config(tmp_path, **settings))
        assert text in finding.what


def test_a_disk_that_will_be_full_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what came in the last day, as long as retention keeps it; a bound on the size counts, and what is free."""
    segment = tmp_path / "views-0" / "00000000000000000000.kafka"
    segment.parent.mkdir()
    segment.write_bytes(bytes(10_000))
    free = 100_000
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_frsize=1, f_bavail=free, f_blocks=200_000))
    assert list(disk_against_retention(config(tmp_path))) == []
    free = 50_000
    [finding] = disk_against_retention(config(tmp_path))
    assert "full in about 120 hours" in finding.what
    assert list(disk_against_retention(config(tmp_path, **{"log.retention.hours": 48}))) == []
    assert (
        list(disk_against_retention(config(tmp_path, **{"log.retention.size": 20_000, "log.file.size": 10_000}))) == []
    )
    os.utime(segment, (0, 0))  # nothing has come for long
    assert list(disk_against_retention(config(tmp_path))) == []
    free = 10_000
    [finding] = disk_against_retention(config(tmp_path))
    assert "0.0 GB free" in finding.what


def test_a_disk_that_is_not_there_is_found(tmp_path: Path) -> None:
    """Its path is named."""
    [finding] = disk_against_retention(config(tmp_path / "away"))
    assert str(tmp_path / "away") in finding.what


def test_segments_with_wrong_times_are_found(tmp_path: Path) -> None:
    """Impossible ones, and such as are earlier than that of the segment before; all are counted, the first is named."""
    directory = tmp_path / "views-0"
    directory.mkdir()
    now_s = NOW_MS / 1000
    paths = [directory / f"{offset:020}.kafka" for offset in range(5)]

    def found(*times_s: float) -> list[str]:
        for path, time_s in zip(paths, times_s, strict=True):
            path.touch()
            os.utime(path, (time_s, time_s))
        return [finding.what for finding in segment_times_that_are_wrong(config(tmp_path), now_s)]

    assert found(now_s - 9000, now_s - 9000, now_s - 12_600, now_s - 60, now_s + 3600) == []
    for index, time_s in ((0, 1.2e9), (1, now_s + 3601), (2, now_s - 12_601)):
        times_s = [now_s - 9000] * 5
        times_s[index] = time_s
        [text] = found(*times_s)
        assert f"1 segments bear a time that is wrong, as does {paths[index]}" in text
    [text] = found(*[0] * 5)
    assert text.startswith("5 segments")


def test_a_copy_without_times_is_found(tmp_path: Path) -> None:
    """As long as it keeps segments from being deleted; and so is a note that cannot be read."""
    now_s = NOW_MS / 1000
    store_clock_notes(tmp_path, ClockNotes(NotedClock(NOW_MS - 10**7, 0)), SYSTEM_DISK)
    assert list(segment_times_that_are_wrong(config(tmp_path), now_s)) == []
    os.utime(tmp_path / FILE_NAME, (now_s - 7200, now_s - 7200))
    [finding] = segment_times_that_are_wrong(config(tmp_path), now_s)
    assert "was copied 2 h ago without the times of its files" in finding.what
    brief = {"log.retention.hours": 1, "topic.log.retention.hours": "views:1.5"}
    assert list(segment_times_that_are_wrong(config(tmp_path, **brief), now_s)) == []
    (tmp_path / FILE_NAME).write_text("?")
    [finding] = segment_times_that_are_wrong(config(tmp_path), now_s)
    assert str(tmp_path / FILE_NAME) in finding.what


def test_snapshots_that_nobody_removes_are_found(tmp_path: Path) -> None:
    """Where there are many."""
    (tmp_path / "version-2").mkdir()
    for number in range(MOST_SNAPSHOTS + 1):
        assert list(snapshots_that_pile_up(tmp_path)) == []
        (tmp_path / "version-2" / f"snapshot.{number}").touch()
    [finding] = snapshots_that_pile_up(tmp_path)
    assert "11 snapshots" in finding.what
