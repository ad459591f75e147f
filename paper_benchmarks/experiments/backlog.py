"""However much has accumulated: a topic of 20 GB beside one of 20 MB, and a reader far behind beside one at the end."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from paper_benchmarks.clients.job import Job
from paper_benchmarks.clients.measure import Run, consume, produce
from paper_benchmarks.experiments.experiment import Experiment
from paper_benchmarks.experiments.latency import deliver, percentile_ms
from paper_benchmarks.measuring.cgroup import NoLimitError, memory_limit
from paper_benchmarks.measuring.payloads import BATCH, STORED_BYTES
from paper_benchmarks.measuring.samples import Spread, ratio
from paper_benchmarks.measuring.worker import Worker
from paper_benchmarks.pages.tables import brackets, significant, spread_of, table, text
from paper_benchmarks.systems.kafka2011 import ASYNCHRONOUS, KIND, own_broker

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.systems.kafka2011 import KafkaBroker

SMALL, LARGE = "20 MB", "the large topic"
ALONE, BESIDE = "alone", "beside a reader far behind"
_SMALL_BYTES = 20_000_000
_ROOM_BYTES = 3_000_000_000
_FILL_BATCH = 500
_READ_AGAIN = 1000
"""So often the reader far behind would go through the topic: it is ended before."""
_TAIL = {
    "log.flush.interval": 2**31 - 1,
    "log.default.flush.interval.ms": 10,
    "log.default.flush.scheduler.interval.ms": 10,
}
_TAIL_RATE = 1000
_BACKOFF_MS = 10


def measure(bench: Bench) -> dict[str, Any]:
    """Measure both, each against a broker of its own; what the disk has no room for is left out."""
    wanted = bench.sized(toy=2_000_000, small=2_000_000_000, paper=20_000_000_000)
    large_bytes = min(wanted, max(shutil.disk_usage(bench.data).free - _ROOM_BYTES, _SMALL_BYTES))
    return {"large_bytes": large_bytes, "sizes": _sizes(bench, large_bytes), "behind": _behind(bench, large_bytes)}


def _fill(bench: Bench, broker: KafkaBroker, size_bytes: int) -> tuple[str, int]:
    messages = max(size_bytes // STORED_BYTES // _FILL_BATCH, 1) * _FILL_BATCH
    bench.say(f"fill a topic with {messages:,} messages")
    sent = produce(KIND, broker, "raw", messages, batch=_FILL_BATCH)
    return sent.topic, sent.landed


# 20 GB beside 20 MB --------------------------------------------------------------------------------------------------


def _sizes(bench: Bench, large_bytes: int) -> dict[str, Any]:
    """Append to both topics and read the oldest messages of both, in turn."""
    messages = bench.sized(toy=1000, small=200_000, paper=500_000)
    small_bytes = min(_SMALL_BYTES, large_bytes)
    with own_broker(bench.data, properties=ASYNCHRONOUS) as broker:
        topics = {LARGE: _fill(bench, broker, large_bytes)}

        def once(size: str) -> dict[str, float]:
            topic, present = _fill(bench, broker, small_bytes) if size == SMALL else topics[LARGE]
            sent = produce(KIND, broker, "sync", messages, batch=BATCH, topic=topic, present=present)
            topics[size] = topic, sent.landed
            oldest = min(messages, small_bytes // STORED_BYTES)
            read = consume(KIND, broker, "batches", topic, oldest, part=True)
            return {"produce": _cpu_us(sent), "produced/s": sent.rate, "consume": _cpu_us(read), "read/s": read.rate}

        found = bench.in_turn((SMALL, LARGE), once, name="sizes")
    return {size: {key: [each[key] for each in several] for key in several[0]} for size, several in found.items()}


def _cpu_us(run: Run) -> float:
    """Return what a message cost client and broker together."""
    return run.client_cpu_us + (run.server_cpu_us or 0.0)


def against_small(body: Mapping[str, Any], do: str) -> Spread:
    """Return the CPU time of a message in the large topic as a multiple of that in the small one."""
    return ratio(body["sizes"][LARGE][do], body["sizes"][SMALL][do])


# A reader far behind -------------------------------------------------------------------------------------------------


def _behind(bench: Bench, large_bytes: int) -> dict[str, Any]:
    """Measure the delay of new messages without and with a reader of old ones, which memory has no room for."""
    limit_bytes = bench.sized(toy=256, small=512, paper=1024) * 2**20
    seconds = bench.sized(toy=0.2, small=4.0, paper=20.0)
    with own_broker(bench.data, properties=_TAIL) as broker:
        try:
            with memory_limit(broker.pids(), limit_bytes):
                topic, messages = _fill(bench, broker, large_bytes)

                def once(line: str) -> dict[str, Any]:
                    if line == ALONE:
                        return deliver(broker, _TAIL_RATE, seconds, _BACKOFF_MS)
                    return _beside(broker, topic, messages, seconds)

                found = bench.in_turn((ALONE, BESIDE), once, name="behind")
                assert broker.broker is not None
                broker.broker.stop()
        except NoLimitError as error:
            return {"missing": str(error)}
    return {
        "limit_bytes": limit_bytes,
        "lines": {
            line: {
                "p50_ms": [percentile_ms(each, 0.5) for each in several],
                "p99_ms": [percentile_ms(each, 0.99) for each in several],
                "from_disk_mb_s": [each.get("from_disk_mb_s", 0.0) for each in several],
            }
            for line, several in found.items()
        },
    }


def _beside(broker: KafkaBroker, topic: str, messages: int, seconds: float) -> dict[str, Any]:
    """Have a reader go through the old messages again and again meanwhile."""
    job = Job(
        do="consume",
        client="raw",
        topic=topic,
        messages=messages * _READ_AGAIN,
        every=messages,
        present=messages,
        server=broker.server(),
    )
    with Worker(KIND.driver, job.facts()) as reader:
        before = broker.usage()
        reader.go()
        delivered = deliver(broker, _TAIL_RATE, seconds, _BACKOFF_MS)
        after = broker.usage()
    assert before is not None
    assert after is not None
    return {**delivered, "from_disk_mb_s": after.since(before).read_bytes / 1e6 / delivered["elapsed_s"]}


# The report ----------------------------------------------------------------------------------------------------------

SIZES = """\
As many messages are appended (batch 50) to a topic of {large} GB and to one of 20 MB, and as many of the oldest are
read of each, in turn. CPU time is that of client and broker together, for a message; the ratio is of the same
rounds."""
BEHIND = """\
The broker's memory, the pages of its files included, is held to {limit:.0f} MB by a cgroup, so that most of a topic of
{large} GB is on the disk alone. {rate:,} messages a second go to another topic, flushed every 10 ms, and a reader at
its end takes them: alone, and beside one that reads the large topic from its beginning, again and again. Every line
is measured once a round."""


def chapter(body: Mapping[str, Any], _pictures: Path) -> str:
    """Put both into tables."""
    large = significant(body["large_bytes"] / 1e9)
    rows = [{"size": size, **found} for size, found in body["sizes"].items()]
    columns = [
        ("topic", text("size")),
        ("produce, CPU us", spread_of("produce")),
        ("messages/s", spread_of("produced/s", whole=True)),
        ("consume, CPU us", spread_of("consume")),
        ("messages/s", spread_of("read/s", whole=True)),
    ]
    ratios = (
        f"The large one costs {brackets(against_small(body, 'produce'))} times as much to append to, and"
        f" {brackets(against_small(body, 'consume'))} times as much to read."
    )
    parts = ["### By size", SIZES.format(large=large), table(rows, columns), ratios, "### A reader far behind"]
    behind = body["behind"]
    if "missing" in behind:
        return "\n\n".join([*parts, f"Left out: {behind['missing']}."])
    lines = [{"line": line, **found} for line, found in behind["lines"].items()]
    return "\n\n".join(
        [
            *parts,
            BEHIND.format(large=large, limit=behind["limit_bytes"] / 2**20, rate=_TAIL_RATE),
            table(
                lines,
                [
                    ("reader at the end", text("line")),
                    ("p50, ms", spread_of("p50_ms")),
                    ("p99, ms", spread_of("p99_ms")),
                    ("broker reads from the disk, MB/s", spread_of("from_disk_mb_s")),
                ],
            ),
            f"p99 is {brackets(tail(body))} times that of the reader alone.",
        ]
    )


def tail(body: Mapping[str, Any]) -> Spread:
    """Return the p99 beside a reader far behind as a multiple of that alone, in the same rounds."""
    lines = body["behind"]["lines"]
    return ratio(lines[BESIDE]["p99_ms"], lines[ALONE]["p99_ms"])


EXPERIMENT = Experiment(
    "backlog",
    "However much has accumulated",
    "whoever keeps weeks of messages: whether size costs anything, and what an old reader does to the others",
    measure,
    chapter,
)
