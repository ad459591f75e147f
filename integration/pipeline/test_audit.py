"""The audit on a real cluster: processes that are killed, and the command that compares what was counted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING

import pytest

from integration.cli.calling import TIMEOUT_S, command
from kafka2011 import LocalCluster, Producer
from kafka2011.cli.app import main
from kafka2011.pipeline.audit.publishing import open_counter
from kafka2011.pipeline.audit.reading import AuditReader, has_audit
from kafka2011.pipeline.event_types import CLICK
from kafka2011.pipeline.events import EventEncoder, Stamp
from kafka2011.pipeline.publisher import EventPublisher
from kafka2011.pipeline.registry import SchemaRegistry
from tests.support.clocks import ManualClock
from tests.support.waiting import eventually
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from zk.local import LocalZooKeeper

START_S = 1_700_000_000
WINDOW = "2023-11-14T22:13:20.000Z"
"""The window that begins then."""
EVENTS = 500
"""Of each topic, in two windows."""
UNCOUNTED = 50
WELL, KILLED, LOSSY = TOPICS = ("well", "killed", "lossy")
CLICKED = {"item": "a", "position": 1}


@pytest.fixture(scope="module")
def cluster(zookeeper: LocalZooKeeper) -> Iterator[LocalCluster]:
    properties = {"num.partitions": 2, "log.flush.interval": 1, "zk.sessiontimeout.ms": 2000}
    with LocalCluster(1, zk_connect=f"{zookeeper.connect_string}/audit", properties=properties) as running:
        yield running


def publish(cluster: LocalCluster) -> None:
    """Publish events as the tier `producer`. One of LOSSY is counted and never sent, and another one is sent twice."""
    clock = ManualClock(START_S)
    settings = {"zk.connect": cluster.zk_connect, "producer.type": "async", "confirm": True, "compression.codec": 2}
    with (
        connect(cluster.zk_connect) as client,
        open_counter("producer", cluster.zk_connect) as counter,
        Producer(settings) as producer,
    ):
        schemas = SchemaRegistry(client)
        for topic in TOPICS:
            schemas.register(topic, CLICK)
        encoder = EventEncoder(schemas)
        publisher = EventPublisher(producer, encoder, counter=counter, clock=clock)
        twice = {**CLICKED, "id": str(uuid.uuid4())}
        publisher.publish(LOSSY, twice)
        EventPublisher(producer, encoder, clock=clock).publish(LOSSY, twice)
        counter.count(LOSSY, [Stamp(START_S * 1_000_000, str(uuid.uuid4()), 0)])
        for number in range(EVENTS):
            clock.now_s = START_S + 20 * number / EVENTS
            for topic in TOPICS:
                publisher.publish(topic, CLICKED)


def publish_and_be_killed(cluster: LocalCluster) -> None:
    """Publish as one more process of the tier, which dies before it has reported anything."""
    program = (sys.executable, "-m", "integration.pipeline.programs.audited_producer")
    arguments = (cluster.zk_connect, KILLED, str(START_S), str(UNCOUNTED))
    done = subprocess.run([*program, *arguments], timeout=TIMEOUT_S, check=False)
    assert done.returncode == -signal.SIGKILL


def consume(cluster: LocalCluster, *options: str) -> list[str]:
    return command(
        *("consume", "--whitelist", "|".join(TOPICS), "--group", "readers", "--audit", "live", "--from-beginning"),
        *("--property", "zk.sessiontimeout.ms=2000", "--property", "autocommit.interval.ms=100"),
        *("--zookeeper", cluster.zk_connect, *options),
    )


def test_the_audit_names_the_window_and_the_tier(
    cluster: LocalCluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A loss that a repeat hides in the totals is found; neither a producer nor a member that is killed is a gap."""
    publish(cluster)
    publish_and_be_killed(cluster)
    with subprocess.Popen(consume(cluster), stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        assert killed.stdout.read(20_000)
        killed.kill()
    done = subprocess.run(consume(cluster, "--timeout-ms", "4000"), capture_output=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stderr) == (0, b"")

    audit = ("audit", "--zookeeper", cluster.zk_connect, "--grace", "0")
    picture = tmp_path / "audit.png"
    assert main([*audit, "--json", "--plot", str(picture)]) == 1
    output, errors = capfd.readouterr()
    assert f"lossy at {WINDOW}, tier live: 1 missing, tier live: 1 repeated" in errors
    assert picture.read_bytes().startswith(b"\x89PNG")
    account = json.loads(output)
    columns = ("windows", "total", "distinct", "missing", "repeated", "never_counted")
    assert {(row["topic"], row["tier"]): [row[name] for name in columns] for row in account["totals"]} == {
        (WELL, "producer"): [2, EVENTS, EVENTS, 0, 0, 0],
        (WELL, "live"): [2, EVENTS, EVENTS, 0, 0, 0],
        (KILLED, "producer"): [2, EVENTS, EVENTS, 0, 0, 0],
        (KILLED, "live"): [2, EVENTS + UNCOUNTED, EVENTS + UNCOUNTED, 0, 0, UNCOUNTED],
        (LOSSY, "producer"): [2, EVENTS + 2, EVENTS + 2, 0, 0, 0],
        (LOSSY, "live"): [2, EVENTS + 2, EVENTS + 1, 1, 1, 0],
    }
    assert {(row["topic"], row["window"]) for row in account["windows"]} == {(LOSSY, WINDOW)}

    assert main([*audit, "--topic", WELL, "--topic", KILLED, "--tiers", "producer,live"]) == 0
    output, errors = capfd.readouterr()
    assert "4 windows compared, 0 open" in output
    assert errors == ""
    assert main([*audit, "--topic", WELL, "--strict"]) == 0
    assert main([*audit, "--from", "2023-11-14T22:13:30Z"]) == 0
    assert main([*audit, "--topic", KILLED, "--strict"]) == 1
    assert f"tier live: {UNCOUNTED} never counted by the tier before" in capfd.readouterr().err


def test_a_reader_that_is_asked_again_finds_what_is_new(cluster: LocalCluster) -> None:
    """It reads no window again that is not wanted any more, and from wherever is asked for after that."""
    publish(cluster)
    reader = AuditReader()
    second_ms = START_S * 1000 + 10_000
    with connect(cluster.zk_connect) as client:
        everything = [report.report_id for report in reader.read(client, TOPICS)]
        late = [report.report_id for report in reader.read(client, TOPICS, second_ms)]
        assert set(late) < set(everything)
        assert [report.report_id for report in reader.read(client, TOPICS, second_ms)] == late
        with open_counter("late", cluster.zk_connect) as counter:
            counter.count("other", [Stamp(second_ms * 1000, str(uuid.uuid4()), 0)])
        eventually(lambda: [each.tier for each in reader.read(client, ["other"], second_ms)] == ["late"])
        assert {report.report_id for report in reader.read(client, TOPICS)} == set(everything)
        assert has_audit(client)
