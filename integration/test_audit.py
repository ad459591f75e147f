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
from integration.scraping import metrics_of
from kafka2011 import LocalCluster, Producer
from kafka2011.audit.publishing import open_counter
from kafka2011.audit.reader import AuditReader, has_audit
from kafka2011.cli.app import main
from kafka2011.events.codec import EventEncoder, Stamp
from kafka2011.events.publisher import EventPublisher
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.types import CLICK
from tests.support.clocks import ManualClock
from tests.support.waiting import eventually
from zk.child import ChildProcess
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from zk.local_zookeeper import LocalZooKeeper

START_S = 1_700_000_000
WINDOW = "2023-11-14T22:13:20.000Z"
"""The window that begins then."""
END = "2023-11-14T22:13:40Z"
"""When all is published."""
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
        open_counter("producer", cluster.zk_connect, clock=clock) as counter,
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
    program = (sys.executable, "-m", "integration.programs.audited_producer")
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
    """A loss that a repeat hides in the totals is found; neither a producer nor a member that is killed is a gap.

    Of what a killed producer has published nobody can tell, until that is accepted.
    """
    publish(cluster)
    publish_and_be_killed(cluster)
    with subprocess.Popen(consume(cluster), stdout=subprocess.PIPE) as killed:
        assert killed.stdout is not None
        assert killed.stdout.read(20_000)
        killed.kill()
    done = subprocess.run(consume(cluster, "--timeout-ms", "9000"), capture_output=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stderr) == (0, b"")

    now = ("audit", "--zookeeper", cluster.zk_connect, "--grace", "0")
    audit = (*now, "--until", END)
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

    good = ("--topic", WELL, "--topic", KILLED, "--tiers", "producer,live")
    assert main([*audit, *good, "--json"]) == 3
    output, errors = capfd.readouterr()
    assert f"cannot tell of what was published since {WINDOW}: {KILLED}: " in errors
    [dead] = [unknown["accept"] for unknown in json.loads(output)["doubts"]]
    assert main([*now, "--accept", f"{dead}x"]) == 1
    assert "is unknown: give a name" in capfd.readouterr().err
    assert main([*now, "--accept", dead]) == 0
    eventually(lambda: main([*audit, *good]) == 0)
    output, errors = capfd.readouterr()
    assert "4 windows compared, 0 open" in output
    assert main([*audit, "--topic", WELL, "--strict"]) == 0
    assert main([*audit, "--from", "2023-11-14T22:13:30Z"]) == 0
    monitored = command("monitor", "--zookeeper", cluster.zk_connect, "--metrics-port", 0, "--tiers", "producer,live")
    monitored += ["--state", str(tmp_path / "state.json"), "--audit-interval", "2"]
    with ChildProcess(monitored, tmp_path / "monitor"):
        eventually(lambda: "/metrics" in (tmp_path / "monitor").read_text(), TIMEOUT_S)
        gaps = ("kafka2011_monitor_audit_gap_windows", LOSSY)
        eventually(lambda: metrics_of((tmp_path / "monitor").read_text()).get(gaps) == 1, TIMEOUT_S)
        found = metrics_of((tmp_path / "monitor").read_text())
        assert found["kafka2011_monitor_audit_gap_windows", WELL] == 0
        assert found["kafka2011_monitor_audit_missing_messages", "live", LOSSY] == 1
        assert found["kafka2011_monitor_failed_looks_total", "audit"] == 0
    assert main([*now, "--topic", WELL, "--until", "2100-01-01T00:00Z"]) == 3, "its reader has ended, and says no more"
    assert main([*audit, "--topic", WELL, "--tiers", "producer,lvie"]) == 3
    assert "tier lvie has said nothing of topic well" in capfd.readouterr().err
    assert main([*audit, "--topic", "nobody"]) == 3
    assert "no window was compared" in capfd.readouterr().out
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
        other = AuditReader(place=reader.place)
        assert [each.tier for each in other.read(client, ["other"], second_ms)] == ["late"]
        assert other.late.tiers(["late", "later"]) == []
        with open_counter("later", cluster.zk_connect) as counter:
            counter.count("other", [Stamp(START_S * 1_000_000, str(uuid.uuid4()), 0)])

        def later() -> list[str]:
            one = AuditReader(place=reader.place)
            assert [each.tier for each in one.read(client, ["other"], second_ms)] == ["late"]
            return one.late.tiers(["late", "later"])

        eventually(lambda: later() == ["later"])
        assert {report.report_id for report in reader.read(client, TOPICS)} == set(everything)
        assert has_audit(client)


def test_an_audit_goes_on_where_the_last_one_ended(
    cluster: LocalCluster, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Windows that were judged for good are not read again, unless somebody reports on them nevertheless."""
    topic, state, clock = "kept", tmp_path / "audit.json", ManualClock(START_S)
    settings = {"zk.connect": cluster.zk_connect, "producer.type": "async", "confirm": True}
    with (
        connect(cluster.zk_connect) as client,
        open_counter("producer", cluster.zk_connect, clock=clock) as counter,
        Producer(settings) as producer,
    ):
        SchemaRegistry(client).register(topic, CLICK)
        publisher = EventPublisher(producer, EventEncoder(SchemaRegistry(client)), counter=counter, clock=clock)
        for _ in range(3):
            publisher.publish(topic, CLICKED)
            clock.now_s += 10
    read = ("consume", "--topic", topic, "--group", "keepers", "--audit", "live", "--from-beginning")
    ends = ("--property", "zk.sessiontimeout.ms=2000", "--zookeeper", cluster.zk_connect, "--timeout-ms", "2000")

    def read_to_the_end() -> None:
        assert subprocess.run(command(*read, *ends), timeout=TIMEOUT_S, check=False).returncode == 0

    read_to_the_end()
    capfd.readouterr()

    audit = ("audit", "--zookeeper", cluster.zk_connect, "--topic", topic, "--tiers", "producer,live", "--grace", "0")
    goes_on = (*audit, "--until", "2023-11-15T00:13:20Z", "--state", str(state))
    for _ in range(3):
        assert main([*goes_on]) == 0
        assert "3 windows compared, 0 open" in capfd.readouterr().out
        assert len(json.loads(state.read_text())["windows"]) == 3

    with (
        connect(cluster.zk_connect) as client,
        open_counter("producer", cluster.zk_connect, clock=clock) as counter,
        Producer(settings) as producer,
    ):
        counter.count(topic, [Stamp(START_S * 1_000_000, str(uuid.uuid4()), 0)])
        publisher = EventPublisher(producer, EventEncoder(SchemaRegistry(client)), counter=counter, clock=clock)
        publisher.publish(topic, CLICKED)
    assert main([*goes_on]) == 3, "the group has not looked since, so it may be late"
    assert "tier live lacks messages that it may not have come to yet" in capfd.readouterr().out
    read_to_the_end()
    eventually(lambda: main([*goes_on]) == 1)
    _, errors = capfd.readouterr()
    assert "tier producer has reported on windows that were decided: reading all reports again" in caplog.text
    assert f"{topic} at {WINDOW}, tier live: 1 missing" in errors
    caplog.clear()
    assert main([*goes_on]) == 1, "a gap is kept"
    assert "reading all reports again" not in caplog.text
    assert main([*audit, "--topic", WELL, "--state", str(state)]) == 1
    assert f"{state} is of tiers producer,live and topics {topic}" in capfd.readouterr().err
    assert main(["audit", "--zookeeper", cluster.zk_connect, "--state", str(state)]) == 2
