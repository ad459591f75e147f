"""What the audit says of real clusters when something that should speak does not."""

from __future__ import annotations

import json
import sys
import time
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kafka2011 import LocalCluster, Producer
from kafka2011.admin.admin import Admin
from kafka2011.audit.publishing import open_counter
from kafka2011.audit.report import AUDIT_TOPIC
from kafka2011.cli.app import main
from kafka2011.events.codec import EventEncoder, Stamp
from kafka2011.events.publisher import EventPublisher
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.types import CLICK
from kafka2011.warehouse.table.commits import AUDIT_ENDS
from kafka2011.warehouse.table.topic_table import TopicTable
from tests.support.waiting import eventually
from zk.audit import AuditNodes
from zk.child import ChildProcess
from zk.connecting import connect

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from zk.local_zookeeper import LocalZooKeeper

WAIT_S = 60
TOPIC = "clicks"
CANNOT_TELL = 3
WINDOW_S = 10
PROPERTIES = {"log.flush.interval": 1, "zk.sessiontimeout.ms": 2000}


def publish(zk_connect: str, events: int) -> float:
    """Publish events as the tier `producer`, and return by when the last window of them is over."""
    settings = {"zk.connect": zk_connect, "producer.type": "async", "confirm": True}
    with (
        connect(zk_connect) as client,
        open_counter("producer", zk_connect) as counter,
        Producer(settings) as producer,
    ):
        schemas = SchemaRegistry(client)
        schemas.register(TOPIC, CLICK)
        publisher = EventPublisher(producer, EventEncoder(schemas), counter=counter)
        for _ in range(events):
            publisher.publish(TOPIC, {"item": "a", "position": 1})
    return (time.time() // WINDOW_S + 1) * WINDOW_S


def audit(zk_connect: str, until_s: float, *tiers: str) -> int:
    until = ("--until", f"@{int(until_s * 1000)}", "--grace", "0")
    return main(["audit", "--zookeeper", zk_connect, "--topic", TOPIC, "--tiers", ",".join(tiers), *until])


def what_is_declared_is_missed(
    live: str, offline: str, until_s: float, path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Check that what runs is declared by the command and then complete, and that one more source is missed by name.

    Neither events nor reports of a source come that the mirror never reached, so that only a declaration tells.
    """

    def status(*options: str) -> int:
        until = ("--until", f"@{int(until_s * 1000)}", "--grace", "0", "--topic", TOPIC)
        return main(["audit", "--zookeeper", offline, *until, *options])

    write = ("audit", "--zookeeper", offline, "--write-pipeline", str(path))
    assert [main([*write]), main([*write]), main([*write, "--overwrite"])] == [0, 1, 0]
    declared = ("--pipeline", str(path))
    assert status(*declared) == 0
    text = path.read_text()
    assert f'zookeeper = "{live}"' in text
    text = text.replace('clusters = ["dead-live"]', 'clusters = ["dead-live", "west"]')
    west = "127.0.0.1:1"
    path.write_text(f'{text}\n[clusters.west]\nzookeeper = "{west}"\n'.replace('origins = ["dead-live"]\n', ""))
    capfd.readouterr()
    assert status() == 0
    assert capfd.readouterr().out.startswith("Only tiers and clusters that have reported can be judged")
    assert status(*declared, "--json") == CANNOT_TELL
    output, errors = capfd.readouterr()
    said = json.loads(output)
    assert (said["note"], said["pipeline"]) == (None, str(path))
    assert [f"cluster west ({west})" in doubt["why"] for doubt in said["doubts"]] == [True, True]
    assert f"no mirror says that it copies reports of cluster west ({west})" in errors
    assert main(["doctor", "--zookeeper", offline, "--seconds", "0", *declared]) == 1
    output = capfd.readouterr().out
    assert f"cluster west ({west}): its ZooKeeper does not answer" in output
    assert f"tier mirror: it has reported nothing on topic {TOPIC} in cluster west" in output


def test_a_dead_mirror_proves_nothing(
    zookeeper: LocalZooKeeper, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither events nor their reports come by it, so nothing is missing; and nobody can tell."""
    monkeypatch.setenv("KAFKA2011_ZK_CONNECTIONTIMEOUT_MS", "1000")  # one of the declared clusters is nowhere
    with ExitStack() as stack:
        live, offline = (
            stack.enter_context(
                LocalCluster(1, zk_connect=f"{zookeeper.connect_string}/dead-{name}", properties=PROPERTIES)
            )
            for name in ("live", "offline")
        )
        command = [sys.executable, "-m", "kafka2011", "mirror", "--from", live.zk_connect, "--to", offline.zk_connect]
        command += ["--whitelist", f"{TOPIC}|{AUDIT_TOPIC}", "--group", "mirror", "--audit", "mirror"]
        command += ["--consumer-property", "autocommit.interval.ms=200"]
        mirror = stack.enter_context(ChildProcess(command, tmp_path / "mirror.log", stop_timeout_s=WAIT_S))
        until_s = publish(live.zk_connect, 100)
        with Admin(offline.zk_connect) as admin:
            eventually(lambda: TOPIC in admin.topics() and AUDIT_TOPIC in admin.topics(), WAIT_S)
        eventually(lambda: audit(offline.zk_connect, until_s, "producer", "mirror") == 0, WAIT_S)
        what_is_declared_is_missed(live.zk_connect, offline.zk_connect, until_s, tmp_path / "pipeline.toml", capfd)
        mirror.kill()
        later_s = publish(live.zk_connect, 100) + WINDOW_S
        capfd.readouterr()
        assert audit(offline.zk_connect, later_s, "producer", "mirror") == CANNOT_TELL
        output, errors = capfd.readouterr()
        assert "are copied by a mirror" in output
        assert "cannot tell" in errors
        assert audit(offline.zk_connect, until_s, "producer", "mirror") == 0, "what was told before still holds"


def test_reports_on_a_broker_that_is_away_are_in_doubt(
    zookeeper: LocalZooKeeper, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its registration goes with it, and what may be on it stays known."""
    with LocalCluster(2, zk_connect=f"{zookeeper.connect_string}/away", properties=PROPERTIES) as cluster:
        noted: set[int] = set()
        while noted != {0, 1}:
            until_s = publish(cluster.zk_connect, 10)
            with connect(cluster.zk_connect) as client:
                noted = AuditNodes(client).brokers()
        eventually(lambda: time.time() >= until_s, WAIT_S, what="the end of the window")
        eventually(lambda: audit(cluster.zk_connect, until_s, "producer") == 0, WAIT_S)
        cluster.brokers[1].stop()
        with Admin(cluster.zk_connect) as admin:
            eventually(lambda: set(admin.brokers()) == {0}, WAIT_S)
        capfd.readouterr()
        assert audit(cluster.zk_connect, until_s, "producer") == CANNOT_TELL
        assert "broker 1 is away, and may hold reports" in capfd.readouterr().out
        cluster.brokers[1].start()
        eventually(lambda: audit(cluster.zk_connect, until_s, "producer") == 0, WAIT_S)


def test_a_load_takes_back_what_a_clock_far_behind_disproves(zookeeper: LocalZooKeeper, tmp_path: Path) -> None:
    """A producer counts an event that is nowhere, and stamps it with a day of which all was said to be there."""
    with LocalCluster(1, zk_connect=f"{zookeeper.connect_string}/behind", properties=PROPERTIES) as cluster:
        zk_connect = cluster.zk_connect
        publish(zk_connect, 10)
        load = ("load", "--master", "none[1]", "--zookeeper", zk_connect, "--topic", TOPIC, "--audit", "warehouse")
        table = TopicTable(tmp_path, TOPIC)

        def complete_through_ms() -> int:
            assert main([*load, "--warehouse", str(tmp_path)]) == 0
            newest = table.newest()
            assert newest is not None
            assert newest.complete_through_ms is not None
            assert newest.extra[AUDIT_ENDS], "the next load knows how far this one has read"
            return newest.complete_through_ms

        day_us = (int(time.time()) // WINDOW_S * WINDOW_S - 86_400) * 1_000_000
        assert complete_through_ms() > day_us // 1000
        with open_counter("producer", zk_connect) as counter:
            counter.count(TOPIC, [Stamp(day_us, str(uuid.uuid4()), day_us)])
        eventually(lambda: complete_through_ms() == day_us // 1000, WAIT_S)
