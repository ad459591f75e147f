"""The fixtures that the package brings for tests of applications, as pytest finds them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "how-to" / "testing.md"
TIMEOUT_S = 90
TWO_CLUSTERS = """
def test_brokers_and_their_settings(kafka2011_cluster, kafka2011_session_cluster):
    assert kafka2011_cluster.zk_connect != kafka2011_session_cluster.zk_connect
    for cluster in (kafka2011_cluster, kafka2011_session_cluster):
        assert len(cluster.brokers) == 2
        assert "num.partitions=3" in cluster.brokers[1].process.command


def test_another_one(kafka2011_cluster, kafka2011_session_cluster):
    kafka2011_cluster.brokers[0].kill()
    assert kafka2011_session_cluster.brokers[0].running


def test_one_for_clients_of_today(kafka2011_gateway_cluster):
    assert kafka2011_gateway_cluster.gateway.running
    assert kafka2011_gateway_cluster.bootstrap_servers.endswith(f":{kafka2011_gateway_cluster.gateway.port}")
"""


def run(directory: Path, test: str, configuration: str) -> subprocess.CompletedProcess[str]:
    """Run a test in a directory of its own, as an application would."""
    (directory / "test_application.py").write_text(test)
    (directory / "pytest.ini").write_text(configuration)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_application.py"]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def test_the_example_of_the_page(tmp_path: Path) -> None:
    """It passes with what the page has in pytest's configuration."""
    page = PAGE.read_text(encoding="utf-8")
    test, _in_a_container = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    [configuration] = re.findall(r"```ini\n(.*?)```", page, re.DOTALL)
    done = run(tmp_path, test, configuration)
    assert "1 passed" in done.stdout, done.stdout


def test_the_example_with_confluent_kafka() -> None:
    """An application with a consumer group of today: its tests pass where they lie."""
    example = ROOT / "examples" / "with-confluent"
    command = [sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=example, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert "3 passed" in done.stdout, done.stdout


def test_clusters_of_the_session_and_of_one_test(tmp_path: Path) -> None:
    """They share a ZooKeeper and nothing else."""
    done = run(tmp_path, TWO_CLUSTERS, "[pytest]\nkafka2011_brokers = 2\nkafka2011_properties = num.partitions=3\n")
    assert "3 passed" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("kafka2011_brokers = none", "kafka2011_brokers is how many brokers there are, not 'none'"),
        ("kafka2011_properties = num.partitions", "kafka2011_properties are lines name=value, not 'num.partitions'"),
    ],
)
def test_a_configuration_that_says_nothing_sensible(tmp_path: Path, line: str, complaint: str) -> None:
    """It is said before the first test."""
    done = run(tmp_path, "def test_it(): pass\n", f"[pytest]\n{line}\n")
    assert complaint in done.stderr, done.stdout + done.stderr
