"""Runs the demo on a cluster of its own: the replay, the faults, and the account at the end."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka2011.admin.topics import create_topic
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.demo.account import PipelineAccount, account_for
from kafka2011.demo.lost_leader import LostLeader, lose_a_leader
from kafka2011.demo.paced_replay import PacedReplay
from kafka2011.demo.patience import how_busy, is_busy
from kafka2011.demo.read_back import read_partition
from kafka2011.demo.reader import READER_SETTINGS, Reader
from kafka2011.local_cluster import LocalCluster
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from kafka2011.demo.records import ReceivedLine
    from kafka2011.demo.tiers import Tiers, TiersResult

BROKERS = 3
PARTITIONS = 3
TOPIC, GROUP = "activity", "reports"
VICTIM = 1
"""The broker that is killed."""
_KILL_AT = 0.4
"""After this share of the replay, so that lines are sent before, meanwhile and long after."""

BROKER_SETTINGS: dict[str, object] = {
    "num.partitions": PARTITIONS,
    "log.flush.interval": 500,
    "log.default.flush.scheduler.interval.ms": 100,
    "zk.sessiontimeout.ms": 2000,
}


@dataclass(frozen=True, slots=True)
class KilledBroker:
    """A broker that was killed while lines were sent, and how long it took to be registered again."""

    broker_id: int
    away_s: float


@dataclass(slots=True)
class DemoResult:
    """Everything that the demo found out."""

    directory: Path
    lines: int
    seconds: float
    accounts: list[PipelineAccount] = field(default_factory=list)
    killed_broker: KilledBroker | None = None
    lost_leader: LostLeader | None = None
    tiers: TiersResult | None = None
    has_faults: bool = True

    @property
    def is_good(self) -> bool:
        """Say whether every line arrived in order."""
        return not self.failures()

    def failures(self) -> list[str]:
        """Say what did not go as it should."""
        failures = [
            f"{account.of}: {len(account.missing)} missing, {account.out_of_order} out of order,"
            f" {account.repeated} repeated"
            for account in self.accounts
            if not account.is_good(exactly_once=not self.has_faults)
        ]
        lost = self.lost_leader
        if lost is not None and not lost.is_same:
            failures.append(f"replicas {lost.led} and {lost.leads} do not hold the same bytes")
        return failures + (self.tiers.failures() if self.tiers is not None else [])


def run_demo(
    lines: Sequence[bytes],
    directory: Path,
    *,
    seconds: float,
    has_faults: bool,
    say: Callable[[str], None],
    on_sent: Callable[[int], None] = lambda _lines: None,
    tiers: Tiers | None = None,
) -> DemoResult:
    """Replay the lines over so many seconds and return the account. Logs are left in `directory`.

    With `tiers` the cluster is also the live one of a pipeline, whose events pass at the same time.
    """
    result = DemoResult(directory, len(lines), seconds, has_faults=has_faults)
    with ExitStack() as stack:
        if is_busy():
            say(f"this machine is busy, all will take longer: {how_busy()}")
        say(f"starting ZooKeeper and {BROKERS} brokers, logs in {directory}")
        cluster = stack.enter_context(LocalCluster(BROKERS, directory=directory, properties=BROKER_SETTINGS))
        client = stack.enter_context(connect(cluster.zk_connect))
        create_topic(client, TOPIC)
        reader = stack.enter_context(Reader(GROUP, TOPIC, {"zk.connect": cluster.zk_connect, **READER_SETTINGS}))
        settings = {"zk.connect": cluster.zk_connect, "zk.sessiontimeout.ms": 2000}
        replay = PacedReplay(settings, TOPIC, lines, seconds, on_sent)
        say(f"replaying {len(lines)} lines over {seconds:g} s, group {GROUP} reads them")
        if tiers is not None:
            stack.enter_context(tiers).start(cluster, BROKER_SETTINGS)
        replay.start()
        if has_faults:
            time.sleep(_KILL_AT * seconds)
            result.killed_broker = _kill_a_broker(cluster, say)
        replay.finish()
        say(f"all lines are confirmed, {replay.resent_sets} sets were sent again; waiting for the group")
        if not reader.wait_for(len(lines)):
            say(f"group {GROUP} has received nothing new for long, and misses something ({how_busy()})")
        say("reading every partition back")
        result.accounts.append(account_for("logs", len(lines), _read_back(cluster)))
        result.accounts.append(account_for(f"group {GROUP}", len(lines), reader.lines))
        if tiers is not None:
            result.tiers = tiers.finish()
        if has_faults:
            zk_connect = f"{cluster.zk_connect}/replicated"
            result.lost_leader = lose_a_leader(zk_connect, directory / "replicated", lines, say)
            result.accounts += [result.lost_leader.account, result.lost_leader.read_on]
    return result


def _kill_a_broker(cluster: LocalCluster, say: Callable[[str], None]) -> KilledBroker:
    """Kill a broker, and start it again."""
    broker = cluster.brokers[VICTIM]
    say(f"kill -9 of broker {VICTIM}")
    began_s = time.monotonic()
    broker.kill()
    broker.start()
    away_s = time.monotonic() - began_s
    say(f"broker {VICTIM} has recovered and is registered again, after {away_s:.1f} s")
    return KilledBroker(VICTIM, away_s)


def _read_back(cluster: LocalCluster) -> Iterator[ReceivedLine]:
    for broker in cluster.brokers.values():
        with SimpleConsumer(broker.host, broker.port, broker_id=broker.broker_id) as consumer:
            for partition in range(PARTITIONS):
                yield from read_partition(consumer, TOPIC, partition)
