"""Kills the gateway and brokers while clients of both times produce, and accounts for every record.

    python -m integration.gateway.kills --kills 50 --records 50000 --seed 1

What was acknowledged must be read by today's clients once, at the offset that its producer was told, in the order in
which it was sent; and be in the bytes that 0.7 reads.
"""

from __future__ import annotations

import logging
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import confluent_kafka

from kafka2011 import KafkaError, Producer, SimpleConsumer, TopicPartition
from kafka2011.local_cluster import LocalCluster
from zk.connecting import connect
from zk.gateways import GatewayRegistry

if TYPE_CHECKING:
    from collections.abc import Callable

TOPIC = "views"
SETTLE_S = 120.0
LEAST_GAP_S, MOST_GAP_S = 0.2, 1.5
PAUSE_S = 8.0
"""Longer than a session of ZooKeeper lasts."""


@dataclass
class Account:
    """What was acknowledged, by value, and what is wrong."""

    offsets: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    """Partition and offset of each record that today's producers were told of; -1 for an unknown offset."""
    confirmed_07: set[bytes] = field(default_factory=set)
    faults: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


class Producers:
    """One idempotent producer of today for each partition, and one of 0.7 for each broker."""

    def __init__(self, cluster: LocalCluster, account: Account, records: int) -> None:
        self._cluster = cluster
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
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap_servers,
                "enable.idempotence": True,
                "message.timeout.ms": 600_000,
                "linger.ms": 2,
                "logger": _silent(),
            }
        )

        def note(error: Any, message: Any) -> None:
            if error is not None:
                self._account.problems.append(f"partition {partition}: {message.value()!r}: {error}")
                return
            self._account.offsets[message.value()] = partition, message.offset()
            self.done[partition] += 1

        for number in range(self._records):
            if self.stopped.is_set():
                break
            producer.produce(TOPIC, b"today-%d-%d" % (partition, number), partition=partition, on_delivery=note)
            producer.poll(0)
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


def _silent() -> Any:
    logger = logging.getLogger("silent")
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    return logger


def harm(cluster: LocalCluster, account: Account, rng: random.Random) -> None:
    """Do one thing to a process of the cluster, and undo it."""
    assert cluster.gateway is not None
    what = rng.choices(["kill gateway", "kill broker", "pause gateway", "pause broker"], [5, 3, 1, 1])[0]
    server = cluster.gateway if "gateway" in what else rng.choice([*cluster.brokers.values()])
    account.faults[what] += 1
    if "kill" in what:
        server.kill()
        time.sleep(rng.uniform(0, 1))
        server.start()
    else:
        server.pause()
        time.sleep(rng.choice([0.5, PAUSE_S]))
        server.resume()
    time.sleep(rng.uniform(LEAST_GAP_S, MOST_GAP_S))


def check(cluster: LocalCluster, account: Account) -> None:
    """Read everything, as today's clients and as 0.7 do, and note what is wrong."""
    with connect(cluster.zk_connect) as client:
        known = GatewayRegistry(client).lists([TOPIC])[TOPIC]
    assert known is not None
    numbers = known.partitions
    for partition, where in enumerate(numbers):
        broker = cluster.brokers[where.broker_id]
        read = _read_today(cluster, partition)
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
    seen: dict[bytes, int] = {}
    last = -1
    for offset, value in read:
        told = account.offsets.get(value)
        if value in seen and told is not None:
            account.problems.append(f"partition {partition}: {value!r} is at {seen[value]} and at {offset}")
        seen[value] = offset
        if told is not None and told[1] not in {-1, offset}:
            account.problems.append(f"partition {partition}: {value!r} is at {offset}, its producer was told {told[1]}")
        if value.startswith(b"today-"):
            number = int(value.rsplit(b"-", 1)[1])
            if number != last + 1:
                account.problems.append(f"partition {partition}: record {number} comes after {last}")
            last = number


def _read_today(cluster: LocalCluster, partition: int) -> list[tuple[int, bytes]]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "account",
            "enable.auto.commit": False,
            "logger": _silent(),
        }
    )
    where = confluent_kafka.TopicPartition(TOPIC, partition, confluent_kafka.OFFSET_BEGINNING)
    ends_s = time.monotonic() + SETTLE_S
    end = -1
    while end < 0 and time.monotonic() < ends_s:
        with suppress(confluent_kafka.KafkaException):
            _, end = consumer.get_watermark_offsets(where, timeout=10)
    consumer.assign([where])
    read: list[tuple[int, bytes]] = []
    position = 0
    while position < end and time.monotonic() < ends_s:
        messages = consumer.consume(1000, 1.0)
        read += [(message.offset(), message.value()) for message in messages if message.error() is None]
        [reached] = consumer.position([where])
        position = max(position, reached.offset)
    consumer.close()
    return read


def _stored(consumer: SimpleConsumer) -> list[bytes]:
    values = []
    offset = 0
    while messages := [*consumer.fetch(TOPIC, 0, offset, 4 * 1024 * 1024)]:
        values += [message.payload for message in messages]
        offset = messages[-1].next_offset
    return values


def run(kills: int, records: int, seed: int, directory: Path) -> Account:
    """Harm a cluster so many times while clients produce, and return the account."""
    rng = random.Random(seed)
    account = Account()
    with LocalCluster(2, directory=directory, gateway=True) as cluster:
        producers = Producers(cluster, account, records)
        harmed = 0
        while harmed < kills and not account.problems and any(thread.is_alive() for thread in producers.threads[:2]):
            harm(cluster, account, rng)
            harmed += 1
        while any(thread.is_alive() for thread in producers.threads[:2]) and not account.problems:
            if sum(producers.done.values()) >= 2 * records or harmed >= kills:
                break
            time.sleep(0.1)
        producers.stopped.set()
        for thread in producers.threads:
            thread.join(SETTLE_S)
        check(cluster, account)
    return account


@click.command()
@click.option("--kills", default=50, show_default=True)
@click.option("--records", default=1_000_000, show_default=True, help="The most records of each producer.")
@click.option("--seed", default=1, show_default=True)
@click.option("--directory", type=click.Path(file_okay=False, path_type=Path))
def main(kills: int, records: int, seed: int, directory: Path | None) -> None:
    """Kill the gateway and brokers while clients produce, and account for every record."""
    place = directory or Path(tempfile.mkdtemp(prefix="kafka2011-kills-"))
    account = run(kills, records, seed, place)
    click.echo(
        f"seed {seed}: {len(account.offsets)} acknowledged to today's producers,"
        f" {sum(offset < 0 for _, offset in account.offsets.values())} of them without an offset;"
        f" {len(account.confirmed_07)} confirmed to 0.7's; {dict(account.faults)}; {len(account.problems)} problems"
    )
    for problem in account.problems[:20]:
        click.echo(problem)
    sys.exit(1 if account.problems else 0)


if __name__ == "__main__":
    main()
