"""One more fault: of a broker with two replicas, the one that leads is lost while lines are sent, with its disk."""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING

from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.demo.account import PipelineAccount, account_for
from kafka2011.demo.patience import STILL_S, Patience, how_busy
from kafka2011.demo.read_back import read_partition
from kafka2011.demo.reader import READER_SETTINGS, Reader
from kafka2011.demo.records import numbered
from kafka2011.errors import KafkaError
from kafka2011.local_cluster import LocalCluster
from kafka2011.producer.producer import Producer
from kafka2011.replica.state import ReplicaState
from zk.brokers import BrokerRegistry
from zk.connecting import connect
from zk.replicas import ReplicaRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from kafka2011.local_cluster import LocalBroker
    from zk.client import ZkClient

TOPIC, GROUP = "copied", "copies"
_ID = 0
_MAX_LINES = 5000
_MAX_BYTES = 16 * 1024 * 1024
_SETTINGS: dict[str, object] = {
    "zk.sessiontimeout.ms": 2000,
    "replica.address.gap.ms": 0,  # producers of 0.7 would need one, and there are none
}
_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class LostLeader:
    """What became of the lines, who led, who leads now and since when, and whether both copies are the same again.

    `account` is of the lines in the log of the one that leads, `read_on` of what a group was given that read all along.
    """

    led: str
    leads: str
    took_over_s: float
    account: PipelineAccount
    read_on: PipelineAccount
    is_same: bool


def lose_a_leader(zk_connect: str, directory: Path, lines: Sequence[bytes], say: Callable[[str], None]) -> LostLeader:
    """Send some of the lines, confirmed, to a broker of two replicas; kill its leader meanwhile, and wipe its disk.

    A group reads the lines all the time.
    """
    sent = within(lines[:_MAX_LINES], _MAX_BYTES)
    say("starting one more broker, of two replicas")
    with (
        LocalCluster(_ID + 1, zk_connect=zk_connect, directory=directory, properties=_SETTINGS, replicas=2) as cluster,
        connect(zk_connect) as client,
        ExitStack() as stack,
    ):
        replicas = _Replicas(cluster, client)
        replicas.await_in_sync()
        led = replicas.leader()
        assert led is not None
        settings = {"zk.connect": zk_connect, "producer.type": "async", "confirm": True, "confirm.timeout.ms": 120_000}
        with Producer(settings) as producer:
            half = (len(sent) + 1) // 2
            futures = [producer.send(TOPIC, numbered(number, line)) for number, line in enumerate(sent[:half], start=1)]
            futures[0].result(STILL_S)
            reader = stack.enter_context(Reader(GROUP, TOPIC, {"zk.connect": zk_connect, **READER_SETTINGS}))
            if not reader.wait_for(1):
                raise KafkaError(f"group {GROUP} reads nothing ({how_busy()})")
            began_s = time.monotonic()
            led.kill()
            shutil.rmtree(led.log_dir)
            say(f"kill -9 of replica {led.replica}, which leads, and its disk is gone; group {GROUP} reads on")
            rest = enumerate(sent[half:], start=half + 1)
            futures += [producer.send(TOPIC, numbered(number, line)) for number, line in rest]
            leads = replicas.await_another(led)
            took_over_s = time.monotonic() - began_s
            for future in futures:
                future.result(STILL_S)
        if not reader.wait_for(len(sent)):
            say(f"group {GROUP} has received nothing new for long, and misses something ({how_busy()})")
        led.start()
        replicas.await_in_sync()
        say(f"replica {led.replica} is in sync again, on a new disk; replica {leads.replica} leads")
        with SimpleConsumer(leads.host, leads.port, broker_id=_ID) as consumer:
            account = account_for("replicas", len(sent), read_partition(consumer, TOPIC, 0))
        read_on = account_for(f"group {GROUP}", len(sent), reader.lines)
        return LostLeader(led.replica, leads.replica, took_over_s, account, read_on, is_same=replicas.are_the_same())


def within(lines: Sequence[bytes], max_bytes: int) -> Sequence[bytes]:
    """Return the first lines that fit, one at least."""
    ends = accumulate(map(len, lines))
    return lines[: max(1, sum(1 for _ in takewhile(lambda end: end <= max_bytes, ends)))]


class _Replicas:
    """The processes of the broker, as ZooKeeper has them."""

    def __init__(self, cluster: LocalCluster, client: ZkClient) -> None:
        self._processes = cluster.processes
        self._brokers = BrokerRegistry(client)
        self._registry = ReplicaRegistry(client, _ID)

    def leader(self) -> LocalBroker | None:
        """Return the one that is registered as the broker."""
        registered = self._brokers.brokers().get(_ID)
        return (
            None
            if registered is None
            else next((process for process in self._processes if process.port == registered.port), None)
        )

    def await_another(self, former: LocalBroker) -> LocalBroker:
        """Wait until another one leads."""
        self._await(lambda: self.leader() not in {None, former}, "nobody else leads")
        leader = self.leader()
        assert leader is not None
        return leader

    def await_in_sync(self) -> None:
        """Wait until all are in sync."""
        self._await(lambda: len(self._state().in_sync) == len(self._processes), "not all replicas are in sync")

    def are_the_same(self) -> bool:
        """Say whether all have the same bytes in the same segments."""
        first, *others = (_segments(process) for process in self._processes)
        return bool(first) and all(segments == first for segments in others)

    def _state(self) -> ReplicaState:
        return ReplicaState.of(self._registry.read().state or "", "ZooKeeper")

    def _await(self, is_so: Callable[[], bool], otherwise: str) -> None:
        patience = Patience(lambda: (self._state(), *(len(process.output()) for process in self._processes)))
        while not is_so():
            if patience.is_over():
                raise KafkaError(f"{otherwise}, and nothing has changed for {STILL_S:g} s ({how_busy()})")
            time.sleep(_POLL_S)


def _segments(process: LocalBroker) -> dict[str, bytes]:
    return {
        str(path.relative_to(process.log_dir)): path.read_bytes()
        for path in sorted(process.log_dir.glob(f"{TOPIC}-*/*.kafka"))
    }
