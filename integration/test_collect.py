"""`kafka2011 collect` as a process: killed, rotated under, and sending through brokers that come and go."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from integration.scraping import metrics_of
from kafka2011.audit.reader import AuditReader
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.events.codec import EventDecoder
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.local_cluster import LocalCluster
from tests.support.waiting import eventually
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from zk.local_zookeeper import LocalZooKeeper

SETTINGS = {"num.partitions": 1, "log.flush.interval": 20, "log.default.flush.scheduler.interval.ms": 50}


@pytest.fixture(scope="module")
def cluster(zookeeper: LocalZooKeeper) -> Iterator[LocalCluster]:
    with LocalCluster(2, zk_connect=f"{zookeeper.connect_string}/collect", properties=SETTINGS) as cluster:
        yield cluster


class Messages:
    """What has arrived in a topic, read on from where the last look ended."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._offsets: dict[int, int] = {}
        self.payloads: list[bytes] = []

    def look(self) -> set[bytes]:
        for broker in self._cluster.brokers.values():
            with SimpleConsumer(broker.host, broker.port) as consumer:
                offset = self._offsets.get(broker.broker_id, 0)
                while messages := list(consumer.fetch(self._topic, 0, offset)):
                    self.payloads += [message.payload for message in messages]
                    offset = messages[-1].next_offset
                self._offsets[broker.broker_id] = offset
        return set(self.payloads)


class Collect:
    """The command, started again and again with one state."""

    def __init__(self, cluster: LocalCluster, directory: Path, *arguments: str) -> None:
        self._command = [sys.executable, "-m", "kafka2011", "collect", *arguments]
        if "--config" not in arguments:
            self._command += ["--state", str(directory / "state")]
        self._environ = {**os.environ, "KAFKA2011_ZK_CONNECT": cluster.zk_connect}
        self._log = directory / "collect.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, env=self._environ, stderr=log, stdin=subprocess.PIPE)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        assert self._process is not None
        self._process.send_signal(how)
        if self._process.stdin is not None:
            self._process.stdin.close()
        return self._process.wait(60)

    def wait(self) -> int:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(60)

    def output(self) -> str:
        return self._log.read_text()


def test_no_line_is_lost_though_the_collector_is_killed_and_files_rotate(cluster: LocalCluster, tmp_path: Path) -> None:
    """Killed in the middle of reading, down over two rotations, stopped and started: every line arrives."""
    log = tmp_path / "app.log"
    written: set[bytes] = set()

    def write(count: int) -> None:
        lines = [b"%d %s" % (len(written) + number, b"x" * 100) for number in range(count)]
        with log.open("ab") as file:
            file.writelines(line + b"\n" for line in lines)
        written.update(lines)

    def rotate() -> None:
        if (tmp_path / "app.log.1").exists():
            (tmp_path / "app.log.1").rename(tmp_path / "app.log.2")
        log.rename(tmp_path / "app.log.1")

    messages = Messages(cluster, "app")
    collect = Collect(cluster, tmp_path, str(log), "--topic", "app", "--follow")
    write(100_000)
    collect.start()
    try:
        eventually(messages.look)
        collect.end(signal.SIGKILL)  # most of it is not sent yet
        for _ in range(2):
            write(1000)
            rotate()
        write(1000)
        collect.start()
        eventually(lambda: written <= messages.look(), what="every line of three files")
        rotate()
        write(1000)
        eventually(lambda: written <= messages.look(), what="every line of the new file")
    finally:
        status = collect.end()
    assert status == 0, collect.output()
    assert messages.look() == written, "no line was torn"


@pytest.mark.skipif(shutil.which("logrotate") is None, reason="no logrotate here: apt-get install logrotate")
@pytest.mark.parametrize(
    ("options", "is_down"),
    [
        *(each for is_down in (False, True) for each in [("create", is_down), ("create compress", is_down)]),
        *(("create compress delaycompress", is_down) for is_down in (False, True)),
        *(("copytruncate", False), ("copytruncate compress", False)),  # two of these between two looks go unnoticed
    ],
)
def test_nothing_is_lost_to_logrotate(cluster: LocalCluster, tmp_path: Path, options: str, is_down: bool) -> None:
    """Six rotations by logrotate itself, of some of which the collector is down: all lines arrive, none is called lost.

    With copytruncate, those that were there before the copy.
    """
    log, config, state = tmp_path / "app.log", tmp_path / "logrotate.conf", tmp_path / "logrotate.state"
    body = "\n  ".join(options.split())
    config.write_text(f"{log} {{\n  su root root\n  rotate 9\n  {body}\n}}\n")
    topic = f"rotated-{'-'.join(options.split())}-{is_down}"
    written: set[bytes] = set()
    messages = Messages(cluster, topic)
    collect = Collect(cluster, tmp_path, str(log), "--topic", topic, "--follow")

    def write(count: int) -> None:
        lines = [b"%d %s" % (len(written) + number, b"x" * 100) for number in range(count)]
        with log.open("ab") as file:
            file.writelines(line + b"\n" for line in lines)
        written.update(lines)

    write(500)
    collect.start()
    try:
        eventually(lambda: written <= messages.look())
        for number in range(6):
            if is_down and number % 3 == 0:
                assert collect.end() == 0, collect.output()
            write(500)
            if "copytruncate" in options:
                eventually(lambda: written <= messages.look())
            subprocess.run(["logrotate", "--force", "--state", state, config], check=True)
            write(500)
            if is_down and number % 3 == 1:
                collect.start()
            if not is_down or number % 3 == 2:
                eventually(lambda: written <= messages.look(), what=f"every line of rotation {number}")
    finally:
        status = collect.end()
    assert status == 0, collect.output()
    assert " lost" not in collect.output()
    assert messages.look() == written, "no line was torn"
    assert len(messages.payloads) == len(written), "nothing came twice"


def test_an_access_log_becomes_page_views(cluster: LocalCluster, tmp_path: Path) -> None:
    """Also the line that is none. What is read again, as after a crash, has the same ids; both runs are counted."""
    line = '10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET /jobs HTTP/1.1" 200 42 "-" "a browser"'
    (tmp_path / "access.log").write_text(f"{line}\nnothing of the kind\n")
    log = str(tmp_path / "access.log")
    options = ("--topic", "page_views", "--as", "access-log", "--audit", "collector")
    collect = Collect(cluster, tmp_path, log, *options)
    positions = tmp_path / "state" / "positions.json"
    for _ in range(2):
        collect.start()
        assert collect.wait() == 0, collect.output()
        saved = json.loads(positions.read_text())
        positions.write_text(json.dumps({**saved, "files": []}))
    messages = Messages(cluster, "page_views")
    eventually(lambda: messages.look() and len(messages.payloads) == 4)
    with connect(cluster.zk_connect) as client:
        eventually(lambda: sum(report.count for report in AuditReader().read(client, ["page_views"])) == 4)
        decoder = EventDecoder(SchemaRegistry(client))
        events = [decoder.decode_payload(payload).fields for payload in messages.payloads]
    good = [event for event in events if not event["parse_error"]]
    assert {(event["url"], event["status"], event["line"]) for event in good} == {("/jobs", 200, line)}
    assert {event["line"] for event in events if event["parse_error"]} == {"nothing of the kind"}
    assert len({event["id"] for event in events}) == 2


def test_a_log_in_nginx_s_own_format_is_read_and_another_one_is_told(cluster: LocalCluster, tmp_path: Path) -> None:
    """Lines that cannot be parsed are sent, counted and warned of, and fail a run that ends with its files."""
    log = tmp_path / "access.log"
    line = '10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET /jobs HTTP/1.1" 503 42 "-" "a browser" "-"'
    log.write_text(f"{line}\n" * 30)
    collect = Collect(cluster, tmp_path, str(log), "--topic", "nginx", "--as", "access-log")
    collect.start()
    assert collect.wait() == 0, collect.output()
    with log.open("a") as file:
        file.write("another format\n" * 30)
    collect.start()
    assert collect.wait() == 1
    assert "30 of 30 lines could not be parsed (more than --max-unparsed 0.1)" in collect.output()
    assert "\n".join(collect.output().splitlines()).count("could not be parsed as an access log") == 2
    collect.start()
    assert collect.wait() == 0, "positions are saved all the same"
    messages = Messages(cluster, "nginx")
    eventually(lambda: messages.look() and len(messages.payloads) == 60)
    with connect(cluster.zk_connect) as client:
        decoder = EventDecoder(SchemaRegistry(client))
        events = [decoder.decode_payload(payload).fields for payload in messages.payloads]
    assert [(event["url"], event["status"], event["rest"]) for event in events[:30]] == [("/jobs", 503, '"-"')] * 30


def test_what_came_by_a_pipe_waits_for_the_cluster(cluster: LocalCluster, tmp_path: Path) -> None:
    """Lines from standard input are on disk while all brokers are away, survive kill -9, and are sent first."""
    collect = Collect(
        cluster, tmp_path, "-", "--topic", "piped", "--listen", f"unix:{tmp_path}/socket", "--metrics-port", "0"
    )
    spool = tmp_path / "state" / "spool"
    lines = [b"%d" % number for number in range(1000)]
    collect.start()
    assert collect._process is not None
    assert collect._process.stdin is not None
    messages = Messages(cluster, "piped")
    collect._process.stdin.write(lines[0] + b"\n")
    collect._process.stdin.flush()
    eventually(lambda: messages.look() == {lines[0]})
    eventually(lambda: metrics_of(collect.output())["kafka2011_collect_lines_confirmed_total",] == 1)
    for broker in cluster.brokers.values():
        broker.stop()
    size = sum(path.stat().st_size for path in spool.iterdir())
    collect._process.stdin.write(b"".join(line + b"\n" for line in lines[1:]))
    collect._process.stdin.flush()
    whole = size + sum(len(line) + 10 for line in lines[1:])
    eventually(lambda: sum(path.stat().st_size for path in spool.iterdir()) >= whole)
    collect.end(signal.SIGKILL)
    for broker in cluster.brokers.values():
        broker.start()
    collect.start()
    try:
        eventually(lambda: messages.look() == set(lines))
    finally:
        collect.end()
    assert "bytes that will be sent first" in collect.output()


def test_one_process_for_many_topics(cluster: LocalCluster, tmp_path: Path) -> None:
    """Sections of a file, with a pattern that finds a file born later; SIGHUP ends one, and begins another."""
    config = tmp_path / "collect.toml"
    sections = {
        name: f'[[collect]]\nfiles = ["{tmp_path}/{name}-*.log"]\ntopic = "many_{name}"\nfollow = true\n'
        f'state = "{tmp_path}/state-{name}"\n'
        for name in "abc"
    }
    messages = {name: Messages(cluster, f"many_{name}") for name in sections}

    def write(name: str, line: bytes) -> None:
        with (tmp_path / f"{name}-{line.decode()}.log").open("ab") as file:
            file.write(line + b"\n")

    def eventually_has(name: str, *lines: bytes) -> None:
        eventually(lambda: messages[name].look() == set(lines), what=f"{lines} in {name}")

    config.write_text(sections["a"] + sections["b"])
    collect = Collect(cluster, tmp_path, "--config", str(config))
    collect.start()
    try:
        write("a", b"one")
        write("b", b"two")
        eventually_has("a", b"one")
        eventually_has("b", b"two")
        write("a", b"three")
        eventually_has("a", b"one", b"three")
        config.write_text(sections["b"] + sections["c"])
        assert collect._process is not None
        collect._process.send_signal(signal.SIGHUP)
        write("c", b"four")
        eventually_has("c", b"four")
        write("a", b"five")  # nobody reads it
        write("b", b"six")
        eventually_has("b", b"two", b"six")
        eventually_has("a", b"one", b"three")
    finally:
        status = collect.end()
    assert status == 0, collect.output()
