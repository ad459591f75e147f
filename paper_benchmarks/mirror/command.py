"""`python -m paper_benchmarks mirror`."""

from __future__ import annotations

import datetime
import secrets
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple

import click

from kafka2011 import Codec, MessageSet, SimpleConsumer, SyncProducer
from kafka2011.cli.output import show_table
from paper_benchmarks import results_file
from paper_benchmarks.accounting import await_end
from paper_benchmarks.clients.lines import COMPILED
from paper_benchmarks.machine import Neighbours, describe
from paper_benchmarks.payloads import BATCH, PAYLOAD_BYTES
from paper_benchmarks.samples import Sample, Spread
from paper_benchmarks.systems.kafka import KafkaBroker, own_broker
from paper_benchmarks.systems.places import in_memory
from paper_benchmarks.worker import Worker
from zk.local import LocalZooKeeper

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


LINES = {
    "batches": "a consumer, stream.batches()",
    "sets": "a consumer, stream.sets()",
    "mirror": "a mirror into another cluster",
}
COLUMNS = ("line", "CPU_us", "median", "broker_us", "k/s", "highest", "MB/s", "highest", "x_batches")
CODECS = {"plain": Codec.NONE, "gzip": Codec.GZIP}
_WORK = "paper_benchmarks.mirror.work"
_DIFFERENT_SETS = 100
_SPARE_ROOM = 8  # a round writes the plain topic four times: filled, and mirrored twice, and the same again as gzip


class Filled(NamedTuple):
    """A topic to read: where it ends."""

    name: str
    end_offset: int


@click.command("mirror")
@click.option("--rounds", "round_count", default=3, show_default=True, type=click.IntRange(1), help="So many rounds.")
@click.option("--messages", default=1_000_000, show_default=True, type=click.IntRange(BATCH), help="In each topic.")
def command(round_count: int, messages: int) -> None:
    """Measure a mirror between two of our brokers beside a plain consumer, in the same rounds.

    Messages of 200 bytes in sets of 50, uncompressed and gzip; one partition, one stream. docs/benchmarks.md explains
    the lines.
    """
    messages -= messages % BATCH
    log_base = in_memory(_SPARE_ROOM * messages * PAYLOAD_BYTES)
    started = datetime.datetime.now(datetime.UTC)
    neighbours = Neighbours()
    samples: list[Sample] = []
    sizes: dict[str, int] = {}
    with LocalZooKeeper() as zookeeper:
        for number in range(1, round_count + 1):
            click.echo(f"round {number} of {round_count}", err=True)
            samples += _round(number, f"{zookeeper.connect_string}/round-{number}", log_base, messages, sizes)
    facts = neighbours.facts()
    output = results_file.DIRECTORY / "mirror.json"
    results_file.write(
        output,
        {
            "benchmark": "mirror",
            "started": started.isoformat(timespec="seconds"),
            "machine": describe(log_base),
            "run": {"rounds": round_count, "messages": messages, "bytes": sizes, **facts},
            "samples": [asdict(sample) for sample in samples],
        },
    )
    _show(samples, sizes)
    click.echo(f"\nothers kept {facts['cores_used_by_others']} cores busy; samples: {output}")


def _round(number: int, chroot: str, log_base: Path, messages: int, sizes: dict[str, int]) -> Iterator[Sample]:
    for name, codec in CODECS.items():
        with ExitStack() as stack:
            source, target = (
                stack.enter_context(own_broker(log_base, zk_connect=f"{chroot}/{name}-{role}"))
                for role in ("source", "target")
            )
            topic = _fill(source, messages, codec)
            sizes[name] = topic.end_offset
            for line in LINES:
                yield _measure(number, name, line, messages, topic, source, target)


def _measure(
    number: int, name: str, line: str, messages: int, topic: Filled, source: KafkaBroker, target: KafkaBroker
) -> Sample:
    job = {
        "line": line,
        "topic": topic.name,
        "end_offset": topic.end_offset,
        "source": source.zk_connect,
        "target": target.zk_connect,
    }
    broker = target if line == "mirror" else source
    with Worker(_WORK, job) as worker:
        before_s = broker.cpu_s()
        worker.go()
        result = worker.result()
        after_s = broker.cpu_s()
    if line == "mirror":
        with SimpleConsumer(target.host, target.port) as consumer:
            await_end(consumer, topic.name, 2 * topic.end_offset)  # every byte, twice, and no more
    return Sample(
        round=number,
        system=name,
        code=COMPILED,
        line=line,
        messages=messages,
        cpu_s=result["cpu_s"],
        wall_s=result["wall_s"],
        broker_cpu_s=None if before_s is None or after_s is None else after_s - before_s,
    )


def _fill(system: KafkaBroker, messages: int, codec: Codec) -> Filled:
    """Write a topic of texts that gzip makes about half as large."""
    name = secrets.token_hex(4)
    sets = [
        MessageSet([secrets.token_hex(PAYLOAD_BYTES // 2).encode() for _ in range(BATCH)], codec)
        for _ in range(min(messages // BATCH, _DIFFERENT_SETS))
    ]
    with SyncProducer(system.host, system.port) as producer:
        for index in range(messages // BATCH):
            producer.send(name, sets[index % len(sets)], 0)
    written_bytes = sum(len(bytes(sets[index % len(sets)])) for index in range(messages // BATCH))
    with SimpleConsumer(system.host, system.port) as consumer:
        await_end(consumer, name, written_bytes)
    return Filled(name, written_bytes)


def _show(samples: list[Sample], sizes: dict[str, int]) -> None:
    for name, size_bytes in sizes.items():
        click.echo(f"\n{name}")
        show_table(COLUMNS, rows([each for each in samples if each.system == name], size_bytes), as_json=False)


def rows(samples: list[Sample], size_bytes: int) -> list[tuple[str, ...]]:
    """Return a row for each line: CPU time, rates in messages and in MB of the log, and as a part of `batches`'."""
    by_line = {line: [each for each in samples if each.line == line] for line in LINES}
    found: list[tuple[str, ...]] = []
    for line, title in LINES.items():
        measured = by_line[line]
        cpu_us = Spread.of(each.cpu_us_per_message for each in measured)
        broker_cpu_us = Spread.of(each.broker_cpu_us_per_message for each in measured)
        rate = Spread.of(each.messages_per_s for each in measured)
        pairs = zip(measured, by_line["batches"], strict=True)
        ratio = Spread.of(each.messages_per_s / plain.messages_per_s for each, plain in pairs)
        assert cpu_us is not None
        assert rate is not None
        assert ratio is not None
        mb = size_bytes / measured[0].messages / 1e6
        found.append(
            (
                title,
                f"{cpu_us.lowest:.2f}",
                f"{cpu_us.median:.2f}",
                "-" if broker_cpu_us is None else f"{broker_cpu_us.lowest:.2f}",
                f"{rate.median / 1000:.0f}",
                f"{rate.highest / 1000:.0f}",
                f"{rate.median * mb:.0f}",
                f"{rate.highest * mb:.0f}",
                f"{ratio.median:.2f}",
            )
        )
    return found
