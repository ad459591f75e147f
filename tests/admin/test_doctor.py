"""What the doctor finds in what was seen of a cluster, and that it finds nothing in a healthy one."""

from __future__ import annotations

import os
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from kafka2011.admin.doctor.checks import CHECKS, CLOCK_LIMIT_MS, lag_that_grows
from kafka2011.admin.doctor.checkup import Ends, Seen, SeenBroker, SeenGroup, SeenReplicas, SeenRequest, SeenServer
from kafka2011.admin.doctor.examination import server_of
from kafka2011.admin.doctor.machine import (
    MOST_SNAPSHOTS,
    disk_against_retention,
    settings_that_do_not_fit,
    snapshots_that_pile_up,
)
from kafka2011.config import BrokerConfig
from zk.cluster import Broker, TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

NOW_MS = 1_700_000_000_000
WHERE = TopicPartition("views", 1, 0)
MEMBER = f"g_host-{NOW_MS}-0123abcd"


def broker(number: int, host: str = "", ahead_ms: int = 0, error: str = "") -> SeenBroker:
    return SeenBroker(Broker.created(number, host or f"b{number}", 6667, NOW_MS + ahead_ms), NOW_MS, error)


HEALTHY = Seen(
    servers=(server_of("zk:2181", "Zookeeper version: 3.8\nLatency min/avg/max: 0/0.5/20\nMode: standalone\n"),),
    brokers={1: broker(1), 2: broker(2)},
    topics={"views": {1: 1, 2: 1}},
    ends={WHERE: Ends(100, 900), TopicPartition("views", 2, 0): Ends(0, 0)},
    groups={"g": SeenGroup("g", {MEMBER: NOW_MS}, {WHERE: 500}, {WHERE: f"{MEMBER}-0"})},
    replicas=(SeenReplicas(2, "a", ["a", "b"], ["a", "b"]),),
)
GROUP = HEALTHY.groups["g"]

SICK: dict[str, tuple[Seen, str, str]] = {
    "a ZooKeeper that is away": (
        replace(HEALTHY, servers=(SeenServer("zk:1", error="does not answer: refused"),)),
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
    "two ZooKeepers": (
        replace(HEALTHY, servers=(*HEALTHY.servers, *HEALTHY.servers)),
        "ZooKeeper",
        "2 servers survive the loss of no more than 1 would",
    ),
    "a node that cannot be read": (replace(HEALTHY, malformed=("/brokers/ids/x is odd",)), "ZooKeeper", "x is odd"),
    "a request to a broker that is away": (
        replace(HEALTHY, requests=(SeenRequest(7, "old", "delete topic old", None, 7200),)),
        "broker 7",
        "is away, and will delete topic old when it starts: it was asked 2 h ago",
    ),
    "a request that a broker does not act on": (
        replace(
            HEALTHY,
            requests=(
                SeenRequest(1, "views", "grow topic views to 4", None, 180),
                SeenRequest(2, "clicks", "delete topic clicks", None, 5),
            ),
        ),
        "broker 1",
        "was asked 3 min ago to grow topic views to 4, and has not",
    ),
    "a request that is refused": (
        replace(HEALTHY, requests=(SeenRequest(2, "views", "", "it is odd", 1),)),
        "broker 2",
        "refuses what it was asked to do with topic views: it is odd",
    ),
    "no broker": (replace(HEALTHY, brokers={}, topics={}), "brokers", "none is registered"),
    "a broker that does not answer": (
        replace(HEALTHY, brokers={1: broker(1), 2: broker(2, error="refused")}),
        "broker 2",
        "is registered at b2:6667, which does not answer: refused",
    ),
    "replicas that nobody leads": (
        replace(HEALTHY, replicas=(SeenReplicas(3, None, ["a"], ["b"], {"b": None}),)),
        "replicas of broker 3",
        "nobody leads: in sync are a, and alive b",
    ),
    "a replica that is alone": (
        replace(HEALTHY, replicas=(SeenReplicas(3, "a", ["a"], ["a"]),)),
        "replicas of broker 3",
        "a alone is in sync",
    ),
    "a replica that is behind": (
        replace(HEALTHY, replicas=(SeenReplicas(3, "a", ["a", "b"], ["a", "b", "c"], {"c": 700}),)),
        "replica c of broker 3",
        "is not in sync, and 700 bytes behind",
    ),
    "a leader that does not answer": (
        replace(HEALTHY, replicas=(SeenReplicas(3, "a", ["a", "b"], ["a", "b"], error="refused"),)),
        "replicas of broker 3",
        "a leads, and does not say how far the others are behind: refused",
    ),
    "two brokers at one address": (
        replace(HEALTHY, brokers={1: broker(1, "b"), 2: broker(2, "b")}),
        "brokers 1, 2",
        "are all registered at b:6667",
    ),
    "an address of its own machine": (
        replace(HEALTHY, brokers={1: broker(1, "127.0.0.1"), 2: broker(2)}),
        "broker 1",
        "is registered as 127.0.0.1",
    ),
    "a broker's clock": (
        replace(HEALTHY, brokers={1: broker(1), 2: broker(2, ahead_ms=90_000)}),
        "broker 2",
        "its clock was 90 s ahead of ZooKeeper's",
    ),
    "a member's clock": (
        replace(HEALTHY, groups={"g": replace(GROUP, registered_ms={MEMBER: NOW_MS - 2 * CLOCK_LIMIT_MS})}),
        f"member {MEMBER}",
        "its clock was 10 s ahead",
    ),
    "a topic without a broker": (
        replace(HEALTHY, topics={**HEALTHY.topics, "old": {}}),
        "topic old",
        "no living broker has it",
    ),
    "a topic on one of two brokers": (
        replace(HEALTHY, topics={"views": {1: 1}}),
        "topic views",
        "only broker 1 of 2 brokers have it",
    ),
    "a topic of a broker that is not registered": (
        replace(HEALTHY, topics={"views": {1: 1, 2: 1, 7: 1}}),
        "topic views",
        "broker 7 has registered it, and not itself",
    ),
    "a partition without an owner": (
        replace(HEALTHY, groups={"g": replace(GROUP, problems=("views/2-0 has no owner",))}),
        "group g",
        "views/2-0 has no owner",
    ),
    "an owner without a member": (
        replace(HEALTHY, groups={"g": replace(GROUP, registered_ms={}, problems=("group g has no members",))}),
        "group g",
        f"views/1-0 is owned by {MEMBER}-0, and the group has no members",
    ),
    "an offset beyond the log": (
        replace(HEALTHY, groups={"g": replace(GROUP, committed={WHERE: 901})}),
        "group g",
        "has committed offset 901 of views/1-0, which ends at 900",
    ),
    "an offset that retention has overtaken": (
        replace(HEALTHY, groups={"g": replace(GROUP, committed={WHERE: 40})}),
        "group g",
        "retention has taken 60 bytes that it has not read",
    ),
}


def test_a_healthy_cluster_has_nothing() -> None:
    """A group without members is healthy too, and so is a topic that was never written to."""
    assert [finding for check in CHECKS for finding in check(HEALTHY)] == []
    at_rest = replace(HEALTHY, groups={"g": replace(GROUP, registered_ms={}, owners={}, problems=("no members",))})
    assert [finding for check in CHECKS for finding in check(at_rest)] == []


@pytest.mark.parametrize("what", SICK)
def test_each_thing_is_found(what: str) -> None:
    """Once, with its name, and with something to do about it."""
    seen, where, text = SICK[what]
    [finding] = [finding for check in CHECKS for finding in check(seen)]
    assert finding.where == where
    assert text in finding.what
    assert finding.remedy


def test_a_server_that_may_not_say_how_it_is_passes() -> None:
    """Later ZooKeepers answer what they are allowed to."""
    server = server_of("zk:1", "srvr is not executed because it is not in the whitelist.\n")
    assert (server.fields, server.error) == ({}, "")


def test_lag_that_grows_is_found() -> None:
    """Where nothing was committed while more came; not where there are no members, or where there is progress."""
    more = replace(HEALTHY, ends={**HEALTHY.ends, WHERE: Ends(100, 2900)})
    [finding] = lag_that_grows(HEALTHY, more)
    assert finding.what.startswith("is 2400 bytes behind in views/1-0, 2000 more than at the first look")
    assert f"{MEMBER}-0 should read it" in finding.remedy
    slow = replace(more, groups={"g": replace(GROUP, committed={WHERE: 501})})
    at_rest = replace(more, groups={"g": replace(GROUP, registered_ms={})})
    for other in (HEALTHY, slow, at_rest, replace(more, groups={})):
        assert list(lag_that_grows(HEALTHY, other)) == []


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


def test_snapshots_that_nobody_removes_are_found(tmp_path: Path) -> None:
    """Where there are many."""
    (tmp_path / "version-2").mkdir()
    for number in range(MOST_SNAPSHOTS + 1):
        assert list(snapshots_that_pile_up(tmp_path)) == []
        (tmp_path / "version-2" / f"snapshot.{number}").touch()
    [finding] = snapshots_that_pile_up(tmp_path)
    assert "11 snapshots" in finding.what
