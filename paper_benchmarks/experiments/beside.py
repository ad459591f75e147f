"""What grows, beside Kafka 4: consumers of one topic, partitions, members of a group, and what lies on the disk."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from kafka2011 import SyncProducer
from paper_benchmarks.clients.measure import consume, new_topic, produce
from paper_benchmarks.experiments.experiment import LEAST_S, Experiment
from paper_benchmarks.experiments.recovery import await_answer
from paper_benchmarks.experiments.systems import (
    SHIPPED,
    consume_line,
    extent_of,
    filler_of,
    produce_line,
    settings_of,
)
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import PAYLOAD_BYTES, payloads
from paper_benchmarks.measuring.usage import usage_of
from paper_benchmarks.measuring.worker import run_worker
from paper_benchmarks.pages.tables import spread_of, table, text
from paper_benchmarks.systems import gateway, kafka
from paper_benchmarks.systems.kafka2011 import OWN, KafkaBroker, own_broker
from paper_benchmarks.workers.fan import kafka_serves
from paper_benchmarks.workers.kafka_members import noted
from paper_benchmarks.workers.members import MODULE as MEMBERS
from paper_benchmarks.workers.members import Members
from zk import paths
from zk.connecting import connect
from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from paper_benchmarks.clients.measure import Run
    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.systems.kafka import KafkaServer
    from paper_benchmarks.systems.system import Kind, System

    Rows = dict[str, dict[str, float | None]]
    """Figures by their names, for each count or step."""

_FAN_BYTES, _DISK_BYTES = 300_000_000, 10_000_000_000
_BACKLOG_MESSAGES = 2_000_000
_SET = 20
_GROUP_PARTITIONS = 100
_MEMBERS_A_PROCESS = 10
_STABLE_S = 1.0
_POLL_S, _STEP_S, _TIMEOUT_S = 0.05, 0.005, 600.0
_RESTARTS = 3
_MOST_OF_KAFKA = 1000
"""Partitions: more take a Kafka of one small machine many minutes."""
_KAFKA_MEMBERS = "paper_benchmarks.workers.kafka_members"
_OF_TODAY = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}


def measure(bench: Bench) -> dict[str, Any]:
    """Measure each table for ours and, where it is there, for Kafka 4, in turn."""
    kinds = gateway.beside(bench.kinds)
    found = {}
    for name, (find, rounds, names) in TABLES.items():

        def once(kind: str, find: Callable[[Bench, Kind], Rows] = find) -> Rows:
            return find(bench, kinds[kind])

        lines = [kind for kind in names if kind in kinds]
        samples = bench.in_turn(lines, once, bench.sized(toy=1, small=1, paper=rounds), name)
        found[name] = {kinds[kind].title: _together(several) for kind, several in samples.items()}
    return {"tables": found}


def _together(rounds: list[Rows]) -> dict[str, dict[str, list[float]]]:
    """Return the figures of all rounds in lists; what is not known is left out."""
    return {
        row: {key: [each[row][key] for each in rounds] for key in figures if figures[key] is not None}  # type: ignore[misc]
        for row, figures in rounds[0].items()
    }


def _share(bench: Bench) -> float:
    """Return how much of the full size is measured: all of it in runs of 10 s."""
    return bench.sized(toy=0.001, small=0.1, paper=bench.seconds / LEAST_S)


def _fill(kind: Kind, system: System, size_bytes: float) -> tuple[str, int]:
    line = filler_of(kind)
    sent = produce(kind, system, line.client, max(int(size_bytes / PAYLOAD_BYTES), 1000), batch=line.batch)
    return sent.topic, sent.landed


# Consumers of one topic ----------------------------------------------------------------------------------------------


def _fan_out(bench: Bench, kind: Kind) -> Rows:
    seconds, found = max(5 * _share(bench), 0.2), {}
    with bench.start(kind) as system:
        topic, messages = _fill(kind, system, _FAN_BYTES * _share(bench))
        for connections in bench.sized(toy=(2,), small=(1, 10), paper=(1, 10, 100)):
            job = {
                "kind": kind.name,
                "server": {"host": system.host, "port": system.port},
                "topic": topic,
                "messages": messages,
                "connections": connections,
                "seconds": seconds,
            }
            done = run_worker("paper_benchmarks.workers.fan", job, system.cpu_s)
            gigabytes = done.result["bytes"] / 1e9
            found[f"{connections:,}"] = {
                "GB/s": gigabytes / done.result["wall_s"],
                "server, CPU s a GB": (done.server_cpu_s or 0.0) / gigabytes,
                "clients, CPU s a GB": done.result["cpu_s"] / gigabytes,
            }
    return cast("Rows", found)


# Clients of today ----------------------------------------------------------------------------------------------------


def _clients_of_today(bench: Bench, kind: Kind) -> Rows:
    """Have the same clients, as they ship, send and read as long as in long runs."""
    found: Rows = {}
    extent, filler = extent_of(bench), filler_of(kind)
    for line in kind.producers():
        if line.tool:
            continue
        readers = [reader for reader in kind.consumers() if line is filler and not reader.tool]
        with bench.start(kind) as system:
            sent = produce_line(kind, system, line, settings_of(kind, line, SHIPPED), extent)
            found[str(line)] = _cost_of(sent)
            for reader in readers:
                run = consume_line(kind, system, reader, settings_of(kind, reader, SHIPPED), sent, extent)
                found[str(reader)] = _cost_of(run)
    return found


def _cost_of(run: Run) -> dict[str, float | None]:
    return {
        "millions of messages/s": run.rate / 1e6,
        "client, CPU us": run.client_cpu_us,
        "server, CPU us": run.server_cpu_us,
    }


# Partitions ----------------------------------------------------------------------------------------------------------


def _partitions(bench: Bench, kind: Kind) -> Rows:
    found: Rows = {}
    for count in bench.sized(toy=(2,), small=(1, 100), paper=(1, 100, 1000, 5000)):
        bench.say(f"{kind.title}: {count:,} partitions")
        if kind.name == OWN:
            with (
                own_broker(bench.data, properties={"num.partitions": count}) as broker,
                SyncProducer(broker.host, broker.port) as producer,
            ):
                found[f"{count:,}"] = _spread(bench, broker, count, producer.send, producer.close)
        elif count <= _MOST_OF_KAFKA:
            with bench.start(kind) as server:
                found[f"{count:,}"] = _spread_over_kafka(bench, server, count)
    return found


def _spread_over_kafka(bench: Bench, server: System, count: int) -> dict[str, float | None]:
    from confluent_kafka import Producer  # noqa: PLC0415 (only where a Kafka is measured)

    producer = Producer({"bootstrap.servers": f"{server.host}:{server.port}", "acks": "0"})

    def send(topic: str, messages: list[bytes], at: int) -> None:
        while len(producer) > 50_000:  # of the 100,000 that its queue takes
            producer.poll(0.001)
        producer.produce_batch(topic, [{"value": message} for message in messages], partition=at)

    def flush() -> None:
        if unsent := producer.flush(_TIMEOUT_S):
            raise BenchmarkError(f"{unsent} messages could not be sent")

    return _spread(bench, server, count, send, flush)


def _spread(
    bench: Bench,
    system: System,
    count: int,
    send: Callable[[str, list[bytes], int], object],
    flush: Callable[[], object],
) -> dict[str, float | None]:
    """Send sets of 20 to one partition after the other, as long as a line of a long run, to a topic that is there."""
    topic, messages, number = "spread", payloads(_SET), 0
    if system.name == kafka.KIND.name:
        kafka.make_topic(system, topic, count)
    for partition in range(count):
        send(topic, messages, partition)
    flush()
    before, began_s, began_cpu_s = system.usage(), time.perf_counter(), time.process_time()
    while time.perf_counter() - began_s < max(bench.seconds * _share(bench), 0.2):
        for _ in range(_SET):
            send(topic, messages, number % count)
            number += 1
    flush()
    wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    after = system.usage()
    assert before is not None
    assert after is not None
    return {
        "millions of messages/s": number * _SET / wall_s / 1e6,
        "client, CPU us": cpu_s / number / _SET * 1e6,
        "server, CPU us": after.since(before).cpu_s / number / _SET * 1e6,
        "server, MiB": after.memory_bytes / 2**20,
    }


# Members of a group --------------------------------------------------------------------------------------------------


def _group(bench: Bench, kind: Kind) -> Rows:
    found: Rows = {}
    partitions = bench.sized(toy=2, small=20, paper=_GROUP_PARTITIONS)
    for members in bench.sized(toy=(1,), small=(1, 10), paper=(1, 10, 50)):
        with ExitStack() as stack:
            address, owned = stack.enter_context(_ready_group(bench, kind, partitions))
            several, one = (stack.enter_context(_members(bench, kind, address, count)) for count in (members, 1))
            found[f"{members:,}"] = _join_and_die(several, one, owned, members, partitions)
    return found


def _group_of_today(bench: Bench, kind: Kind) -> Rows:
    """Have the same program be members of both."""
    found: Rows = {}
    partitions = bench.sized(toy=2, small=20, paper=_GROUP_PARTITIONS)
    for members in bench.sized(toy=(1,), small=(1, 10), paper=(1, 10, 50)):
        with ExitStack() as stack:
            server = stack.enter_context(bench.start(kind))
            kafka.make_topic(server, "views", partitions)
            notes = Path(stack.enter_context(TemporaryDirectory(prefix="members-", dir=bench.data)))
            address = f"{server.host}:{server.port}"
            job = (_MEMBERS_A_PROCESS, _KAFKA_MEMBERS, _OF_TODAY, notes)
            several, one = (
                stack.enter_context(Members(address, "readers", {"views": 1}, count, *job)) for count in (members, 1)
            )
            found[f"{members:,}"] = _join_and_die(several, one, partial(noted, notes), members, partitions)
    return found


def _join_and_die(
    several: Members, one: Members, owned: Callable[[], tuple[int, int]], members: int, partitions: int
) -> dict[str, float | None]:
    """Have members join, then one more, which is killed; return how long it took each time until all is owned."""
    several.join()
    all_s = _settle(owned, members, partitions)
    one.join()
    one_more_s = _settle(owned, members + 1, partitions)
    one.kill()
    return {
        "all join, s": all_s,
        "one more joins, s": one_more_s,
        "that one is killed, s": _settle(owned, members, partitions),
    }


def _members(bench: Bench, kind: Kind, address: str, count: int) -> Members:
    """Return members with sessions as shipped; short ones at size toy."""
    if kind.name == OWN:
        module, settings = MEMBERS, {"zk.sessiontimeout.ms": bench.sized(toy=1000, small=6000, paper=6000)}
    else:
        module, settings = _KAFKA_MEMBERS, bench.sized(toy={"session.timeout.ms": 6000}, small={}, paper={})
    return Members(address, "readers", {"views": 1}, count, _MEMBERS_A_PROCESS, module, settings)


@contextmanager
def _ready_group(bench: Bench, kind: Kind, partitions: int) -> Iterator[tuple[str, Callable[[], tuple[int, int]]]]:
    """Have a topic; give where members connect to, and what tells how many partitions are owned, and by how many."""
    if kind.name != OWN:
        with bench.start(kind) as server:
            kafka.make_topic(server, "views", partitions)
            yield f"{server.host}:{server.port}", kafka.owners(server, "readers")
        return
    with own_broker(bench.data, properties={"num.partitions": partitions}) as broker:
        with SyncProducer(broker.host, broker.port) as producer:
            producer.send("views", [b"first"], 0)
        zk_connect = str(broker.zk_connect)
        with connect(zk_connect, 10_000) as client:
            nodes, owners = Nodes(client), paths.owners("readers", "views")

            def owned() -> tuple[int, int]:
                names = nodes.children_of_many([owners])[owners]
                found = nodes.get_many(paths.child(owners, name) for name in names)
                return len(found), len({(node.data or b"").rpartition(b"-")[0] for node in found.values()})

            yield zk_connect, owned


def _settle(owned: Callable[[], tuple[int, int]], members: int, partitions: int) -> float:
    """Wait until all partitions have had this number of owners for a second; return when that began."""
    began_s, since_s = time.monotonic(), 0.0
    while True:
        is_so, now_s = owned() == (partitions, min(members, partitions)), time.monotonic()
        if not is_so:
            since_s = 0.0
        elif not since_s:
            since_s = now_s
        elif now_s - since_s >= _STABLE_S:
            return since_s - began_s
        if now_s - began_s > _TIMEOUT_S:
            raise BenchmarkError(f"{owned()} partitions and members: it was to be {partitions} and {members}")
        time.sleep(_POLL_S)


# A backlog -----------------------------------------------------------------------------------------------------------


def _backlog(bench: Bench, kind: Kind) -> Rows:
    """Fill a topic step by step; append to it at each step, and read what is oldest."""
    found: Rows = {}
    filler, reader = filler_of(kind), kind.consumers()[0]
    messages = max(int(_BACKLOG_MESSAGES * _share(bench)), 1000)
    with bench.start(kind) as system:
        topic, present = new_topic(), 0
        for gigabytes in bench.sized(toy=(1, 2), small=(1, 5), paper=(1, 5, 20)):
            wanted = int(gigabytes * 1e9 / PAYLOAD_BYTES * _share(bench)) - present
            several = [wanted - messages, messages] if wanted > 2 * messages else [messages]
            for count in several:
                sent = produce(kind, system, filler.client, count, batch=filler.batch, topic=topic, present=present)
                present = sent.landed
            read = consume(kind, system, reader.client, topic, messages, part=True)
            found[f"{gigabytes:,}"] = {
                "append, millions/s": sent.rate / 1e6,
                "append, CPU us": sent.client_cpu_us + (sent.server_cpu_us or 0.0),
                "read the oldest, millions/s": read.rate / 1e6,
                "read, CPU us": read.client_cpu_us + (read.server_cpu_us or 0.0),
            }
    return found


# What lies on the disk -----------------------------------------------------------------------------------------------


def _restart(bench: Bench, kind: Kind) -> Rows:
    found: Rows = {}
    with bench.start(kind) as system:
        idle = _memory_mib(system)
        topic, _ = _fill(kind, system, _DISK_BYTES * _share(bench))
        loaded = _memory_mib(system)
        for number in range(1, bench.sized(toy=1, small=1, paper=_RESTARTS) + 1):
            serves_s, registered_s = (_restart_ours if kind.name == OWN else _restart_kafka)(system, topic)
            found[f"{number}"] = {
                "idle, MiB": idle,
                "loaded, MiB": loaded,
                "serves again, s": serves_s,
                "registered, s": registered_s,
                "then, MiB": _memory_mib(system),
            }
    return found


def _memory_mib(system: System) -> float:
    """Return that of the server; ours with its ZooKeeper, as a Kafka of today has its controller within."""
    pids = [*system.pids()]
    if isinstance(system, KafkaBroker) and system.zookeeper_pid is not None:
        pids.append(system.zookeeper_pid)
    return usage_of(pids).memory_bytes / 2**20


def _restart_ours(system: System, topic: str) -> tuple[float, float | None]:
    broker = cast("KafkaBroker", system).broker
    assert broker is not None
    broker.kill()
    began_s = time.monotonic()
    broker.launch()
    await_answer(broker, topic)
    serves_s = time.monotonic() - began_s
    broker.wait_ready(_TIMEOUT_S)
    return serves_s, time.monotonic() - began_s


def _restart_kafka(system: System, topic: str) -> tuple[float, float | None]:
    server = cast("KafkaServer", system)
    messages = server.count(topic)
    server.kill()
    began_s = time.monotonic()
    server.launch()
    while not kafka_serves(server.host, server.port, topic):
        if time.monotonic() - began_s > _TIMEOUT_S:
            raise BenchmarkError(f"{topic} cannot be read {_TIMEOUT_S:g} s after a kill")
        time.sleep(_STEP_S)
    serves_s = time.monotonic() - began_s
    if (left := server.count(topic)) != messages:
        raise BenchmarkError(f"{topic} has {left} messages after a kill: there were {messages}")
    return serves_s, None


_OURS, _BY_GATEWAY = (OWN, kafka.KIND.name), (gateway.KIND.name, kafka.KIND.name)
TABLES: Mapping[str, tuple[Callable[[Bench, Kind], Rows], int, tuple[str, ...]]] = {
    "Consumers of one topic": (_fan_out, 3, _OURS),
    "Members that are today's clients": (_group_of_today, 3, _BY_GATEWAY),
    "Today's clients": (_clients_of_today, 2, _BY_GATEWAY),
    "Partitions": (_partitions, 1, _OURS),
    "GB of a backlog": (_backlog, 1, _OURS),
    "Members of a group": (_group, 1, _OURS),
    "Kill and restart, and memory": (_restart, 1, _OURS),
}
"""Each with how often it is measured at paper size, and for which kinds."""

# The report ----------------------------------------------------------------------------------------------------------

TEXT = {
    "Consumers of one topic": """\
Connections read the same 300 MB again and again, in fetches of 1 MiB. They drop what they receive, so the server is
what is measured. Ours sends from its event loop and two threads (`num.threads`), Kafka 4 from three
(`num.network.threads`); both leave the rest as it ships.""",
    "Partitions": """\
One client sends sets of 20 messages to one partition after the other, unconfirmed (`acks=0`): SyncProducer, and
confluent-kafka's `produce_batch`. Kafka 4 is left out beyond 1,000 partitions, where making the topic takes it
minutes.""",
    "GB of a backlog": """\
One topic grows step by step. At each step a client appends two million messages in lists, and another one reads the two
million that are oldest.""",
    "Members of a group": """\
Members of one topic with 100 partitions: from when they are told to join until every partition has an owner and every
member some partition. Then one more joins, and is killed. As shipped, a session of ours ends after 6 s without a sign
of life, and one of Kafka's after 45 s.""",
    "Members that are today's clients": """\
The same with members that are confluent-kafka's in the same program, with `session.timeout.ms=6000` and
`heartbeat.interval.ms=500`, at the gateway and at Kafka 4. The members themselves say which partitions they were given.
Kafka's `group.initial.rebalance.delay.ms` is 0, not 3 s as shipped.""",
    "Today's clients": """\
One client of confluent-kafka, as shipped, sends to one topic of one partition and reads it, at the gateway with one
broker behind it and at Kafka 4. Each line runs as long as in the first tables. The server's processor time is that of
gateway and broker together.""",
    "Kill and restart, and memory": """\
The server is killed with kill -9 when its disk has 10 GB, and started again: until a message is read, and, of ours,
until it is registered again. Rows are one kill after the other. Memory is that of all processes of the server, of ours
with its ZooKeeper; Kafka's Java has a heap of 1 GB.""",
}


def chapter(body: Mapping[str, Any], _pictures: Path) -> str:
    """Put each into a table, ours and Kafka's rows beside one another.

    A table that was not measured with the others says when it was: `body["alone"]` has the time.
    """
    parts = []
    for name, explained in TEXT.items():
        by_kind = body["tables"].get(name, {})
        if when := body.get("alone", {}).get(name):
            explained += f"\nMeasured alone, at {when}: compare these figures with one another, not with other tables."  # noqa: PLW2901
        rows = [
            {"row": row, "system": title, "figures": figures}
            for row in dict.fromkeys(row for several in by_kind.values() for row in several)
            for title, several in by_kind.items()
            if (figures := several.get(row))
        ]
        names = dict.fromkeys(key for each in rows for key in each["figures"])
        columns = [
            (name, text("row")),
            ("system", text("system")),
            *((key, lambda each, key=key: spread_of(key)({key: each["figures"].get(key)})) for key in names),
        ]
        if rows:
            parts += [f"### {name}", explained, table(rows, columns)]
    return "\n\n".join(parts)


EXPERIMENT = Experiment(
    "beside",
    "What grows, beside Kafka 4",
    "whoever plans a cluster: what more consumers, partitions, members and gigabytes cost, here and in Kafka 4",
    measure,
    chapter,
)
