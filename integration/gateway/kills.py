"""Kills and pauses two gateways and the brokers while clients of both times produce, and accounts for every record.

    python -m integration.gateway.kills --kills 50 --seed 1

What was acknowledged must be read by today's clients once, at the offset that its producer was told, in the order in
which it was sent; and be in the bytes that 0.7 reads. A gateway that has no files must give the same numbers.
"""

from __future__ import annotations

import logging
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from confluent_kafka.admin import AdminClient, NewTopic

from integration.gateway.dying import POINTS
from integration.gateway.today import idempotent_producer, read_partition, silent, told_offset, wrong_offsets
from kafka2011 import KafkaError, Producer, SimpleConsumer, TopicPartition
from kafka2011.local_cluster import LocalCluster, LocalGateway, LocalServer
from zk.connecting import connect
from zk.gateways import GatewayRegistry
from zk.local_zookeeper import LocalZooKeeper  # noqa: TC001  # the type of a variable

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

TOPIC = "views"
SETTLE_S = 120.0
LEAST_GAP_S, MOST_GAP_S = 0.2, 1.5
SESSION_MS = 2000
DOWN_S = (0.0, 0.5, 3.0)
"""How long a killed process is down: the last one outlasts its session."""
PAUSE_S = 5.0
"""Longer than a session of ZooKeeper lasts, and than a client waits for an answer."""
POINT_S = 10.0
"""How long a gateway may take to get to the point where it is to die."""
AT_STOP = {"anchored", "stored"}
"""Points that are rarely passed while a gateway runs, and always when it stops in order."""
RECORD_S = 0.001
"""How long a producer waits after each record: all are read again in the end."""
DYING = Path(__file__).with_name("dying.py")
FAULTS = {
    "kill a gateway at a point": 6,
    "kill a gateway": 2,
    "kill both gateways": 1,
    "kill a broker": 2,
    "pause a gateway": 2,
    "pause a broker": 1,
    "pause ZooKeeper": 1,
}


@dataclass
class Account:
    """What was acknowledged, by value, and what is wrong."""

    offsets: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    """Partition and offset of each record that today's producers were told of; -1 for an unknown offset."""
    confirmed_07: set[bytes] = field(default_factory=set)
    faults: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


class Gateways:
    """Gateways of one cluster, each with a directory of its own. They end at points when they are told to."""

    def __init__(self, cluster: LocalCluster, directory: Path, count: int) -> None:
        self._directory = directory
        self._order = directory / "order"
        self._settings = {"zk.connect": cluster.zk_connect, "zk.sessiontimeout.ms": str(SESSION_MS)}
        self.running: list[LocalGateway] = []
        for _ in range(count):
            self._add()
        for gateway in self.running:
            gateway.wait_ready()

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all of them."""
        return ",".join(f"{gateway.host}:{gateway.port}" for gateway in self.running)

    def _add(self) -> None:
        directory = self._directory / f"gateway-{len(self.running)}"
        program = (sys.executable, str(DYING), str(self._order))
        gateway = LocalGateway(directory, self._settings, program)
        gateway.launch()
        self.running.append(gateway)

    def kill_at(self, point: str, times: int) -> bool:
        """Have the one that gets there first die at a point; False if none did: then all are killed where they are."""
        new = self._order.with_suffix(".new")
        new.write_text(f"{point} {times}")
        new.rename(self._order)
        if point in AT_STOP:
            for each in self.running:
                each.stop()
        ends_s = time.monotonic() + POINT_S
        while all(each.running for each in self.running) and time.monotonic() < ends_s:
            time.sleep(0.01)
        is_there = not self._order.exists()
        if not is_there:
            self._order.unlink()
            for each in self.running:
                each.kill()
        return is_there

    def stop(self) -> None:
        """Stop all of them."""
        for gateway in self.running:
            gateway.stop()


class Producers:
    """One idempotent producer of today for each partition, and one of 0.7 for each broker."""

    def __init__(self, cluster: LocalCluster, gateways: Gateways, account: Account, records: int) -> None:
        self._cluster = cluster
        self._bootstrap_servers = gateways.bootstrap_servers
        self._account = account
        self._records = records
        self.stopped = threading.Event()
        partitions = range(len(cluster.brokers))
        self.threads = [
            *(threading.Thread(target=self._run, args=(self._today, number), daemon=True) for number in partitions),
            *(threading.Thread(target=self._run, args=(self._of_07, number), daemon=True) for number in partitions),
        ]
        self.done = Counter[int]()
        for thread in self.threads:
            thread.start()

    def _run(self, produce: Callable[[int], None], number: int) -> None:
        try:
            produce(number)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run has failed
            self._account.problems.append(f"{produce.__name__} {number}: {error!r}")

    def _today(self, partition: int) -> None:
        producer = idempotent_producer(self._bootstrap_servers)

        def note(error: Any, message: Any) -> None:
            if error is not None:
                self._account.problems.append(f"partition {partition}: {message.value()!r}: {error}")
                return
            self._account.offsets[message.value()] = partition, told_offset(message)
            self.done[partition] += 1

        for number in range(self._records):
            if self.stopped.is_set():
                break
            producer.produce(TOPIC, b"today-%d-%d" % (partition, number), partition=partition, on_delivery=note)
            producer.poll(0)
            time.sleep(RECORD_S)
            while len(producer) > 500:
                producer.poll(0.05)
        left = producer.flush(SETTLE_S)
        if left:
            self._account.problems.append(f"partition {partition}: {left} records were never acknowledged")

    def _of_07(self, broker_id: int) -> None:
        number = 0
        settings = {"zk.connect": self._cluster.zk_connect, "confirm": True, "confirm.timeout.ms": 2000}
        where = TopicPartition(TOPIC, broker_id, 0)
        with Producer(settings) as producer:
            while not self.stopped.is_set():
                value = b"2011-%d-%d" % (broker_id, number)
                number += 1
                try:
                    producer.send(TOPIC, value, partition=where)
                except KafkaError:
                    time.sleep(0.05)
                else:
                    self._account.confirmed_07.add(value)
                time.sleep(0.01)


def harm(cluster: LocalCluster, gateways: Gateways, account: Account, rng: random.Random, fault: str) -> None:
    """Do one thing to a process of the cluster, and undo it. The fault may be a point, too."""
    gateway = rng.choice(gateways.running)
    broker = rng.choice([*cluster.brokers.values()])
    server: LocalServer | LocalZooKeeper = broker if "broker" in fault else gateway
    if "ZooKeeper" in fault and cluster.zookeeper is not None:
        server = cluster.zookeeper
    if fault in POINTS or fault == "kill a gateway at a point":
        point = fault if fault in POINTS else rng.choice(POINTS)
        is_there = gateways.kill_at(point, 0 if point in AT_STOP else rng.choice([0, 0, 1, 5, 20]))
        fault = f"kill a gateway, {point}" if is_there else "kill both gateways"
    elif fault == "kill both gateways":
        for each in gateways.running:
            each.kill()
    elif "kill" in fault:
        server.kill()
    else:
        pause_s = rng.choice([0.5, PAUSE_S])
        fault = f"{fault} for {pause_s:g} s"
        server.pause()
        time.sleep(pause_s)
        server.resume()
    account.faults[fault] += 1
    if "kill" in fault:
        time.sleep(rng.choice(DOWN_S))
        servers: list[LocalServer] = [*gateways.running, *cluster.brokers.values()]
        for stopped in servers:
            stopped.start()
    time.sleep(rng.uniform(LEAST_GAP_S, MOST_GAP_S))


def check(cluster: LocalCluster, bootstrap_servers: str, account: Account) -> None:
    """Read everything, as today's clients and as 0.7 do, and note what is wrong."""
    with connect(cluster.zk_connect) as client:
        known = GatewayRegistry(client).lists([TOPIC])[TOPIC]
    assert known is not None
    numbers = known.partitions
    for partition, where in enumerate(numbers):
        broker = cluster.brokers[where.broker_id]
        read = read_partition(bootstrap_servers, TOPIC, partition)
        _check_partition(account, partition, read)
        with SimpleConsumer(broker.host, broker.port) as consumer:
            stored = set(_stored(consumer))
        of_07 = {value for value in account.confirmed_07 if value.startswith(b"2011-%d-" % where.broker_id)}
        today = {value for value, (number, _) in account.offsets.items() if number == partition}
        for what, lacking in {
            "0.7's bytes lack": (of_07 | today) - stored,
            "today's clients do not read": (of_07 | today) - {value for _, value in read},
        }.items():
            if lacking:
                account.problems.append(f"partition {partition}: {what} {len(lacking)}, such as {min(lacking)!r}")


def _check_partition(account: Account, partition: int, read: list[tuple[int, bytes]]) -> None:
    told = {value: offset for value, (_, offset) in account.offsets.items()}
    account.problems += [f"partition {partition}: {text}" for text in wrong_offsets(read, told)]
    last = -1
    for value in (value for _, value in read if value.startswith(b"today-")):
        number = int(value.rsplit(b"-", 1)[1])
        if number != last + 1:
            account.problems.append(f"partition {partition}: record {number} comes after {last}")
        last = number


def _stored(consumer: SimpleConsumer) -> list[bytes]:
    values = []
    offset = 0
    while messages := [*consumer.fetch(TOPIC, 0, offset, 4 * 1024 * 1024)]:
        values += [message.payload for message in messages]
        offset = messages[-1].next_offset
    return values


def run(
    faults: list[str],
    records: int,
    rng: random.Random,
    directory: Path,
    zk_connect: str | None = None,
    brokers: int = 2,
) -> Account:
    """Harm a cluster while clients produce, and return the account."""
    account = Account()
    with LocalCluster(brokers, directory=directory, zk_connect=zk_connect) as cluster:
        gateways = Gateways(cluster, directory, 2)
        try:
            _produce(cluster, gateways, account, records, rng, faults)
            check(cluster, gateways.bootstrap_servers, account)
            gateways.stop()
            gateways.running.clear()
            gateways = Gateways(cluster, directory / "new", 1)
            check(cluster, gateways.bootstrap_servers, account)
        finally:
            gateways.stop()
    return account


def _produce(
    cluster: LocalCluster,
    gateways: Gateways,
    account: Account,
    records: int,
    rng: random.Random,
    faults: list[str],
) -> None:
    admin = AdminClient({"bootstrap.servers": gateways.bootstrap_servers, "logger": silent()})
    made = admin.create_topics([NewTopic(TOPIC, len(cluster.brokers), 1)], operation_timeout=SETTLE_S)
    made[TOPIC].result(SETTLE_S)
    producers = Producers(cluster, gateways, account, records)
    begun = time.monotonic()
    for number, fault in enumerate(faults):
        harm(cluster, gateways, account, rng, fault)
        logger.info(
            "%.0f s, %d faults, %d acknowledged: %s",
            time.monotonic() - begun,
            number + 1,
            sum(producers.done.values()),
            fault,
        )
        if account.problems:
            break
    producers.stopped.set()
    for thread in producers.threads:
        thread.join(2 * SETTLE_S)


@click.command()
@click.option("--kills", default=50, show_default=True, help="How many faults there are.")
@click.option("--records", default=10_000_000, show_default=True, help="The most records of each producer.")
@click.option("--seed", default=1, show_default=True)
@click.option("--directory", type=click.Path(file_okay=False, path_type=Path))
def main(kills: int, records: int, seed: int, directory: Path | None) -> None:
    """Kill gateways and brokers while clients produce, and account for every record."""
    logging.basicConfig(level=logging.WARNING)
    logger.setLevel(logging.INFO)
    rng = random.Random(seed)
    faults = rng.choices([*FAULTS], [*FAULTS.values()], k=kills)
    place = directory or Path(tempfile.mkdtemp(prefix="kafka2011-kills-"))
    account = run(faults, records, rng, place)
    click.echo(
        f"seed {seed}: {len(account.offsets)} acknowledged to today's producers,"
        f" {sum(offset < 0 for _, offset in account.offsets.values())} of them without an offset;"
        f" {len(account.confirmed_07)} confirmed to 0.7's; {len(account.problems)} problems"
    )
    for fault, times in sorted(account.faults.items()):
        click.echo(f"{times:4} {fault}")
    for problem in account.problems[:20]:
        click.echo(problem)
    sys.exit(1 if account.problems else 0)


if __name__ == "__main__":
    main()
