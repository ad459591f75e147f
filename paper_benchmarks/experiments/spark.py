"""Our Spark source, beside the same rows from memory: from a Python source that makes none, and from Spark's cache."""

from __future__ import annotations

import os
import statistics
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import functions as f

from kafka2011 import SyncProducer
from kafka2011.local_cluster import LocalCluster
from kafka2011.warehouse.loading.running_spark import LIGHT, open_spark
from paper_benchmarks.clients.measure import new_topic
from paper_benchmarks.experiments.experiment import Experiment, Size
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import PAYLOAD_BYTES, batches
from paper_benchmarks.measuring.samples import Sample, Spread, figures, ratio
from paper_benchmarks.measuring.usage import tree_cpu_s
from paper_benchmarks.measuring.worker import ROOT
from paper_benchmarks.pages.pictures import bars, colour, image, picture
from paper_benchmarks.pages.tables import brackets, spread_of, table, text
from paper_benchmarks.systems.kafka2011 import OWN, QUICK_COUNT
from paper_benchmarks.workers.rows_from_memory import FORMAT, RowsFromMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from paper_benchmarks.experiments.experiment import Bench

PARTITIONS = 2
_BATCH = 200
SOURCE, MEMORY, CACHE = "our batch source", "Python, rows in memory", "Spark's cache"
AT_LEAST, AIM = 0.5, 0.8
PICTURE = "spark.svg"
_COLUMNS = ("value", "offset", "nextOffset")

TEXT = f"""\
Spark on local[2] counts messages of {PAYLOAD_BYTES} bytes and hashes every value, from a topic of {PARTITIONS}
partitions on one broker, so with {PARTITIONS} tasks. Beside it, in the same session and in turn: a Python data source
that yields one record batch of the same columns again and again, which is all that Spark lets a source written in
Python do; and the same rows from Spark's own cache, which never leave its JVM. The reads are of everything; each line
had a read before that does not count."""


def measure(bench: Bench) -> dict[str, Any]:
    """Read everything from each of the three, in turn."""
    messages = bench.sized(toy=10_000, small=1_000_000, paper=5_000_000)
    bench.say("a broker and Spark: start")
    with LocalCluster(1, properties={"num.partitions": PARTITIONS, **QUICK_COUNT}) as cluster, _session(bench) as spark:
        topic = new_topic()
        broker = cluster.brokers[0]
        with SyncProducer(broker.host, broker.port) as producer:
            for number, batch in enumerate(batches(messages, _BATCH)):
                producer.send(topic, batch, number % PARTITIONS)
        options = {"zk.connect": cluster.zk_connect, "subscribe": topic}

        def load() -> DataFrame:
            return spark.read.format("kafka2011").options(**options).load()

        # One column more: Spark would answer the plain reads from its cache, too.
        cached = load().withColumn("cached", f.lit(1)).persist(StorageLevel.MEMORY_ONLY)
        frames: dict[str, Callable[[], DataFrame]] = {
            SOURCE: load,
            MEMORY: lambda: (
                spark.read.format(FORMAT).options(rows=messages, tasks=PARTITIONS, bytes=PAYLOAD_BYTES).load()
            ),
            CACHE: lambda: cached,
        }

        def once(line: str) -> Sample:
            began_s, cpu_began_s = time.perf_counter(), tree_cpu_s()
            _read(frames[line](), messages)
            return Sample(amount=messages, wall_s=time.perf_counter() - began_s, cpu_s=tree_cpu_s() - cpu_began_s)

        bench.in_turn(frames, once, 1, "warm")  # which does not count
        found = bench.in_turn(frames, once)
        cached.unpersist()
    return {"messages": messages, "partitions": PARTITIONS, "lines": lines(found)}


def lines(found: Mapping[str, Sequence[Sample]]) -> list[dict[str, Any]]:
    """Return the figures of each line, and how many times as fast as it our source was in the same round."""
    rates = [each.rate for each in found[SOURCE]]
    return [
        {"line": line, **figures(samples), "times": ratio(rates, [each.rate for each in samples])}
        for line, samples in found.items()
    ]


@contextmanager
def _session(bench: Bench) -> Iterator[SparkSession]:
    """Give a session whose Python workers can import this package."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), before] if before else [str(ROOT)])
    try:
        light = LIGHT if bench.size is Size.TOY else None  # which starts soon, but never becomes fast
        spark = open_spark("local[2]", {"spark.driver.memory": "4g"}, local=light, name="benchmark")
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    try:
        spark.dataSource.register(RowsFromMemory)
        yield spark
    finally:
        spark.stop()


def _read(frame: DataFrame, messages: int) -> None:
    """Count, and touch every byte of every value."""
    [row] = frame.select(*_COLUMNS).agg(f.count("*"), f.bit_xor(f.xxhash64("value")), f.sum("offset")).collect()
    if row[0] != messages:
        raise BenchmarkError(f"{row[0]} rows were read: there are {messages}, so there is no figure")


# The report ----------------------------------------------------------------------------------------------------------


def _times(line: Mapping[str, Any]) -> str | None:
    return None if line["line"] == SOURCE else brackets(Spread(*line["times"]))


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Put rates and ratios into a table, and draw them."""
    found = {line["line"]: line for line in body["lines"]}
    with picture(pictures / PICTURE, width=8, height=1.8) as axes:
        medians = {name: statistics.median(line["rate"]) for name, line in found.items()}
        bars(axes, medians, [colour(OWN), "#999999", "#cccccc"], "rows/s, median")
    columns = [
        ("rows from", text("line")),
        ("rows/s", spread_of("rate", whole=True)),
        ("CPU us a row", spread_of("client_cpu_us")),
        ("our source over it", _times),
    ]
    verdict = (
        f"Our source reaches {found[MEMORY]['times'][1]:.2f} of what a source written in Python can have"
        f" (at least {AT_LEAST}, aim {AIM})."
    )
    return "\n\n".join([TEXT, image(pictures / PICTURE, "Rows a second"), table(body["lines"], columns), verdict])


EXPERIMENT = Experiment(
    "spark",
    "Spark's source",
    "whoever reads topics with Spark: how near our source is to the most that one in Python can have",
    measure,
    chapter,
)
