"""Other clients' programs and tests at a gateway: Java's tools, and the integration tests of kafka-python.

The jars of Kafka are those of `make bench-rivals`. KAFKA_PYTHON_CHECKOUT names a checkout of kafka-python's
repository: its source archive lacks a file that its tests need.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import confluent_kafka
import pytest

from kafka2011 import ConsumerConnector, SimpleConsumer
from kafka2011.local_cluster import LocalCluster
from paper_benchmarks.systems import kafka
from proof.environments import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "gateway-tests.md"
CHECKOUT_VARIABLE = "KAFKA_PYTHON_CHECKOUT"
PACKAGES = ("pytest", "pytest-timeout", "crc32c", "lz4", "python-snappy", "zstandard")
SUITES = ("consumer", "producer", "admin")
TIMEOUT_S = 60
UNSTEADY = {"test_group"}
"""Tests on the page that pass now and then."""
SUITE_S = 900
PARTITIONS = 2
JVM = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
TOOLS = "org.apache.kafka.tools"

pytestmark = pytest.mark.timeout(2 * SUITE_S)
needs_java = pytest.mark.skipif(bool(kafka.KIND.missing()), reason=str(kafka.KIND.missing()))

_names = count()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Start two brokers with a partition each, and a gateway."""
    with LocalCluster(
        2, directory=tmp_path_factory.mktemp("cluster"), properties={"num.partitions": 1}, gateway=True
    ) as made:
        yield made


@pytest.fixture
def topic() -> str:
    return f"views-{next(_names)}"


def java(cluster: LocalCluster, tool: str, *arguments: str, given: str = "") -> str:
    """Run one of Kafka's tools, and return what it prints."""
    command = ["java", *JVM, "-cp", f"{kafka.JARS}/*", f"{TOOLS}.{tool}", "--bootstrap-server"]
    done = subprocess.run(
        [*command, cluster.bootstrap_servers, *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{tool} {arguments}: {done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def described(cluster: LocalCluster, topic: str) -> tuple[int, int]:
    """Return the number of partitions that TopicCommand describes, and of those that have a leader."""
    text = java(cluster, "TopicCommand", "--describe", "--topic", topic)
    counts = re.search(r"PartitionCount: (\d+)\tReplicationFactor: 1", text)
    assert counts is not None, text
    return int(counts[1]), len(re.findall(r"Partition: \d+\tLeader: \d+", text))


def consumed(cluster: LocalCluster, topic: str, partition: int, offset: str, number: int, *more: str) -> list[str]:
    """Return lines that the console consumer prints."""
    where = ["--topic", topic, "--partition", str(partition), "--offset", offset]
    ends = ["--max-messages", str(number), "--timeout-ms", str(TIMEOUT_S * 500)]
    return java(cluster, "consumer.ConsoleConsumer", *where, *ends, *more).splitlines()


def offsets(cluster: LocalCluster, topic: str, when: str) -> dict[int, int | None]:
    """Return the offset of each partition that GetOffsetShell prints for a time."""
    text = java(cluster, "GetOffsetShell", "--topic", topic, "--time", when)
    lines = [line.split(":") for line in text.splitlines() if line.startswith(f"{topic}:")]
    return {int(partition): int(offset) if offset else None for _, partition, offset in lines}


@needs_java
def test_topic_command(cluster: LocalCluster, topic: str) -> None:
    created = java(cluster, "TopicCommand", "--create", "--topic", topic, "--partitions", "4")
    assert f"Created topic {topic}" in created
    assert described(cluster, topic) == (4, 4)
    assert topic in java(cluster, "TopicCommand", "--list").split()

    java(cluster, "TopicCommand", "--alter", "--topic", topic, "--partitions", "6")
    assert described(cluster, topic) == (6, 6)

    java(cluster, "TopicCommand", "--delete", "--topic", topic)
    assert topic not in java(cluster, "TopicCommand", "--list").split()


@needs_java
def test_sizes_of_logs_and_the_largest_timestamp(cluster: LocalCluster, topic: str) -> None:
    java(cluster, "TopicCommand", "--create", "--topic", topic, "--partitions", str(PARTITIONS))
    java(cluster, "ConsoleProducer", "--topic", topic, given="".join(f"{number}\n" for number in range(100)))
    ends, largest = offsets(cluster, topic, "-1"), offsets(cluster, topic, "-3")
    assert all((largest.get(partition) is not None) == bool(end) for partition, end in ends.items())

    text = java(cluster, "LogDirsCommand", "--describe", "--topic-list", topic)
    [answer] = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    sizes = {
        int(partition["partition"].rpartition("-")[2]): partition["size"]
        for broker in answer["brokers"]
        for directory in broker["logDirs"]
        for partition in directory["partitions"]
    }
    assert {partition: size > 0 for partition, size in sizes.items()} == {each: bool(end) for each, end in ends.items()}


@needs_java
def test_console_producer_and_consumer(cluster: LocalCluster, topic: str) -> None:
    """The producer has its default settings, so it is idempotent; lines with one key go to one partition."""
    java(cluster, "TopicCommand", "--create", "--topic", topic, "--partitions", str(PARTITIONS))
    lines = [f"k{number % 7}:{number}" for number in range(1000)]
    keyed = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=:"]
    java(cluster, "ConsoleProducer", "--topic", topic, *keyed, given="".join(f"{line}\n" for line in lines))

    ends = offsets(cluster, topic, "-1")
    assert set(ends) == set(range(PARTITIONS))
    shown = ["--formatter-property", "print.key=true", "--formatter-property", "key.separator=:"]
    read = [
        consumed(cluster, topic, each, "earliest", int(end or 0), *shown) if end else [] for each, end in ends.items()
    ]
    assert sorted(line for part in read for line in part) == sorted(lines)
    for part in read:
        numbers = [int(line.split(":")[1]) for line in part]
        assert numbers == sorted(numbers)

    longest = max(ends, key=lambda each: ends[each] or 0)
    assert consumed(cluster, topic, longest, "5", 3, *shown) == read[longest][5:8]
    values = []
    for broker in cluster.brokers.values():
        with SimpleConsumer(broker.host, broker.port) as consumer:
            values += [message.payload.decode() for message in consumer.fetch(topic, 0, 0, 1024 * 1024)]
    assert sorted(values) == sorted(line.split(":")[1] for line in lines)


@needs_java
@pytest.mark.parametrize("settings", [("acks=all",), ("acks=1", "compression.type=lz4"), ("acks=0",)], ids=" ".join)
def test_producer_performance(cluster: LocalCluster, topic: str, settings: tuple[str, ...]) -> None:
    java(cluster, "TopicCommand", "--create", "--topic", topic, "--partitions", str(PARTITIONS))
    shape = ["--topic", topic, "--num-records", "50000", "--record-size", "200", "--throughput", "-1"]
    properties = [part for setting in settings for part in ("--command-property", setting)]
    assert "50000 records sent" in java(cluster, "ProducerPerformance", *shape, *properties)

    ends_s = time.monotonic() + TIMEOUT_S  # without an acknowledgement, the tool ends before all is appended
    while (found := sum(end or 0 for end in offsets(cluster, topic, "-1").values())) < 50_000:
        assert time.monotonic() < ends_s, found
    assert found == 50_000


@needs_java
def test_get_offset_shell(cluster: LocalCluster, topic: str) -> None:
    java(cluster, "TopicCommand", "--create", "--topic", topic, "--partitions", "1")
    produce = ["ConsoleProducer", "--topic", topic]
    before_ms = int(time.time() * 1000)
    java(cluster, *produce, given="one\ntwo\n")
    between_ms = int(time.time() * 1000) + 1
    java(cluster, *produce, given="three\n")
    after_ms = int(time.time() * 1000) + 60_000

    wanted = {"earliest": 0, "latest": 3, str(before_ms): 0, str(between_ms): 2, str(after_ms): None}
    assert {when: offsets(cluster, topic, when).get(0) for when in wanted} == wanted


def groups(cluster: LocalCluster, *arguments: str) -> str:
    """Run ConsumerGroupCommand, which gives each of its requests this long."""
    return java(cluster, "consumer.group.ConsumerGroupCommand", "--timeout", str(TIMEOUT_S * 500), *arguments)


def described_group(cluster: LocalCluster, group: str) -> dict[int, tuple[str, str, str, str]]:
    """Return offset, end, lag and member that ConsumerGroupCommand prints for each partition."""
    lines = [line.split() for line in groups(cluster, "--describe", "--group", group).splitlines()]
    return {int(words[2]): (*words[3:6], words[6]) for words in lines if words[:1] == [group]}  # type: ignore[misc]


def reset(cluster: LocalCluster, group: str, topic: str, *to: str) -> int:
    """Move a group in partition 0, and return the offset that is printed."""
    text = groups(cluster, "--reset-offsets", "--execute", "--group", group, "--topic", f"{topic}:0", *to)
    found = re.search(rf"{group}\s+{topic}\s+0\s+(\d+)", text)
    assert found is not None, text
    return int(found[1])


@needs_java
def test_consumers_with_a_group(cluster: LocalCluster, topic: str) -> None:
    """One goes on where the one before has come, within a compressed message too."""
    java(cluster, "TopicCommand", "--create", "--topic", topic, "--partitions", "1")
    java(cluster, "ConsoleProducer", "--topic", topic, given="".join(f"{number}\n" for number in range(1000)))
    consume = ["consumer.ConsoleConsumer", "--topic", topic, "--group", f"group-{topic}", "--from-beginning"]
    for numbers in (range(601), range(601, 1000)):
        ends = ["--max-messages", str(len(numbers)), "--timeout-ms", str(TIMEOUT_S * 500)]
        assert java(cluster, *consume, *ends).split() == [str(number) for number in numbers]
    assert described_group(cluster, f"group-{topic}")[0] == ("1000", "1000", "0", "-")
    perf = ["ConsumerPerformance", "--topic", topic, "--group", f"perf-{topic}", "--num-records", "1000"]
    assert re.search(r", 1000, [\d.]+, ", java(cluster, *perf))


@needs_java
def test_consumer_groups_command(cluster: LocalCluster, topic: str) -> None:
    """It moves a group to messages within wrappers; while a member of 0.7 lives, it shows it and moves nothing."""
    java(cluster, "TopicCommand", "--create", "--topic", topic, "--partitions", str(PARTITIONS))
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 1000, "batch.num.messages": 20}
    producer = confluent_kafka.Producer(settings)
    producer.list_topics(topic, TIMEOUT_S)  # so that it knows where to send, and fills its batches
    for number in range(40):
        producer.produce(topic, b"%d" % number, partition=0, timestamp=1_700_000_000_000 + 60_000 * number)
    assert producer.flush(TIMEOUT_S) == 0
    group = f"group-{topic}"

    assert reset(cluster, group, topic, "--to-earliest") == 0
    assert group in groups(cluster, "--list").split()
    assert reset(cluster, group, topic, "--to-offset", "7") == 7
    assert reset(cluster, group, topic, "--shift-by", "18") == 25
    assert described_group(cluster, group)[0] == ("25", "40", "15", "-")
    assert reset(cluster, group, topic, "--shift-by", "-12") == 13
    minute = "2023-11-14T22:43:20.000"  # that of message 30
    assert reset(cluster, group, topic, "--to-datetime", minute) == 30
    assert reset(cluster, group, topic, "--to-offset", "1000") == 40
    assert reset(cluster, group, topic, "--to-offset", "33") == 33
    with ConsumerConnector({"zk.connect": cluster.zk_connect, "groupid": group}) as connector:
        [stream] = connector.create_message_streams({topic: 1})[topic]
        first = int(next(stream).payload)
        assert first < 33  # the first of a wrapper: members of 0.7 know no place within one
        shown = described_group(cluster, group)
        assert shown[0][1:] == ("40", str(40 - first), connector.consumer_id)
        assert "Stable" in groups(cluster, "--describe", "--group", group, "--state")
        assert connector.consumer_id in groups(cluster, "--describe", "--group", group, "--members", "--verbose")
        refusal = groups(cluster, "--reset-offsets", "--execute", "--group", group, "--topic", topic, "--to-earliest")
        assert "inactive" in refusal
    assert "Empty" in groups(cluster, "--describe", "--group", group, "--state")
    assert described_group(cluster, group)[0] == (str(first), "40", str(40 - first), "-")
    groups(cluster, "--delete-offsets", "--group", group, "--topic", topic)
    assert described_group(cluster, group) == {}
    groups(cluster, "--delete", "--group", group)
    assert group not in groups(cluster, "--list").split()


@needs_java
def test_versions_and_cluster_id(cluster: LocalCluster) -> None:
    assert "Produce(0): 3 to 9" in java(cluster, "BrokerApiVersionsCommand")


def expected_failures() -> set[str]:
    """Return the tests of kafka-python that the page lists, in the table below the paragraph about them."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition("\nkafka-python has ")
    table = rest.split("\n\n", 2)[1]
    return set(re.findall(r"^\| `(test_\w+(?:\[[^`]*\])?)`", table, re.MULTILINE))


def failures(report: Path) -> tuple[set[str], int]:
    """Return which tests failed, by the report of pytest, and how many passed."""
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    failed = {case.attrib["name"] for case in cases if {"failure", "error"} & {part.tag for part in case}}
    skipped = {case.attrib["name"] for case in cases if "skipped" in {part.tag for part in case}}
    return failed, len(cases) - len(failed) - len(skipped)


def test_integration_tests_of_kafka_python(cluster: LocalCluster, tmp_path: Path) -> None:
    """Those that the page lists fail, and no other."""
    checkout = os.environ.get(CHECKOUT_VARIABLE)
    if not checkout:
        pytest.skip(f"set {CHECKOUT_VARIABLE} to a checkout of https://github.com/dpkp/kafka-python")
    python = environment(tmp_path / "environment", *PACKAGES)
    report, output = tmp_path / "report.xml", tmp_path / "output"
    files = [f"test/integration/test_{suite}_integration.py" for suite in SUITES]
    options = ["-p", "no:cacheprovider", "--timeout", "120", "--timeout-method", "signal", f"--junitxml={report}"]
    settings = {
        "KAFKA_VERSION": "4.2.0",
        "KAFKA_URI": f"kafka://{cluster.bootstrap_servers}",
        "KAFKA_ROOT": str(tmp_path),  # it must exist: they start no broker when there is an address
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with output.open("wb") as file:
        subprocess.run(
            [python, "-m", "pytest", *options, *files],
            cwd=checkout,
            env={**os.environ, **settings},
            stdout=file,
            stderr=subprocess.STDOUT,
            timeout=SUITE_S,
            check=False,
        )
    assert report.exists(), output.read_text()[-3000:]
    failed, passed = failures(report)
    listed = expected_failures()
    assert passed >= len(listed)
    assert failed - listed == set(), output.read_text()[-20_000:]
    assert listed - failed <= UNSTEADY, "these pass: remove them from the page"
