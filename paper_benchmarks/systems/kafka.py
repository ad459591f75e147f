"""A Kafka of today: one process that is broker and controller (KRaft), from Maven Central's jars; a topic is a log."""

from __future__ import annotations

import base64
import re
import secrets
import socket
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.worker import ROOT
from paper_benchmarks.systems.local_server import HOST, LocalServer, Process, missing_modules, own_directory, program
from paper_benchmarks.systems.system import Kind, Line, System, Way
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

JARS = ROOT / ".venv" / "kafka"
_TIMEOUT_S = 30.0
_FORMAT_TIMEOUT_S = 120.0
_HEAP = "1G"
_CONFIGURATION = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
log.dirs={directory}
num.partitions=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
group.initial.rebalance.delay.ms=0
log.retention.check.interval.ms=3600000
"""
_SETTINGS = {
    "replicas": "1",
    "heap": _HEAP,
    "durability": "written to a segment file and acknowledged then (acks=all of one replica); flushed by the kernel",
}


class KafkaServer(LocalServer):
    """One node, which `command` starts in a directory."""

    def __init__(self, port: int, process: Process, data: Path, command: Sequence[str]) -> None:
        super().__init__("kafka", version_of(JARS) or "", port, process, data, _SETTINGS)
        self._command = command

    def kill(self) -> None:
        """End it with kill -9."""
        self.process.kill()

    def launch(self) -> None:
        """Start it again, without waiting for it."""
        assert self.directory is not None
        self.process = Process(self._command, self.directory.parent)

    def server(self) -> dict[str, Any]:
        """Return address, and what its own tools are run from."""
        return {**super().server(), **tools()}

    def count(self, topic: str) -> int:
        """Ask for the first and the last offset of its one partition."""
        return count_offsets(self, topic)


def tools() -> dict[str, Any]:
    """Return what its own tools are run from, for JSON."""
    return {"java": program("java"), "classpath": _classpath()}


def count_offsets(system: System, topic: str) -> int:
    """Return how many offsets the one partition of a topic has."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": f"{system.host}:{system.port}", "group.id": "count"})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=_TIMEOUT_S)
        return int(high - low)
    finally:
        consumer.close()


def _classpath() -> str:
    return f"{JARS}/*"


def version_of(jars: Path) -> str | None:
    """Return the version of the Kafka whose jars lie there; None when there is none, or it has no tools."""
    found = [re.fullmatch(r"kafka_2\.13-(.+)\.jar", path.name) for path in jars.glob("kafka_2.13-*.jar")]
    versions = [each[1] for each in found if each is not None]
    tools = bool(list(jars.glob("kafka-tools-[0-9]*.jar")))
    return max(versions) if versions and tools else None


def _missing() -> str | None:
    if program("java") is None:
        return "there is no Java"
    if version_of(JARS) is None:
        return "the jars of Kafka are not there (make bench-rivals)"
    return missing_modules("confluent_kafka")


@contextmanager
def _start(directory: Path, settings: Mapping[str, object] | None = None) -> Iterator[System]:
    java, port = program("java"), free_port()
    assert java is not None
    with own_directory(directory) as base:
        data, properties = base / "data", base / "server.properties"
        text = _CONFIGURATION.format(host=HOST, port=port, controller=free_port(), directory=data)
        more = "".join(f"{key}={value}\n" for key, value in (settings or {}).items())
        properties.write_text(text + more, encoding="utf-8")
        _format(java, str(properties))
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
        command = [java, f"-Xms{_HEAP}", f"-Xmx{_HEAP}", quiet, "-cp", _classpath(), "kafka.Kafka", str(properties)]
        server = KafkaServer(port, Process(command, base), data, command)
        try:
            server.process.await_up(lambda: socket.create_connection((HOST, port), _TIMEOUT_S).close())
            yield server
        finally:
            server.process.stop()


def make_topic(system: System, topic: str, partitions: int) -> None:
    """Make a topic with partitions, and wait until all are there."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": f"{system.host}:{system.port}"})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(_TIMEOUT_S)


def owners(system: System, group: str) -> Callable[[], tuple[int, int]]:
    """Return what tells how many partitions members of a group own, and how many members own some."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": f"{system.host}:{system.port}"})

    def owned() -> tuple[int, int]:
        try:
            members = admin.describe_consumer_groups([group])[group].result(_TIMEOUT_S).members
        except (KafkaException, TimeoutError):  # the group's coordinator is not there yet, or does not answer
            return 0, 0
        counts = [len(each.assignment.topic_partitions) for each in members]
        return sum(counts), sum(map(bool, counts))

    return owned


def _format(java: str, properties: str) -> None:
    cluster = base64.urlsafe_b64encode(b"k" + secrets.token_bytes(15)).decode().rstrip("=")
    command = [java, "-cp", _classpath(), "kafka.tools.StorageTool", "format", "-t", cluster, "-c", properties]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_FORMAT_TIMEOUT_S, check=False)  # noqa: S603 (ours)
    if done.returncode:
        raise BenchmarkError(f"Kafka's StorageTool ended with status {done.returncode}: {done.stderr[-1000:]}")


KIND = Kind(
    name="kafka",
    title="Kafka 4",
    driver="paper_benchmarks.clients.kafka",
    lines=(
        Line(Way.CONFIRMED_LISTS, "lists", 400_000, 1000, "confluent-kafka, produce_batch, acks=all"),
        Line(Way.SEND_LISTS, "lists-0", 400_000, 1000, "confluent-kafka, produce_batch, acks=0"),
        Line(Way.CONFIRMED_EACH, "produce", 200_000, title="confluent-kafka, produce, acks=all"),
        Line(Way.SEND_EACH, "produce-0", 200_000, title="confluent-kafka, produce, acks=0"),
        Line(Way.CONFIRMED_EACH, "perf", 1_000_000, title="its own perf tool (Java), acks=all", tool=True),
        Line(Way.SEND_EACH, "perf-0", 1_000_000, title="its own perf tool (Java), acks=0", tool=True),
        Line(Way.READ_LISTS, "consume", 400_000, title="confluent-kafka, consume(1000)"),
        Line(Way.READ_EACH, "poll", 300_000, title="confluent-kafka, poll"),
        Line(Way.READ_EACH, "perf", 1_000_000, title="its own perf tool (Java)", once=True, tool=True),
    ),
    start=_start,
    filler="lists",
    topic_messages=25_000_000,  # its tool reads a topic once, and 10 s long
    missing=_missing,
)
