"""What is read of the rivals' tools, and why one of them may be left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from paper_benchmarks.clients.job import Job
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.systems import activemq, kafka, rabbitmq
from paper_benchmarks.systems.local_server import missing_modules, what_is_missing


def test_the_length_of_a_queue_of_activemq_is_read_from_its_tool() -> None:
    """Anything else than one number is an error that names the queue."""
    assert activemq.queue_size("ACTIVEMQ_BASE: /somewhere\nQueueSize = 2200\n\n", "views") == 2200
    with pytest.raises(BenchmarkError, match=r"how long views is: .*NameNotFoundException"):
        activemq.queue_size("ERROR: NameNotFoundException: jmxrmi", "views")


def test_a_node_of_rabbitmq_keeps_to_its_directory_and_ports(tmp_path: Path) -> None:
    """Whatever it would use otherwise belongs to the machine's own one."""
    variables = rabbitmq.environment(tmp_path, (1, 2, 3))
    assert variables["RABBITMQ_NODE_PORT"] == "1"
    assert variables["RABBITMQ_DIST_PORT"] == "2"
    assert variables["ERL_EPMD_PORT"] == "3"
    files = ["HOME", *(name for name in variables if name.endswith(("_BASE", "_FILE")))]
    assert len(files) == 7
    assert all(Path(variables[name]).is_relative_to(tmp_path) for name in files)


def test_the_last_line_of_a_tool_of_kafka_is_read() -> None:
    """Messages, and those a second; anything else is an error with its text."""
    pytest.importorskip("confluent_kafka")
    from paper_benchmarks.clients.kafka import consumed, produced

    ended = "5 records sent, 1.0 records/sec\n2000 records sent, 69309.675 records/sec (13.22 MB/sec), 2004.62 ms avg\n"
    assert produced(ended) == (2000, 69309.675)
    assert consumed("start.time, ...\n2026-1, 2026-2, 190.7, 20.8, 1000, 109.09, 57, 34, 55.98, 293513.3\n") == (
        1000,
        293513.3,
    )
    with pytest.raises(BenchmarkError, match="no such option"):
        produced("no such option")


def test_a_tool_of_kafka_runs_until_one_run_is_long_enough() -> None:
    """By the rate of the run before; what a message costs is what a run takes more than its warm-up."""
    pytest.importorskip("confluent_kafka")
    from paper_benchmarks.clients.kafka import go_on

    counts = []

    def run(count: int) -> tuple[tuple[int, float], float]:
        counts.append(count)
        return (count, 1000.0), 1.0 + count * 0.001

    job = Job(do="produce", client="perf", topic="views", messages=1000, every=1, seconds=10.0, most_s=30.0)
    done = go_on(job, 100.0, 1.0 + 50 * 0.001, run)
    assert counts == [1100, 11_000]  # at first it was thought to be ten times as slow
    assert (done["messages"], done["warm_messages"], done["wall_s"]) == (11_000, 1100, 11.0)
    assert done["cpu_s"] == pytest.approx(11.0)
    assert done["server_share"] == pytest.approx(11_000 / 12_100)
    short = go_on(Job(do="produce", client="perf", topic="views", messages=1, every=1), 1.0, 9.0, run)
    assert short["cpu_s"] == pytest.approx(1.001)


def test_a_kafka_needs_its_tools_too(tmp_path: Path) -> None:
    """Its version is that of its jars."""
    (tmp_path / "kafka_2.13-4.3.1.jar").touch()
    (tmp_path / "kafka-tools-api-4.3.1.jar").touch()
    assert kafka.version_of(tmp_path) is None
    (tmp_path / "kafka-tools-4.3.1.jar").touch()
    assert kafka.version_of(tmp_path) == "4.3.1"


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    """The Debian package first, then Python modules; nothing where all is there."""
    assert what_is_missing(None, "redis-server", "json") == (
        "the Debian package redis-server is not installed (make bench-rivals)"
    )
    assert what_is_missing(tmp_path / "none", "activemq") == (
        "the Debian package activemq is not installed (make bench-rivals)"
    )
    assert what_is_missing(tmp_path, "x", "json", "no_such_module") == (
        "the Python module no_such_module is not installed (make bench-rivals)"
    )
    assert missing_modules("json") is None


def test_asking_what_is_missing_imports_no_client() -> None:
    """They would cost every command of the benchmarks."""
    code = (
        "import sys; from paper_benchmarks.systems.kinds import KINDS; [kind.missing() for kind in KINDS.values()];"
        "print(*({'pika', 'stomp', 'redis', 'rstream', 'nats', 'confluent_kafka'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "\n"
