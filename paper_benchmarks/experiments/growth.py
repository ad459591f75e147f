"""What grows with partitions, connections and brokers, and what a reader far behind costs one at the tail."""

from __future__ import annotations

import socket
import tempfile
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka2011 import SimpleConsumer
from kafka2011.local import LocalCluster
from kafka2011.protocol import LATEST
from paper_benchmarks.accounting import await_landed
from paper_benchmarks.experiment import Experiment, Size
from paper_benchmarks.experiments.latency import deliver
from paper_benchmarks.experiments.limits import multifetch_request
from paper_benchmarks.machine import touch_memory
from paper_benchmarks.markdown import significant, table
from paper_benchmarks.measure import new_topic, produce
from paper_benchmarks.payloads import BATCH, PAYLOAD_BYTES
from paper_benchmarks.pictures import colour, image, plots
from paper_benchmarks.systems.kafka import FLUSH_SETTINGS, KIND, OWN, KafkaBroker, own_broker
from paper_benchmarks.systems.system import Flush
from paper_benchmarks.systems.usage import Usage, usage_of
from paper_benchmarks.worker import Worker
from zk.local import LocalZooKeeper

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from paper_benchmarks.experiment import Bench

_SETTINGS = FLUSH_SETTINGS[Flush.ASYNCHRONOUS]
_STORED_BYTES = PAYLOAD_BYTES + 10
_QUICK_FLUSH = {**_SETTINGS, "log.default.flush.scheduler.interval.ms": 10, "log.default.flush.interval.ms": 10}
_BACKOFF_MS = 10
_TAIL_RATE = 1000
_UNTIL_KILLED = 2**31 - 1
_TIMEOUT_S = 120.0


def measure(bench: Bench) -> dict[str, Any]:
    """Measure the four of them, one after the other."""
    toy = bench.size == Size.TOY
    messages = bench.messages(toy=5000, small=300_000, paper=2_000_000)
    counts = (1, 10) if toy else (1, 10, 100, 1000)
    with LocalZooKeeper() as zookeeper:
        chroot = f"{zookeeper.connect_string}/growth"
        return {
            "messages": messages,
            "partitions": [_partitions(bench, f"{chroot}-{count}", count, messages) for count in counts],
            "connections": list(_connections(bench, f"{chroot}-idle", counts, messages)),
            "brokers": [_brokers(bench, f"{chroot}-of-{n}", n, messages) for n in ((1, 2) if toy else (1, 2, 3))],
            "behind": list(_behind(bench, f"{chroot}-behind", messages, bench.messages(toy=1, small=10, paper=60))),
        }


def _costs(count: int, messages: int, results: Sequence[Mapping[str, Any]], used: Usage) -> dict[str, Any]:
    wall_s = max(result["wall_s"] for result in results)
    return {
        "count": count,
        "rate": messages / wall_s,
        "client_cpu_us": sum(result["cpu_s"] for result in results) / messages * 1e6,
        "broker_cpu_us": used.cpu_s / messages * 1e6,
        "broker_memory_mb": used.memory_bytes / 1e6,
    }


def _partitions(bench: Bench, zk_connect: str, count: int, messages: int) -> dict[str, Any]:
    """Send batches to all partitions in turn; every byte must then be in one of them."""
    bench.say(f"{count} partitions")
    with own_broker(bench.data, zk_connect=zk_connect, properties={**_SETTINGS, "num.partitions": count}) as system:
        topic, lists = new_topic(), messages // BATCH
        job = {"host": system.host, "port": system.port, "topic": topic, "partitions": count, "batches": lists}
        with Worker("paper_benchmarks.drivers.spread", job) as client:
            touch_memory(lists * BATCH * PAYLOAD_BYTES)
            before = system.usage()
            client.go()
            result = client.result()
            after = system.usage()
        with SimpleConsumer(system.host, system.port) as consumer:

            def landed() -> int:
                ends = [consumer.get_offsets_before(topic, each, LATEST, 1)[0] for each in range(count)]
                return sum(ends) // _STORED_BYTES

            await_landed(topic, lists * BATCH + client.facts["warm_messages"], landed, _TIMEOUT_S)
    assert before is not None
    assert after is not None
    return _costs(count, lists * BATCH, [result], after.since(before))


def _connections(bench: Bench, zk_connect: str, counts: Sequence[int], messages: int) -> Iterator[dict[str, Any]]:
    """One producer beside others that are connected and send nothing."""
    with own_broker(bench.data, zk_connect=zk_connect, properties=_SETTINGS) as system, ExitStack() as idle:
        opened = 0
        for count in counts:
            bench.say(f"{count} idle connections")
            for _ in range(count - opened):
                idle.enter_context(socket.create_connection((system.host, system.port), _TIMEOUT_S))
            opened = count
            run = produce(KIND, system, "sync", messages, batch=BATCH)
            assert run.server is not None
            yield _costs(count, run.messages, [{"wall_s": run.wall_s, "cpu_s": run.cpu_s}], run.server)


def _brokers(bench: Bench, zk_connect: str, count: int, messages: int) -> dict[str, Any]:
    """Have each broker of one cluster take messages of a producer of its own, all at once."""
    bench.say(f"{count} brokers")
    each_sends = messages // count // BATCH * BATCH
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-growth-", dir=bench.data))
        cluster = stack.enter_context(
            LocalCluster(count, zk_connect=zk_connect, directory=directory, properties=_SETTINGS)
        )
        systems = [KafkaBroker(OWN, broker.host, broker.port, broker=broker) for broker in cluster.brokers.values()]
        jobs = [
            {"host": system.host, "port": system.port, "topic": new_topic(), "partitions": 1}
            | {"batches": each_sends // BATCH}
            for system in systems
        ]
        clients = [stack.enter_context(Worker("paper_benchmarks.drivers.spread", job)) for job in jobs]
        touch_memory(count * each_sends * PAYLOAD_BYTES)
        pids = [pid for system in systems for pid in system.pids()]
        before = usage_of(pids)
        for client in clients:
            client.go()
        results = [client.result() for client in clients]
        used = usage_of(pids).since(before)
        for system, job in zip(systems, jobs, strict=True):
            topic = str(job["topic"])
            await_landed(topic, each_sends + 1, partial(system.count, topic), _TIMEOUT_S)
    return _costs(count, count * each_sends, results, used)


def _behind(bench: Bench, zk_connect: str, messages: int, seconds: float) -> Iterator[dict[str, Any]]:
    """Latency of a stream at the tail, alone and while another reader has the same broker send its oldest bytes."""
    with own_broker(bench.data, zk_connect=zk_connect, properties=_QUICK_FLUSH) as system:
        old = produce(KIND, system, "sync", messages, batch=BATCH).topic
        for beside in ("nobody", "a reader far behind"):
            bench.say(f"at the tail beside {beside}")
            with ExitStack() as stack:
                if beside != "nobody":
                    job = {**system.server(), "request": multifetch_request(old).hex(), "count": _UNTIL_KILLED}
                    stack.enter_context(Worker("paper_benchmarks.drivers.discard", job)).go()
                yield {"beside": beside, **deliver(system, _TAIL_RATE, seconds, _BACKOFF_MS)}


# The report ----------------------------------------------------------------------------------------------------------

HOW_TO_READ = """\
How to read it: processor time for a message should hardly grow from the first line of a table to the last. Rates of
several brokers on one machine share its cores, so that only their processor time says what more machines would give.
The reader far behind has the broker send old bytes as fast as it can and throws them away, the worst of neighbours."""
COLUMNS = ("messages/s", "client, CPU us", "broker, CPU us", "broker, memory in MB")
_KINDS = {"partitions": "partitions of one broker", "connections": "idle connections", "brokers": "brokers"}


def growth(body: Mapping[str, Any], kind: str) -> float:
    """Return the broker's processor time for a message with the most of a kind, as a multiple of the least's."""
    lines = sorted(body[kind], key=lambda line: line["count"])
    return float(lines[-1]["broker_cpu_us"] / lines[0]["broker_cpu_us"])


def tail_ms(body: Mapping[str, Any], share: float) -> tuple[float, float]:
    """Return the latency at the tail that this share of messages kept to: alone, and beside a reader far behind."""
    alone, beside = (dict(map(tuple, line["latencies_ms"]))[share] for line in body["behind"])
    return float(alone), float(beside)


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw the broker's costs by what grows, and put all into tables."""
    with plots(pictures / "growth.svg", len(_KINDS), width=9, height=3) as several:
        for axes, (kind, title) in zip(several, _KINDS.items(), strict=True):
            names = [f"{line['count']:,}" for line in body[kind]]
            bars = axes.bar(names, [line["broker_cpu_us"] for line in body[kind]], color=colour(OWN))
            axes.bar_label(bars, fmt="%.2g")
            axes.set_xlabel(title)
            axes.margins(y=0.12)
            axes.grid(visible=False, axis="x")
        several[0].set_ylabel("broker, CPU us a message")
    parts = [HOW_TO_READ, image(pictures / "growth.svg", "Growth")]
    for kind, title in _KINDS.items():
        rows = [
            (
                f"{line['count']:,}",
                *(significant(line[name]) for name in ("rate", "client_cpu_us", "broker_cpu_us", "broker_memory_mb")),
            )
            for line in body[kind]
        ]
        parts.append(table((title, *COLUMNS), rows))
    shares = (0.5, 0.99, 0.999)
    latencies = [
        (
            line["beside"],
            *(significant(tail_ms(body, share)[number]) for share in shares),
            f"{line['broker_cores']:.2f}",
        )
        for number, line in enumerate(body["behind"])
    ]
    parts.append(
        table((f"at the tail, {_TAIL_RATE:,}/s, beside", "p50, ms", "p99", "p999", "broker, cores"), latencies)
    )
    return "\n\n".join(parts)


GROWTH = Experiment("growth", "Growth: partitions, connections, brokers, a reader far behind", measure, chapter)
