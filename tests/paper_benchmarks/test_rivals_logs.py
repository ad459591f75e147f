"""What is read of the rivals' logs and tools, and why one of them may be left out."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from paper_benchmarks.errors import BenchmarkError
from paper_benchmarks.systems import activemq, rabbitmq, redis
from paper_benchmarks.systems.local_server import missing_modules, what_is_missing
from paper_benchmarks.systems.system import Mark

RABBIT_LOG = """\
2026-11-22 08:10:10.123456+00:00 [info] <0.230.0> Memory high watermark set to 9800 MiB
2026-11-22 08:10:11.500000+00:00 [warning] <0.356.0> memory resource limit alarm set on node 'measured-1@localhost'.
2026-11-22 08:10:11.500000+00:00 [warning] <0.356.0>
2026-11-22 08:10:14.250000+01:00 [warning] <0.356.0> memory resource limit alarm cleared on node 'measured-1@localhost'
"""
JAVA_LOG = """\
[1795335575794ms] Using G1
[1795335582795ms] GC(0) Pause Young (Normal) (G1 Evacuation Pause) 18M->5M(380M) 43.719ms
[1795335583000ms] GC(1) Concurrent Mark Cycle 12.000ms
[1795335584001ms] GC(2) Pause Remark 18M->5M(380M) 1.719ms
"""
REDIS_LOG = """\
22608:M 22 Nov 2026 08:10:10.123 * Ready to accept connections
22608:M 22 Nov 2026 08:10:11.500 * Background append only file rewriting started by pid 22700
22608:M 22 Nov 2026 08:10:12.500 * Background saving started by pid 22701
22701:C 22 Nov 2026 08:10:13.500 * DB saved on disk
"""


def test_alarms_of_rabbitmq_are_marks() -> None:
    """With the time that its log gives, in whatever zone."""
    at_s = datetime.fromisoformat("2026-11-22T08:10:11.500+00:00").timestamp()
    assert rabbitmq.alarms(RABBIT_LOG) == [
        Mark("memory resource limit alarm set", at_s=at_s),
        Mark("memory resource limit alarm cleared", at_s=at_s + 2.75 - 3600),
    ]


def test_pauses_of_a_java_are_marks() -> None:
    """Work beside the program is none."""
    assert activemq.pauses(JAVA_LOG) == [
        Mark("garbage collection (Pause Young)", at_s=1795335582.795),
        Mark("garbage collection (Pause Remark)", at_s=1795335584.001),
    ]


def test_background_work_of_redis_is_marked() -> None:
    """Its log has the local time."""
    began = datetime(2026, 11, 22, 8, 10, 11, 500_000)
    assert redis.background_work(REDIS_LOG) == [
        Mark("background append only file rewriting started", at_s=began.timestamp()),
        Mark("background saving started", at_s=began.timestamp() + 1),
    ]


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
        "print(*({'pika', 'stomp', 'redis', 'nats', 'confluent_kafka'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "\n"
