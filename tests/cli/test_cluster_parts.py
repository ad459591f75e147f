"""What a running cluster does about parts that end, and what it says of them."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from kafka2011.cli.cluster_parts import ENDED, RUNNING, ClusterParts, Part
from kafka2011.cli.restarts import FIRST_PAUSE_S, MOST_RESTARTS
from kafka2011.cli.running import RunningOnce
from kafka2011.errors import KafkaError
from kafka2011.local_cluster import LocalBroker, LocalCluster
from tests.support.clocks import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

Told = list[list[tuple[str, str, int, bool]]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """Give a cluster of two processes that only sleep, and no ZooKeeper."""
    cluster = LocalCluster(0, zk_connect="nowhere:1", directory=tmp_path)
    with ExitStack() as stack:
        for number, replica in enumerate("ab"):
            properties = {"port": str(7000 + number), "replica.name": replica}
            sleeper = ("sh", "-c", "exec sleep 600")
            process = LocalBroker(0, tmp_path / replica, properties, sleeper)
            (tmp_path / replica).mkdir()
            process.launch()
            stack.callback(process.stop)
            cluster.processes.append(process)
        yield cluster


def told_by(parts: Sequence[Part]) -> list[tuple[str, str, int, bool]]:
    return [(part.part, part.state, part.restarts, part.ended_last is not None) for part in parts]


def test_a_part_that_ends_is_started_again_and_both_are_told(cluster: LocalCluster) -> None:
    """It is started after a pause; the other one goes on. What has not changed is not told again."""
    clock, told = ManualClock(wall_lead_s=1_300_000_000), Told()
    parts = ClusterParts(cluster, lambda parts: told.append(told_by(parts)), clock)
    parts.look()
    parts.look()
    other = ("replica b of broker 0", RUNNING, 0, False)
    assert told == [[("replica a of broker 0", RUNNING, 0, False), other]]
    leader = cluster.processes[0]
    first_pid = leader.process.pid
    leader.kill()
    parts.look()
    assert not leader.running
    assert told[1:] == [[("replica a of broker 0", ENDED, 0, True), other]]
    clock.sleep(FIRST_PAUSE_S)
    parts.look()
    assert leader.running
    assert leader.process.pid != first_pid
    assert told[2:] == [[("replica a of broker 0", RUNNING, 1, True), other]]


def test_a_part_that_ends_too_often_is_told_before_the_end(cluster: LocalCluster) -> None:
    """The others are looked after first: all of what is told is as it was then."""
    clock, told = ManualClock(), Told()
    parts = ClusterParts(cluster, lambda parts: told.append(told_by(parts)), clock)
    for _ in range(MOST_RESTARTS):
        cluster.processes[0].kill()
        parts.look()
        clock.sleep(FIRST_PAUSE_S * 2**MOST_RESTARTS)
        parts.look()
    cluster.processes[0].kill()
    cluster.processes[1].kill()
    with pytest.raises(KafkaError, match="replica a of broker 0 has crashed repeatedly: see /"):
        parts.look()
    assert [(state, restarts) for _, state, restarts, _ in told[-1]] == [(ENDED, MOST_RESTARTS), (ENDED, 0)]


def test_what_runs_in_a_directory_is_found_while_it_runs(tmp_path: Path) -> None:
    """Neither before nor afterwards, even if it was killed and has left its file."""
    one = RunningOnce(tmp_path, "parts", "cluster runs in")
    with pytest.raises(KafkaError, match=f"no cluster runs in {tmp_path}"):
        one.document()
    with one.running() as tell:
        tell({"parts": 1})
        tell({"parts": 2})
        assert RunningOnce(tmp_path, "parts", "cluster runs in").document()["parts"] == 2
        with pytest.raises(KafkaError, match=f"a cluster runs in {tmp_path} already"), one.locked():
            pass
        left = (tmp_path / "parts.json").read_text()
    assert one.read() is None
    (tmp_path / "parts.json").write_text(left)
    with pytest.raises(KafkaError, match="no cluster runs in"):
        one.document()
