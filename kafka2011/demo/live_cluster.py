"""Runs the demo on a cluster of its own: the replay, the faults, and the account at the end."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka2011.admin.topics import create_topic
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.demo.account import Account, Logged, account_of_group, account_of_logs, latency_percentiles_ms
from kafka2011.demo.keys import keys_of
from kafka2011.demo.lost_leader import LostLeader, lose_a_leader
from kafka2011.demo.members import Group, Member
from kafka2011.demo.ownership import OwnershipLog
from kafka2011.demo.paced_replay import PacedReplay
from kafka2011.demo.patience import how_busy, is_busy
from kafka2011.demo.records import Place, number_and_time
from kafka2011.demo.takeover import Fault, Takeover, takeover_of
from kafka2011.demo.throughput import Throughput, measure_throughput
from kafka2011.local_cluster import LocalCluster
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from kafka2011.demo.tiers import Tiers, TiersResult

BROKERS = 3
PARTITIONS = 3
TOPIC = "activity"
GROWING, STEADY = "reports", "audit"

BROKER_SETTINGS: dict[str, object] = {
    "num.partitions": PARTITIONS,
    "log.flush.interval": 500,
    "log.default.flush.scheduler.interval.ms": 100,
    "zk.sessiontimeout.ms": 2000,
}
MEMBER_SETTINGS: dict[str, object] = {
    "fetcher.backoff.ms": 50,
    "autocommit.interval.ms": 1000,
    "rebalance.backoff.ms": 1000,
    "zk.sessiontimeout.ms": 2000,
}
LATENCY_SETTINGS = ("log.flush.interval", "log.default.flush.scheduler.interval.ms", "fetcher.backoff.ms")


@dataclass(slots=True)
class DemoResult:
    """Everything that the demo found out."""

    directory: Path
    lines: int
    seconds: float
    accounts: list[Account] = field(default_factory=list)
    takeovers: list[Takeover] = field(default_factory=list)
    latencies_ms: dict[str, dict[str, int]] = field(default_factory=dict)
    lost_leader: LostLeader | None = None
    throughput: Throughput | None = None
    tiers: TiersResult | None = None
    has_faults: bool = True

    @property
    def is_good(self) -> bool:
        """Say whether every line arrived in order, and messages flowed again after each fault."""
        return not self.failures()

    def failures(self) -> list[str]:
        """Say what did not go as it should."""
        found = [
            f"{account.of}: {len(account.missing)} missing, {account.out_of_order} out of order,"
            f" {account.repeated} repeated"
            for account in self.accounts
            if not account.is_good(exactly_once=not self.has_faults)
        ]
        for takeover in self.takeovers:
            if not takeover.is_good:
                fault = takeover.fault
                what = "nothing was read again" if takeover.seconds is None else "nothing flowed later"
                found.append(f"group {takeover.group}: {what} after {fault.what} {fault.whom}")
        lost = self.lost_leader
        if lost is not None and not lost.is_same:
            found.append(f"replicas {lost.led} and {lost.leads} do not hold the same bytes")
        return found + (self.tiers.failures() if self.tiers is not None else [])


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
    """Replay the lines over so many seconds and return the account. Logs and receipts are left in `directory`.

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
        settings = {"zk.connect": cluster.zk_connect, **MEMBER_SETTINGS}
        groups = {name: stack.enter_context(Group(name, TOPIC, settings, directory)) for name in (GROWING, STEADY)}
        for _ in range(1 if has_faults else 3):
            groups[GROWING].add_member()
        groups[STEADY].add_member()
        ownership = {name: stack.enter_context(OwnershipLog(client, name, TOPIC)) for name in groups}
        keys, are_own = keys_of(lines, BROKERS * PARTITIONS)
        if not are_own:
            say("these lines have no keys that would spread them: they are keyed by their numbers")
        replay = PacedReplay(
            {"zk.connect": cluster.zk_connect, "zk.sessiontimeout.ms": 2000}, TOPIC, lines, keys, seconds, on_sent
        )
        say(f"replaying {len(lines)} lines over {seconds:g} s, two groups read them")
        if tiers is not None:
            stack.enter_context(tiers).start(cluster, BROKER_SETTINGS)
        replay.start()
        faults = list(_make_faults(cluster, groups[GROWING], seconds, say)) if has_faults else []
        replay.finish()
        say(f"all lines are confirmed, {replay.resent_sets} sets were sent again; waiting for the groups")
        for group in groups.values():
            if not group.wait_for(len(lines)):
                say(f"group {group.name} has received nothing new for long, and misses something ({how_busy()})")
        for group in groups.values():
            group.stop()
        say("reading every partition back")
        logged = list(read_back(cluster, TOPIC))
        result.accounts.append(account_of_logs(len(lines), logged))
        for name, group in groups.items():
            receipts = group.receipts()
            killed = [member.name for member in group.members if member.was_killed]
            result.accounts.append(account_of_group(name, len(lines), receipts, killed))
            result.latencies_ms[name] = latency_percentiles_ms(receipts)
            result.takeovers += [
                takeover_of(fault, name, receipts, logged, ownership[name].seen)
                for fault in faults
                if fault.broker_id is not None or name == GROWING
            ]
        if tiers is not None:
            result.tiers = tiers.finish()
        _lose_a_leader(result, cluster, lines, say)
        say("a second run, as fast as it goes")
        create_topic(client, "unpaced")
        result.throughput = measure_throughput(cluster, "unpaced", lines)
    return result


def _lose_a_leader(
    result: DemoResult, cluster: LocalCluster, lines: Sequence[bytes], say: Callable[[str], None]
) -> None:
    if not result.has_faults:
        return
    lost = lose_a_leader(f"{cluster.zk_connect}/replicated", result.directory / "replicated", lines, say)
    result.lost_leader = lost
    result.accounts.append(lost.account)


def read_back(cluster: LocalCluster, topic: str) -> Iterator[Logged]:
    """Yield every line in every partition of a topic, by its place in the log."""
    for broker in cluster.brokers.values():
        with SimpleConsumer(broker.host, broker.port, broker_id=broker.broker_id) as consumer:
            for partition in range(PARTITIONS):
                offset = 0
                while True:
                    fetched = consumer.fetch(topic, partition, offset)
                    if not fetched.data:
                        break
                    for message in fetched:
                        yield Logged(Place.of(message), *number_and_time(message.payload))
                    offset = fetched.next_offset


def _make_faults(cluster: LocalCluster, group: Group, seconds: float, say: Callable[[str], None]) -> Iterator[Fault]:
    """Let the group grow to three members, lose one and get it back, and a broker be killed and started again.

    All within the first half of the replay, so that there is time to see that messages flow on.
    """
    started_s = time.monotonic()

    def wait_until(share: float) -> None:
        time.sleep(max(0.0, started_s + share * seconds - time.monotonic()))

    def note(what: str, *, member: Member | None = None, broker_id: int | None = None) -> Fault:
        whom = member.name if member is not None else f"broker {broker_id}"
        say(f"{time.monotonic() - started_s:5.1f} s  {what} {whom}")
        return Fault(what, int(time.time() * 1000), whom if member else None, broker_id)

    for share in (0.07, 0.13):
        wait_until(share)
        yield note("start", member=group.add_member())
    wait_until(0.23)
    victim = group.members[1]
    fault = note("kill -9", member=victim)
    victim.kill()
    yield fault
    wait_until(0.35)
    yield note("start", member=group.add_member())
    wait_until(0.43)
    broker = cluster.brokers[1]
    fault = note("kill -9", broker_id=broker.broker_id)
    broker.kill()
    broker.start()
    say(f"{time.monotonic() - started_s:5.1f} s  broker {broker.broker_id} has recovered and is registered again")
    yield fault
