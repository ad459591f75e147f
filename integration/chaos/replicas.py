"""Faults at random among the replicas of one broker id, and what must hold: `python -m integration.chaos.replicas`.

Replicas are killed, stopped past their session, stopped in order, and lose their disks, one copy at a time. Producers
send confirmed messages and a member of a group reads all the while. In the end every confirmed message is in the logs,
what was read at an offset is still there, and all replicas have the same bytes in the same segments.
"""

from __future__ import annotations

import argparse
import random
import secrets
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011.consumer.connector import ConsumerConnector
from kafka2011.errors import KafkaError
from kafka2011.local_cluster import PROGRAM, LocalBroker
from kafka2011.message.message_set import decode
from kafka2011.message.topic import parse_log_directory_name
from kafka2011.producer.producer import Producer
from kafka2011.replica.known_file import KnownFile
from kafka2011.replica.state import ReplicaState
from tests.support.waiting import eventually
from zk.brokers import BrokerRegistry
from zk.child import stop_all
from zk.connecting import connect
from zk.local_zookeeper import LocalZooKeeper
from zk.replicas import ReplicaRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from kafka2011.producer.batch import Receipt

BROKER_ID = 0
TOPIC = "views"
PARTITIONS = 2
PRODUCERS = 2
BATCH = 100
SESSION_MS = 2000
PAUSE_S = (0.0, 5.0)
"""Between two faults."""
PLANTED = (sys.executable, "-m", "integration.chaos.planted_replica")
_SETTINGS = {
    "num.partitions": PARTITIONS,
    "log.file.size": 300_000,
    "zk.sessiontimeout.ms": SESSION_MS,
    "replica.lag.time.max.ms": 1000,
    "replica.address.gap.ms": 100,
}
_FAULTS = {"kill": 4, "pause": 2, "stop": 1, "wipe": 3}


@dataclass
class Account:
    """What was confirmed, what was read at which offset, and what is wrong."""

    confirmed: set[bytes] = field(default_factory=set)
    read: dict[tuple[int, int, int], bytes] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    epochs: int = 0
    repeated: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        faults = ", ".join(f"{count} {name}" for name, count in sorted(self.faults.items()))
        return (
            f"{len(self.confirmed)} confirmed, {len(self.read)} read, {self.repeated} stored again,"
            f" {self.epochs} epochs; faults: {faults or 'none'}; {len(self.problems)} problems"
        )


class Replicas:
    """The replicas of a broker with everything around them; a context manager."""

    def __init__(self, directory: Path, count: int, program: Sequence[str] = PROGRAM) -> None:
        self._stack = ExitStack()
        zookeeper = self._stack.enter_context(LocalZooKeeper(data_dir=directory / "zookeeper"))
        self.zk_connect = zookeeper.connect_string
        settings = {"zk.connect": self.zk_connect, **_SETTINGS}
        text = {name: str(value) for name, value in settings.items()}
        self.all = {
            name: LocalBroker(BROKER_ID, directory / name, {**text, "replica.name": name}, program)
            for name in "abcdefg"[:count]
        }
        self._stack.callback(lambda: stop_all(each.process for each in self.all.values() if each.running))
        client = self._stack.enter_context(connect(self.zk_connect, 20_000))
        self._registry = ReplicaRegistry(client, BROKER_ID)
        self._brokers = BrokerRegistry(client)
        first = self.all["a"].log_dir
        first.mkdir(parents=True)
        self._registry.begin(ReplicaState.first(KnownFile(first).load_or_begin("a").replica).text)
        for each in self.all.values():
            each.start()
        self.await_all()

    def state(self) -> ReplicaState:
        found = self._registry.read().state
        assert found is not None
        return ReplicaState.of(found, "the registry")

    def leader(self) -> str | None:
        """Return who is registered as the broker."""
        found = self._brokers.brokers().get(BROKER_ID)
        return next((name for name, each in self.all.items() if found is not None and each.port == found.port), None)

    def await_all(self) -> None:
        eventually(lambda: {each.name for each in self.state().in_sync} == set(self.all), what="all in sync")
        eventually(lambda: self.leader() is not None, what="a leader")

    def may_lose(self, name: str) -> bool:
        """Say whether somebody else has everything, on a disk that is there, and is alive."""
        nodes = self._registry.read()
        disks = {each: member.disk for each, member in nodes.members.items()}
        return any(each.name != name and disks.get(each.name) == each.disk for each in self.state().in_sync)

    def segments(self, name: str) -> dict[str, bytes]:
        log_dir = self.all[name].log_dir
        return {str(path.relative_to(log_dir)): path.read_bytes() for path in sorted(log_dir.glob("*/*.kafka"))}

    def __enter__(self) -> Replicas:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def produce(zk_connect: str, name: str, account: Account, stop: threading.Event) -> None:
    """Send batches, each confirmed before the next."""
    settings = {
        "zk.connect": zk_connect,
        "producer.type": "async",
        "queue.time": 1,
        "confirm": "true",
        "confirm.timeout.ms": 60_000,
    }
    number = 0
    with Producer(settings) as producer:
        while not stop.is_set():
            sent: list[tuple[bytes, Future[Receipt]]] = []
            for _ in range(BATCH):
                payload = b"%s %d " % (name.encode(), number) + b"x" * (number * 37 % 400)
                sent.append((payload, producer.send(TOPIC, payload)))
                number += 1
            for payload, future in sent:
                try:
                    future.result(90)
                except (KafkaError, TimeoutError):  # it is not confirmed, whether it is there or not
                    continue
                account.confirmed.add(payload)


def consume(consumer: ConsumerConnector, account: Account) -> None:
    """Note what is read, and where: an offset has one payload for good."""
    [stream] = consumer.create_message_streams({TOPIC: 1})[TOPIC]
    for message in stream:
        where = (message.partition, message.offset, message.index_in_set)
        if account.read.setdefault(where, message.payload) != message.payload:
            account.problems.append(f"another message was read at {where} than before")


def fault(replicas: Replicas, draw: random.Random, account: Account) -> None:
    """Do something to one replica, and bring it back; what comes next may come before it has caught up."""
    leader = replicas.leader()
    names = sorted(replicas.all)
    name = leader if leader is not None and draw.random() < 0.6 else draw.choice(names)
    kind = draw.choices(list(_FAULTS), list(_FAULTS.values()))[0]
    if not replicas.may_lose(name):
        return  # nobody else has all of it: what is killed now would keep everybody waiting, or lose it
    broker = replicas.all[name]
    account.faults[f"{kind} of {'the leader' if name == leader else 'a follower'}"] += 1
    if kind == "pause":
        broker.pause()
        time.sleep(SESSION_MS / 1000 * draw.uniform(0.2, 2))
        broker.resume()
        return
    if kind == "stop":
        broker.stop()
    else:
        broker.kill()
    if kind == "wipe":
        if not replicas.may_lose(name):
            account.faults["wipe that was left out"] += 1
        else:
            shutil.rmtree(broker.log_dir)
    time.sleep(draw.uniform(0, 2 * SESSION_MS / 1000))
    broker.launch()
    broker.wait_ready()


def stored(segments: dict[str, bytes]) -> Iterator[tuple[tuple[int, int, int], bytes]]:
    """Yield every message of a replica, with its partition and offset."""
    for name, data in segments.items():
        directory, _, file = name.rpartition("/")
        parsed = parse_log_directory_name(directory)
        assert parsed is not None
        for message in decode(data, parsed[0], BROKER_ID, parsed[1], int(Path(file).stem)):
            yield (message.partition, message.offset, message.index_in_set), message.payload


def settle(replicas: Replicas, account: Account) -> None:
    """Compare what there is in the end with what was confirmed and read."""
    for each in replicas.all.values():
        if not each.running:
            each.start()
    replicas.await_all()
    account.epochs = replicas.state().epoch
    first, *others = replicas.all

    def differing() -> list[str]:
        segments = replicas.segments(first)
        return [name for name in others if replicas.segments(name) != segments]

    try:
        eventually(lambda: not differing(), what="the same bytes everywhere")
    except AssertionError:
        account.problems.append(f"other bytes than {first} have {', '.join(differing())}")
    found = dict(stored(replicas.segments(first)))
    payloads = Counter(found.values())
    account.repeated = sum(payloads.values()) - len(payloads)
    lost = account.confirmed - payloads.keys()
    if lost:
        account.problems.append(f"{len(lost)} confirmed messages are lost, among them {min(lost)[:30]!r}")
    changed = [where for where, payload in account.read.items() if found.get(where) != payload]
    if changed:
        account.problems.append(
            f"{len(changed)} messages that were read are not there any more, the first at {min(changed)}"
        )


def run(directory: Path, count: int, seconds: float, seed: int, *, program: Sequence[str] = PROGRAM) -> Account:
    """Let faults come for so many seconds, and return the account."""
    account, stop = Account(), threading.Event()
    draw = random.Random(seed)
    with Replicas(directory, count, program) as replicas:
        group = {
            "zk.connect": replicas.zk_connect,
            "groupid": "readers",
            "zk.sessiontimeout.ms": 6000,
            "consumer.timeout.ms": -1,
        }
        with ConsumerConnector(group) as consumer:
            jobs: list[Callable[[], None]] = [
                lambda name=f"p{number}": produce(replicas.zk_connect, name, account, stop)  # type: ignore[misc]
                for number in range(PRODUCERS)
            ]
            threads = [threading.Thread(target=job, daemon=True) for job in jobs]
            reader = threading.Thread(target=consume, args=(consumer, account), daemon=True)
            for thread in (*threads, reader):
                thread.start()
            ends_s = time.monotonic() + seconds
            try:
                while time.monotonic() < ends_s and not account.problems:
                    time.sleep(draw.uniform(*PAUSE_S))
                    fault(replicas, draw, account)
            finally:
                stop.set()
            for thread in threads:
                thread.join(200)
                assert not thread.is_alive(), "a producer does not end"
            settle(replicas, account)
            wanted = len(dict(stored(replicas.segments("a"))))
            eventually(lambda: len(account.read) >= wanted or bool(account.problems), what="the group's end")
    return account


def main(arguments: list[str] | None = None) -> int:
    """Make one run; 1 when something did not hold."""
    parser = argparse.ArgumentParser(prog="python -m integration.chaos.replicas")
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--replicas", type=int, choices=range(2, 8), default=3)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--plant", default="", help="a defect of tests/models/replica/mutations.py")
    options = parser.parse_args(arguments)
    program = (*PLANTED, options.plant) if options.plant else PROGRAM
    with tempfile.TemporaryDirectory(prefix="kafka2011-replicas-") as directory:
        account = run(Path(directory), options.replicas, options.minutes * 60, options.seed, program=program)
    sys.stdout.write(f"seed {options.seed}: {account}\n")
    for problem in account.problems:
        sys.stdout.write(f"  {problem}\n")
    return 1 if account.problems else 0


if __name__ == "__main__":
    sys.exit(main())
