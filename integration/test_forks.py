"""What owns threads, in children that are forked at every moment of a thread's beginning."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafka2011.local_cluster import LocalCluster


@pytest.mark.parametrize("what", ["handler", "producer", "counter"])
def test_a_child_can_publish_whenever_it_was_forked(zk_connect: str, what: str) -> None:
    """Also while the thread was importing what it needs, which no child would ever get whole."""
    with LocalCluster(1, zk_connect=zk_connect) as cluster:
        done = subprocess.run(
            [sys.executable, "-m", "integration.programs.fork_at_every_moment", what, cluster.zk_connect],
            stdout=subprocess.PIPE,
            text=True,
            timeout=150,
            check=True,
        )
    *lost, told = done.stdout.splitlines()
    assert not lost
    assert int(told.removeprefix("moments: ")) > 10
