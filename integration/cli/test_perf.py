"""`perf` against a real cluster: it counts what passed, whatever that took."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration.cli.calling import output, rows, run

if TYPE_CHECKING:
    from kafka2011.local_cluster import LocalCluster


def test_what_is_published_is_read(kafka2011_session_cluster: LocalCluster) -> None:
    """By lists and one by one; nothing is left of the group that read."""
    zookeeper = ("--zookeeper", kafka2011_session_cluster.zk_connect)
    [sent] = rows("perf", "produce", "loud", "--messages", 1010, "--batch", 50, *zookeeper)
    [alone] = rows("perf", "produce", "loud", "--messages", 10, "--batch", 1, "--property", "confirm=true", *zookeeper)
    assert (sent["messages"], alone["messages"]) == (1010, 10)
    [read] = rows("perf", "consume", "loud", "--messages", 1020, *zookeeper)
    assert 1020 - 250 <= int(str(read["messages"])) < 1020  # all but the first list
    [read] = rows("perf", "consume", "loud", "--messages", 1020, "--each", *zookeeper)
    assert read["messages"] == 1019
    assert float(str(read["messages_per_s"])) > 0
    assert float(str(sent["broker_cpu_us"])) > 0  # they run here
    assert read["broker_cpu_us"] is not None
    [timed] = rows("perf", "produce", "timed", "--seconds", 0.3, *zookeeper)
    assert float(str(timed["seconds"])) >= 0.3
    [read] = rows("perf", "consume", "timed", "--seconds", 0.01, *zookeeper)
    assert 0 < int(str(read["messages"])) < int(str(timed["messages"]))
    assert "perf-" not in output("groups", *zookeeper)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ("consume", "loud", "--property", "consumer.timeout.ms=1"),
            "consumer.timeout.ms=1: give --timeout-ms instead",
        ),
        (("consume", "silent", "--timeout-ms", "50"), "0 messages came, at once: too few to measure anything"),
    ],
)
def test_what_cannot_be_measured(
    kafka2011_session_cluster: LocalCluster, arguments: tuple[str, ...], complaint: str
) -> None:
    done = run("perf", *arguments, "--zookeeper", kafka2011_session_cluster.zk_connect)
    assert complaint in done.stderr
    assert done.returncode in {1, 2}
