"""A real standalone cluster: a master and two workers, an application from the installed wheel, a lost executor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.spark.standalone import Standalone, install_wheel, standalone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka2011.local_cluster import LocalCluster

PROGRAM = Path(__file__).parent / "programs" / "read_through_a_kill.py"
MESSAGES = 120_000


@pytest.fixture
def master(tmp_path: Path) -> Iterator[Standalone]:
    with standalone(install_wheel(tmp_path), tmp_path) as running:
        yield running


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_cluster_reads_each_message_once_though_an_executor_is_killed(
    topic: str,
    cluster: LocalCluster,
    create: Callable[..., None],
    publish: Callable[..., int],
    master: Standalone,
    tmp_path: Path,
) -> None:
    """Its tasks run again elsewhere; the format is found in the wheel; stream and sink work there too."""
    create(topic)
    create(f"{topic}.copy")
    for number in range(4):
        first = number * MESSAGES // 4
        payloads = [b"%d" % index for index in range(first, first + MESSAGES // 4)]
        publish(cluster.brokers[number // 2], topic, payloads, number % 2)
    master.submit(PROGRAM, cluster.zk_connect, topic, tmp_path)
    found = json.loads((tmp_path / "result.json").read_text())
    assert found["executors killed"] == 1
    assert found["rows"] == found["distinct"] == MESSAGES
    assert found["streamed"] == MESSAGES
