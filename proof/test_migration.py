"""A cluster of Kafka 0.7.2 under load becomes one of this project, as docs/how-to/migrate.md tells, and loses nothing.

Needs a build of Kafka 0.7.2 (see proof/migration/of_07.py), and Maven for today's Java client.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from integration.gateway.endless import EndlessProducer, lines_of
from integration.gateway.groups import TOPIC, Account, Feed, Member, stored
from kafka2011.admin.replicas import describe_replicas
from kafka2011.local_cluster import LocalBroker, LocalGateway
from proof.answer_codes.clients import BUILT, CLIENTS
from proof.migration.of_07 import BrokerOf07, MemberOf07, ProducerOf07, missing
from tests.support.waiting import eventually
from zk.brokers import BrokerRegistry
from zk.cluster import TopicPartition
from zk.connecting import connect
from zk.gateways import GatewayRegistry
from zk.local_zookeeper import LocalZooKeeper
from zk.ports import free_port

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

JAVA = next(client for client in CLIENTS if client.kind == "java")
BROKERS, PARTITIONS = 3, 2
SETTLE_S = 300.0
QUIET_S = 8.0
"""The quiet time of a drain: more than the five seconds for which 0.7.2's asynchronous producer keeps messages."""

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(missing()), reason=missing()),
    pytest.mark.skipif(bool(JAVA.missing()), reason=f"there is no {JAVA.missing()} here"),
]


def test_nothing_is_lost_from_the_first_broker_to_the_last_client(tmp_path: Path) -> None:
    """Each step of the page is taken under load; after each, all groups have received all that was sent before it."""
    JAVA.build()
    with ExitStack() as stack:
        story = Migration(stack, tmp_path)
        story.begin_with_07()
        story.add_a_gateway()
        for number in range(BROKERS):
            story.replace(number)
            if number == 0:
                story.go_back(number)
                story.replace(number)
        for number in range(BROKERS):
            story.add_a_replica(number)
            if number == 0:
                story.go_back_from_replicas(number)
                story.replace(number)
                story.add_a_replica(number, "--accept-loss")  # its log.dir was a replica's before
        story.replace_consumers()
        story.replace_producers()
        story.end()


class Received:
    """The messages in a member's file, which grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes = 0
        self._values: set[bytes] = set()

    def values(self) -> set[bytes]:
        """Read what is new, and return all values."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._bytes)
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._bytes += len(whole)
            lines = [line.split(b" ") for line in whole.splitlines()]
            self._values |= {value for _, what, _, value in lines if what == b"got"}
        return self._values


class Migration:
    """The cluster, its clients, and what they have sent and received."""

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        self._stack = stack
        self._directory = directory
        self._zookeeper = stack.enter_context(LocalZooKeeper())
        self._client = stack.enter_context(connect(self._zk_connect))
        self._account = Account()
        self._read: dict[str, Received] = {}
        self._groups: dict[str, list[Member | MemberOf07]] = {}
        self._living: list[Member | MemberOf07] = []
        self._producers: list[ProducerOf07] = []
        self._sending: list[ProducerOf07] = []
        self._acknowledged: set[bytes] = set()
        self._feed: Feed | None = None
        self._ports = [free_port() for _ in range(BROKERS)]
        self._of_07 = [BrokerOf07(number, self._place(number), self._properties(number)) for number in range(BROKERS)]
        self._ours = [LocalBroker(number, self._place(number), self._properties(number)) for number in range(BROKERS)]
        self._copies: dict[int, LocalBroker] = {}
        for broker in self._of_07:
            stack.callback(broker.stop)
        for ours in self._ours:
            stack.callback(ours.stop)
        self._gateway: LocalGateway | None = None
        self._java: EndlessProducer | None = None

    @property
    def _zk_connect(self) -> str:
        return self._zookeeper.connect_string

    def _place(self, number: int, copy: str = "") -> Path:
        return self._directory / f"broker-{number}{copy}"

    def _properties(self, number: int, **more: str) -> dict[str, str]:
        """Return the settings that Kafka 0.7.2 and this project's broker have in common."""
        return {
            "port": str(self._ports[number]),
            "hostname": "127.0.0.1",
            "zk.connect": self._zk_connect,
            "num.partitions": str(PARTITIONS),
            "num.threads": "4",
            "log.file.size": "500000",
            "log.flush.interval": "10000",
            "log.default.flush.interval.ms": "1000",
            "log.default.flush.scheduler.interval.ms": "1000",
            **more,
        }

    # The steps --------------------------------------------------------------------------------------------------------

    def begin_with_07(self) -> None:
        """Start brokers, producers and consumers of Kafka 0.7.2."""
        for broker in self._of_07:
            broker.start_registered(self._client)
        kinds = {
            "first": {},
            "second": {"producer.type": "async", "compression.codec": "1"},
            "third": {"compression.codec": "2"},
        }
        for name, settings in kinds.items():
            producer = ProducerOf07(self._directory, name, self._zk_connect, TOPIC, settings)
            self._stack.callback(producer.stop)
            self._producers.append(producer)
            self._sending.append(producer)
        counts = dict.fromkeys(range(BROKERS), PARTITIONS)
        eventually(
            lambda: BrokerRegistry(self._client).partitions_of(TOPIC) == counts,
            SETTLE_S,
            what="each broker has the topic",
        )
        for name, group in (("x1", "readers"), ("x2", "readers"), ("last", "last")):
            self._join(group, MemberOf07(self._directory, name, self._zk_connect, TOPIC, group))
        self._settle("kafka 0.7.2")

    def add_a_gateway(self) -> None:
        """Start a gateway, and today's clients beside those of 0.7.2."""
        self._gateway = LocalGateway(self._directory / "gateway", {"zk.connect": self._zk_connect})
        self._stack.enter_context(self._gateway)
        eventually(
            lambda: GatewayRegistry(self._client).claims().keys() == set(range(BROKERS)),
            SETTLE_S,
            what="brokers are served",
        )
        self._feed = Feed(self._servers, BROKERS * PARTITIONS, self._account)
        self._join("today", self._member(1, "java", "today"))
        self._join("ours", self._member(2, "ours", "ours"))
        self._settle("a gateway")

    def replace(self, number: int) -> None:
        """Drain a broker of Kafka 0.7.2, stop it, and start one of this project with its settings and its directory."""
        before = self._ends(number)
        self._drain(number)
        self._of_07[number].stop()
        self._ours[number].start()
        ends = self._ends(number)
        assert all(ends[where] >= end for where, end in before.items())
        self._settle(f"broker {number} is ours")

    def go_back(self, number: int) -> None:
        """Stop a broker of this project, and start Kafka 0.7.2 on its directory."""
        self._drain(number)
        self._ours[number].stop()
        self._of_07[number].start_registered(self._client)
        self._settle(f"broker {number} is of 0.7.2 again")

    def add_a_replica(self, number: int, *accept: str) -> None:
        """Turn a broker into two replicas, and let the second one lead for a while."""
        first = self._ours[number]
        self._drain(number)
        first.stop()
        self._run("replicas", "init", number, "a", first.log_dir, *accept)
        self._ours[number] = LocalBroker(number, self._place(number), self._properties(number, **{"replica.name": "a"}))
        place = self._place(number, f"-b{len(accept)}")
        second = LocalBroker(number, place, self._properties(number, **{"replica.name": "b", "port": str(free_port())}))
        for process in (self._ours[number], second):
            self._stack.callback(process.stop)
            process.start()
        self._copies[number] = second
        self._await_in_sync(number)
        self._settle(f"broker {number} has two replicas")
        self._drain(number)
        self._ours[number].stop()
        self._settle(f"the second replica of broker {number} leads")
        self._ours[number].start()
        self._await_in_sync(number)

    def go_back_from_replicas(self, number: int) -> None:
        """Stop both replicas, and start Kafka 0.7.2 on the directory of one."""
        self._drain(number)
        self._copies.pop(number).stop()
        self._ours[number].stop()
        self._run("replicas", "remove", number, "--yes")
        self._ours[number] = LocalBroker(number, self._place(number), self._properties(number))
        self._stack.callback(self._ours[number].stop)
        self._of_07[number].start_registered(self._client)
        self._settle(f"broker {number} is of 0.7.2 once more")

    def replace_consumers(self) -> None:
        """Replace the members of a group one by one; the group continues where it was."""
        for number, kind in ((3, "java"), (4, "confluent")):
            old = self._groups["readers"][number - 3]
            self._join("readers", self._member(number, kind, "readers"))
            self._leave(old)
            self._settle(f"a consumer is {kind}")

    def replace_producers(self) -> None:
        """Replace the producers of Kafka 0.7.2, then its last consumer."""
        self._java = EndlessProducer(
            self._servers,
            TOPIC,
            BROKERS * PARTITIONS,
            "java-",
            "java-producer",
            self._directory,
            BUILT / JAVA.folder / "jars",
        )
        self._stack.enter_context(self._java)
        for producer in reversed(self._producers):
            self._sending.remove(producer)
            producer.stop()
            self._settle(f"the {producer.name} producer of 0.7.2 is gone")

    def end(self) -> None:
        """Stop the remaining clients, and account for every message."""
        assert self._feed is not None
        assert self._java is not None
        self._feed.stop()
        self._account.problems += [*self._java.stop(), *self._java.problems()]
        self._acknowledged |= {record.value for record in self._java.acknowledged()}
        self._settle("the end")
        for member in [*self._living]:
            self._leave(member)
        assert not self._account.problems
        failed = {producer.name: len(producer.values(b"failed")) for producer in self._producers}
        assert not any(failed.values()), failed
        for group, members in self._groups.items():
            self._check(group, members)

    # What is asked after each step ------------------------------------------------------------------------------------

    def _settle(self, what: str) -> None:
        """Wait until each group has received all that was sent by now; no client may have ended."""
        began_s = time.monotonic()
        sent = self._sent()
        lacking: dict[str, int] = {}

        def is_settled() -> bool:
            ended = [client.name for client in (*self._living, *self._sending) if client.process.poll() is not None]
            assert not ended, f"{what}: {ended}"
            assert not self._account.problems, f"{what}: {self._account.problems}"
            for group in self._groups:
                lacking[group] = len(sent - self._received(group))
            return not any(lacking.values())

        try:
            eventually(is_settled, SETTLE_S, sleep=lambda _: time.sleep(0.5))
        except AssertionError:
            raise AssertionError(f"{what}: {lacking} of {len(sent)} messages have not arrived") from None
        logger.info("%s: %d messages, settled in %.1f s", what, len(sent), time.monotonic() - began_s)

    def _sent(self) -> set[bytes]:
        sent = self._acknowledged.union(*(producer.values() for producer in self._producers))
        return sent if self._feed is None else sent | self._feed.acknowledged.copy()

    def _received(self, group: str) -> set[bytes]:
        members = self._groups[group]
        return set().union(*(self._read[member.name].values() for member in members))

    def _check(self, group: str, members: list[Member | MemberOf07]) -> None:
        """See that the group has read each log in its order: nothing came before what lies in front of it."""
        order: dict[bytes, tuple[str, int, int]] = {}
        for where in TopicPartition.all_of(TOPIC, BrokerRegistry(self._client).partitions_of(TOPIC)):
            order |= stored(self._client, where, where.znode_name)
        assert order.keys() >= self._sent()
        read: dict[str, int] = {}
        lines = [line for member in members for line in lines_of(member.path, member.name) if line.what == b"got"]
        repeats = 0
        for line in sorted(lines):
            partition, number, _ = order[line.value]
            expected = read.get(partition, 0)
            assert number <= expected, (
                f"{group}: {line.value!r} is message {number} of {partition}, {expected} came not"
            )
            repeats += number < expected
            read[partition] = max(expected, number + 1)
        logger.info("group %s: %d messages, %d came again", group, len(order), repeats)

    # Helpers ----------------------------------------------------------------------------------------------------------

    @property
    def _servers(self) -> str:
        assert self._gateway is not None
        return f"{self._gateway.host}:{self._gateway.port}"

    def _member(self, number: int, kind: str, group: str) -> Member:
        given = {"servers": self._servers, "zk_connect": self._zk_connect, "topic": TOPIC, "group": group}
        jars = BUILT / JAVA.folder / "jars" if kind == "java" else None
        return Member(number, kind, self._directory, given, jars)

    def _join(self, group: str, member: Member | MemberOf07) -> None:
        self._groups.setdefault(group, []).append(member)
        self._living.append(member)
        self._read[member.name] = Received(member.path)
        self._stack.callback(self._end, member)

    def _leave(self, member: Member | MemberOf07) -> None:
        self._living.remove(member)
        self._end(member)

    @staticmethod
    def _end(member: Member | MemberOf07) -> None:
        if isinstance(member, MemberOf07):
            member.stop()
        elif member.process.poll() is None:
            member.stop(kill=False)

    def _ends(self, number: int) -> dict[TopicPartition, int]:
        """Return the sizes of a broker's logs."""
        sizes = Counter[TopicPartition]()
        for path in self._of_07[number].log_dir.glob(f"{TOPIC}-*/*.kafka"):
            sizes[TopicPartition(TOPIC, number, int(path.parent.name.rpartition("-")[2]))] += path.stat().st_size
        return dict(sizes)

    def _drain(self, number: int) -> None:
        self._run("drain", number, "--quiet-seconds", QUIET_S)

    def _run(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "kafka2011", *map(str, arguments), "--zookeeper", self._zk_connect]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SETTLE_S * 2)
        assert done.returncode == 0, done.stderr
        logger.info("%s", done.stdout.strip())

    def _await_in_sync(self, number: int) -> None:
        def is_in_sync() -> bool:
            replicas = describe_replicas(self._client)[0][number].replicas
            return sum(replica.is_in_sync and bool(replica.address) for replica in replicas) == 2

        eventually(is_in_sync, SETTLE_S, what=f"broker {number} has two replicas in sync")
