"""The tiers of the paper's section 4 for minutes: frontends, a live cluster, mirrors, an offline cluster, the audit.

PIPELINE_MINUTES says for how many, PIPELINE_RATE how many events a second.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from integration.cli.calling import command
from kafka2011 import Admin, LocalCluster
from kafka2011.cli.app import main
from tests.support.waiting import eventually
from zk.child import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafka2011.admin import GroupPartition

MINUTES = float(os.environ.get("PIPELINE_MINUTES", "5"))
RATE = float(os.environ.get("PIPELINE_RATE", "400"))
TOPICS = ("page_views", "searches", "impressions", "clicks", "server_stats")
TIERS = ("producer", "live", "mirror", "offline")
SETTLE_S = 180
KILL_EVERY_S = 10.0
PROPERTIES = {"num.partitions": 2, "log.flush.interval": 1, "zk.sessiontimeout.ms": 4000}
"""What was confirmed can be read at once, so that no lag means that all has passed."""

pytestmark = pytest.mark.timeout(60 * MINUTES + 3 * SETTLE_S)


@pytest.fixture
def clusters() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """Start a live cluster and an offline one, each with a ZooKeeper of its own."""
    with LocalCluster(2, properties=PROPERTIES) as live, LocalCluster(1, properties=PROPERTIES) as offline:
        yield live, offline


def consumer(cluster: LocalCluster, tier: str) -> list[str]:
    return command(
        *("consume", "--whitelist", "|".join(TOPICS), "--group", tier, "--audit", tier, "--from-beginning"),
        *("--zookeeper", cluster.zk_connect),
    )


def mirror(live: LocalCluster, offline: LocalCluster) -> list[str]:
    return command(
        *("mirror", "--from", live.zk_connect, "--to", offline.zk_connect, "--group", "mirror", "--audit", "mirror"),
        *("--whitelist", "|".join((*TOPICS, "audit"))),
    )


def wait_for_the_end(cluster: LocalCluster, group: str, topics: tuple[str, ...]) -> None:
    """Wait until a group has committed all that there is of these topics."""

    def is_behind(partition: GroupPartition) -> bool:
        return partition.end is None or 0 < partition.end != partition.committed

    def has_read_all() -> bool:
        found = admin.describe_group(group)
        return {each.where.topic for each in found} >= set(topics) and not any(map(is_behind, found))

    with Admin(cluster.zk_connect) as admin:
        eventually(has_read_all, SETTLE_S, what=f"the end of what group {group} reads")


def test_no_tier_misses_an_event_though_mirrors_are_killed(
    clusters: tuple[LocalCluster, LocalCluster], tmp_path: Path
) -> None:
    """Whatever producers were told has arrived is counted by every tier behind them; kill -9 only repeats."""
    live, offline = clusters
    events = ("generate", "--rate", RATE, "--seconds", 60 * MINUTES, "--start", "now", "--audit", "producer")
    parts = {
        "live": consumer(live, "live"),
        "mirror-0": mirror(live, offline),
        "mirror-1": mirror(live, offline),
        "offline": consumer(offline, "offline"),
        "generate": command(*events, "--zookeeper", live.zk_connect),
    }
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(ChildProcess(words, tmp_path / name, stop_timeout_s=SETTLE_S))
            for name, words in parts.items()
        }

        def end(name: str) -> None:
            running[name].stop()
            assert running[name].poll() == 0, (tmp_path / name).read_text()

        with Admin(offline.zk_connect) as admin:
            eventually(lambda: set(TOPICS) <= set(admin.topics()), SETTLE_S, what="the topics' arrival")
        for victim in itertools.cycle(("mirror-0", "mirror-1")):
            time.sleep(KILL_EVERY_S)
            if running["generate"].poll() is not None:
                break
            running[victim].kill()
            running[victim].start()
        eventually(lambda: running["generate"].poll() is not None, 60 * MINUTES + SETTLE_S, what="the generator's end")
        end("generate")
        wait_for_the_end(live, "live", TOPICS)
        end("live")  # which reports what it has counted
        wait_for_the_end(live, "mirror", (*TOPICS, "audit"))
        end("mirror-0")
        end("mirror-1")
        wait_for_the_end(offline, "offline", TOPICS)
        end("offline")
        for name in ("generate", "mirror-0", "mirror-1"):
            sys.stdout.write(f"{name}: {(tmp_path / name).read_text()}\n")
        status = main(["audit", "--zookeeper", offline.zk_connect, "--tiers", ",".join(TIERS), "--grace", "0"])
    assert status == 0
