"""One group of members of 2011 and of today, of which some join, leave and are killed, and so are gateways and brokers.

    python -m integration.gateway.groups --minutes 5 --rounds 6 --seed 1 --directory DIRECTORY --jars JARS

With the jars of kafka-clients, a Java consumer is a member from the beginning to the end, and a Java producer sends
beside the other one; neither may end or lose a record. With --replicas 2, each broker has two processes, and the other
one takes over when one ends or hangs.

Every record that was acknowledged must reach a member. One may come again only if no commit behind it was confirmed
before; a member that reads 0.7's offsets begins with the compressed set in which the last commit lies. A round that is
in the directory already is not run again.
"""

from __future__ import annotations

import json
import logging
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from integration.gateway.endless import EndlessProducer, Line, java_command, lines_of, repeated
from integration.gateway.group_member import KINDS, TODAY
from integration.gateway.today import told_offset
from kafka2011 import SimpleConsumer
from kafka2011.consumer.rebalance import owners_by_topic
from kafka2011.consumer.topic_count import TopicCount
from kafka2011.local_cluster import LocalCluster, LocalGateway
from zk.brokers import BrokerRegistry
from zk.cluster import TopicPartition
from zk.connecting import connect
from zk.consumers import ConsumerRegistry
from zk.errors import ZkError
from zk.gateways import GatewayRegistry
from zk.owners import OwnerRegistry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zk.client import ZkClient

logger = logging.getLogger(__name__)

TOPIC, GROUP = "views", "readers"
PARTITIONS = 12
"""On each of two brokers."""
MOST_MEMBERS = 7
SETTLE_S = 90.0
GAP_S = 4.0, 10.0
EVENTS = {
    "join": 6,
    "leave": 3,
    "kill a member": 3,
    "kill a gateway": 1,
    "kill a broker": 1,
    "stop a gateway": 1,
    "stop a broker": 1,
    "pause a gateway": 1,
    "pause a broker": 1,
    "nap": 1,
}
_SILENT = logging.getLogger("silent")
_SILENT.propagate = False
_SILENT.addHandler(logging.NullHandler())


@dataclass
class Account:
    """What a round has seen. `settled_s`: how long members took to have their shares after each join and leave."""

    acknowledged: int = 0
    received: int = 0
    repeats: int = 0
    events: Counter[str] = field(default_factory=Counter)
    settled_s: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class Member:
    """One member's process; with `jars`, that of a Java consumer."""

    def __init__(
        self, number: int, kind: str, directory: Path, given: dict[str, str], jars: Path | None = None
    ) -> None:
        self.kind = kind
        self.name = f"{random.Random(number).choice('agkpsz')}{number}-{kind}"  # so that they mix in the order of ids
        self.path = directory / f"{self.name}.txt"
        if jars is None:
            command = [sys.executable, "-m", "integration.gateway.group_member", kind, str(self.path)]
            command.append(json.dumps({**given, "name": self.name}))
        else:
            where = given["servers"], given["topic"], given["group"]
            command = java_command(jars, "member", self.path, *where, self.name)
        with (directory / f"{self.name}.err").open("ab") as errors:
            self.process = subprocess.Popen(command, stderr=errors)

    def lines(self) -> Iterator[Line]:
        """Yield what it has written down."""
        return lines_of(self.path, self.name)

    def stop(self, *, kill: bool) -> None:
        """End it."""
        self.process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        try:
            self.process.wait(SETTLE_S)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGUSR2)
            time.sleep(1)
            self.process.kill()
            self.process.wait()
            raise


class Feed:
    """A producer of today that sends to all partitions until it is stopped."""

    def __init__(self, servers: str, count: int, account: Account) -> None:
        self.acknowledged: set[bytes] = set()
        self._account = account
        self._count = count
        self._stopped = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,  # what is sent twice would count as given twice
                "message.timeout.ms": 600_000,
                "linger.ms": 50,
                "logger": _SILENT,
                "reconnect.backoff.max.ms": 1000,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        def note(error: Any, message: Any) -> None:
            if error is None:
                self.acknowledged.add(message.value())
                if told_offset(message) < 0:
                    self._account.problems.append(f"{message.value()!r} was acknowledged without an offset")
            else:
                self._account.problems.append(f"{message.value()!r} was not acknowledged: {error}")

        number = 0
        while len(self._producer.list_topics(TOPIC, SETTLE_S).topics[TOPIC].partitions) < self._count:
            self._stopped.wait(0.1)  # this gateway has yet to hear of all partitions
        while not self._stopped.is_set():
            for _ in range(10):  # some of which make a batch
                self._producer.produce(
                    TOPIC, b"%d-%d" % (number % self._count, number), partition=number % self._count, on_delivery=note
                )
                number += self._count
            number += 1
            self._producer.poll(0)
            self._stopped.wait(0.02)

    def stop(self) -> None:
        """Stop, and wait for what was sent."""
        self._stopped.set()
        self._thread.join()
        if self._producer.flush(SETTLE_S):
            self._account.problems.append("records were never acknowledged")


class Shares:
    """Whose each partition should be, and whose it is, by the registries."""

    def __init__(self, client: ZkClient) -> None:
        self._consumers = ConsumerRegistry(client)
        self._brokers = BrokerRegistry(client)
        self._owners = OwnerRegistry(client)

    def are_there(self, members: int) -> bool:
        """Say whether the group has this number of members."""
        try:
            return len(self._consumers.members(GROUP)) == members
        except ZkError:
            return False

    def are_settled(self) -> bool:
        """Say whether each member has its share."""
        try:
            texts = self._consumers.subscriptions(GROUP)
            partitions = TopicPartition.all_of(TOPIC, self._brokers.partitions_of(TOPIC))
            owners = self._owners.owners(GROUP, TOPIC)
        except ZkError:
            return False
        if len(partitions) != 2 * PARTITIONS:
            return False
        counts = {consumer_id: TopicCount.parse(text) for consumer_id, text in texts.items()}
        wanted = owners_by_topic({TOPIC: partitions}, counts)
        return {where: owner.stream_id for where, owner in owners.items()} == wanted

    def await_settled(self, members: int, timeout_s: float) -> float | None:
        """Wait for this; return the seconds since the group had this number of members, None if it did not happen."""
        ends_s = time.monotonic() + timeout_s
        there_s: float | None = None
        while (now_s := time.monotonic()) < ends_s:
            if self.are_there(members):
                there_s = now_s if there_s is None else there_s
                if self.are_settled():
                    return time.monotonic() - there_s
            time.sleep(0.02)
        return None


class Round:
    """One cluster with its group, for some minutes."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        minutes: float,
        zk_connect: str | None = None,
        *,
        jars: Path | None = None,
        replicas: int = 1,
    ) -> None:
        self._directory = directory
        self._rng = random.Random(seed)
        self._minutes = minutes
        self._zk_connect = zk_connect
        self._jars = jars
        self._replicas = replicas
        self.account = Account()
        self._members: list[Member] = []
        self._endless: list[Member] = []
        self._every: list[Member] = []
        self._naps_until_s = 0.0

    def run(self) -> Account:
        """Let things happen, bring the group to rest, and account for every record."""
        properties = {"num.partitions": PARTITIONS, "log.default.flush.scheduler.interval.ms": 200}
        with ExitStack() as stack:
            cluster = stack.enter_context(
                LocalCluster(
                    2,
                    directory=self._directory / "cluster",
                    zk_connect=self._zk_connect,
                    properties=properties,
                    replicas=self._replicas,
                )
            )
            gateways = [
                stack.enter_context(
                    LocalGateway(self._directory / f"gateway-{number}", {"zk.connect": cluster.zk_connect})
                )
                for number in range(2)
            ]
            servers = ",".join(f"{gateway.host}:{gateway.port}" for gateway in gateways)
            client = stack.enter_context(connect(cluster.zk_connect))
            _create_topic(servers)
            feed = Feed(servers, 2 * PARTITIONS, self.account)
            java_feed: EndlessProducer | None = None
            if self._jars is not None:
                java_feed = EndlessProducer(
                    servers, TOPIC, 2 * PARTITIONS, "java-", "java-producer", self._directory, self._jars
                )
                stack.enter_context(java_feed)
            try:
                self._let_happen(cluster, gateways, servers, Shares(client))
                feed.stop()
                if java_feed is not None:
                    self.account.problems += [*java_feed.stop(), *java_feed.problems()]
                    feed.acknowledged |= {record.value for record in java_feed.acknowledged()}
                self._await_all(feed.acknowledged)
            finally:
                members = [*self._members, *self._endless]
                for member in members:
                    member.process.terminate()
                for member in members:
                    member.stop(kill=False)
            self._check(client, feed.acknowledged)
        return self.account

    # What happens ----------------------------------------------------------------------------------------------------

    def _let_happen(self, cluster: LocalCluster, gateways: list[LocalGateway], servers: str, shares: Shares) -> None:
        given = {"servers": servers, "zk_connect": cluster.zk_connect, "topic": TOPIC, "group": GROUP}
        kinds = list(KINDS)
        self._rng.shuffle(kinds)
        ends_s = time.monotonic() + 60 * self._minutes
        if self._jars is not None:
            self._endless.append(Member(0, "java", self._directory, given, self._jars))
            self._every.append(self._endless[0])
        while time.monotonic() < ends_s and not self.account.problems:
            event = self._choose()
            if event == "join":
                kinds.append(kinds.pop(0))
                self._members.append(Member(len(self._every), kinds[-1], self._directory, given))
                self._every.append(self._members[-1])
                event = f"join: {kinds[-1]}"
            elif event in {"leave", "kill a member"}:
                member = self._members.pop(self._rng.randrange(len(self._members)))
                member.stop(kill=event != "leave")
                event = f"{event}: {member.kind}"
            elif event == "nap":
                napping = [member for member in self._members if member.kind in TODAY and member.kind != "aiokafka"]
                if napping:
                    self._rng.choice(napping).process.send_signal(signal.SIGUSR1)
                    self._naps_until_s = time.monotonic() + 65
            else:
                server = self._rng.choice(gateways if "gateway" in event else cluster.processes)
                end, go_on = {
                    "kill": (server.kill, server.start),
                    "stop": (server.stop, server.start),
                    "pause": (server.pause, server.resume),
                }[event.partition(" ")[0]]
                end()
                time.sleep(self._rng.choice([0.0, 1.0, 8.0]))
                go_on()
            self.account.events[event] += 1
            is_timed = event.startswith(("join", "leave")) and time.monotonic() > self._naps_until_s
            settled_s = shares.await_settled(len(self._members) + len(self._endless), 15.0 if is_timed else 1.0)
            if is_timed and settled_s is not None:
                self.account.settled_s.append(settled_s)
            logger.info(
                "%s: %d members, settled after %s", event, len(self._members), settled_s and f"{settled_s:.1f} s"
            )
            for member in [*self._members, *self._endless]:
                if member.process.poll() is not None:
                    self.account.problems.append(f"{member.name} has ended by itself")
            time.sleep(self._rng.uniform(*GAP_S))

    def _choose(self) -> str:
        if len(self._members) < 2:
            return "join"
        possible = {event: weight for event, weight in EVENTS.items() if event != "join" or self._may_join}
        return self._rng.choices([*possible], [*possible.values()])[0]

    @property
    def _may_join(self) -> bool:
        return len(self._members) < MOST_MEMBERS

    # The account -----------------------------------------------------------------------------------------------------

    def _await_all(self, acknowledged: set[bytes]) -> None:
        """Wait until all has been received, with at least one member."""
        ends_s = time.monotonic() + 2 * SETTLE_S
        while time.monotonic() < ends_s:
            received = {line.value for member in self._every for line in member.lines() if line.what == b"got"}
            if acknowledged <= received:
                return
            time.sleep(1)
        lacking = acknowledged - received
        self.account.problems.append(f"{len(lacking)} records reached nobody, such as {min(lacking)!r}")

    def _check(self, client: ZkClient, acknowledged: set[bytes]) -> None:
        """See that nothing came again behind which a commit was confirmed."""
        account = self.account
        account.acknowledged = len(acknowledged)
        known = GatewayRegistry(client).lists([TOPIC])[TOPIC]
        assert known is not None
        names = {where.znode_name: str(number) for number, where in enumerate(known.partitions)}
        order: dict[bytes, tuple[str, int, int]] = {}  # partition, number, and that of the first in its compressed set
        for number, where in enumerate(known.partitions):
            order |= stored(client, where, str(number))
        kinds = {member.name: member.kind for member in self._every}
        by_partition: dict[str, list[Line]] = {}
        for member in self._every:
            for line in member.lines():
                name = names.get(line.partition, line.partition)
                by_partition.setdefault(name, []).append(line)
        received: Counter[bytes] = Counter()
        for name, lines in by_partition.items():
            received.update(line.value for line in lines if line.what == b"got")
            account.problems += repeated(name, sorted(lines), order, kinds)
        account.received = len(received)
        account.repeats = sum(received.values()) - len(received)


def _create_topic(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "logger": _SILENT})
    ends_s = time.monotonic() + SETTLE_S
    while True:
        made = admin.create_topics([NewTopic(TOPIC, 2 * PARTITIONS, 1)], operation_timeout=SETTLE_S)
        try:
            made[TOPIC].result(SETTLE_S)
        except confluent_kafka.KafkaException as error:  # the client drops the addresses that it began with
            if error.args[0].code() == confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                return
            if time.monotonic() > ends_s:
                raise
        else:
            return


def stored(client: ZkClient, where: TopicPartition, name: str) -> dict[bytes, tuple[str, int, int]]:
    """Return for each message in a log the name, its number, and the number of the first in its compressed set."""
    broker = BrokerRegistry(client).brokers()[where.broker_id]
    order: dict[bytes, tuple[str, int, int]] = {}
    offset = number = set_number = 0
    with SimpleConsumer(broker.host, broker.port) as consumer:
        while messages := [*consumer.fetch(TOPIC, where.partition, offset, 4 * 1024 * 1024)]:
            for message in messages:
                if message.index_in_set == 0:
                    set_number = number
                order[message.payload] = name, number, set_number
                number += 1
            offset = messages[-1].next_offset
    return order


@click.command()
@click.option("--minutes", default=5.0, show_default=True, help="How long a round takes.")
@click.option("--rounds", default=1, show_default=True)
@click.option("--seed", default=1, show_default=True, help="Of the first round.")
@click.option("--directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--replicas", default=1, show_default=True, help="Processes of each broker.")
@click.option("--jars", type=click.Path(file_okay=False, exists=True, path_type=Path), help="Those of kafka-clients.")
def main(minutes: float, rounds: int, seed: int, directory: Path | None, replicas: int, jars: Path | None) -> None:
    """Let members of one group come and go, kill them, gateways and brokers, and account for every record."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    logger.setLevel(logging.INFO)
    place = directory or Path(tempfile.mkdtemp(prefix="kafka2011-groups-"))
    place.mkdir(parents=True, exist_ok=True)
    is_well = True
    for number in range(seed, seed + rounds):
        path = place / f"round-{number}.json"
        if not path.exists():
            (place / f"round-{number}").mkdir(exist_ok=True)
            account = Round(place / f"round-{number}", number, minutes, jars=jars, replicas=replicas).run()
            path.write_text(json.dumps({**vars(account), "events": dict(account.events)}, indent=1))
        found = json.loads(path.read_text())
        median_s = statistics.median(found["settled_s"]) if found["settled_s"] else 0.0
        click.echo(
            f"seed {number}: {found['acknowledged']} acknowledged, {found['received']} received,"
            f" {found['repeats']} came again; settled in {median_s:.1f} s (median of {len(found['settled_s'])});"
            f" {len(found['problems'])} problems"
        )
        click.echo(", ".join(f"{times} {event}" for event, times in sorted(found["events"].items())))
        for problem in found["problems"][:20]:
            click.echo(problem)
        is_well = is_well and not found["problems"]
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
