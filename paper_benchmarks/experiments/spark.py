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
from kafka2011.local import LocalCluster
from kafka2011.warehouse.sessions import LIGHT, open_spark
from paper_benchmarks.errors import BenchmarkError
from paper_benchmarks.experiment import Experiment, Size
from paper_benchmarks.markdown import significant, table
from paper_benchmarks.measure import new_topic
from paper_benchmarks.payloads import PAYLOAD_BYTES, batches
from paper_benchmarks.pictures import bars, colour, image, picture
from paper_benchmarks.rounds import ROUNDS
from paper_benchmarks.rows_from_memory import FORMAT, RowsFromMemory
from paper_benchmarks.samples import Spread
from paper_benchmarks.systems.kafka import OWN, QUICK_COUNT
from paper_benchmarks.systems.usage import tree_cpu_s
from paper_benchmarks.worker import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from paper_benchmarks.experiment import Bench

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
    messages = bench.messages(toy=10_000, small=1_000_000, paper=5_000_000)
    samples: list[dict[str, Any]] = []
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
        for number in range(ROUNDS[bench.size] + 1):
            for line, frame in frames.items():
                bench.say(f"round {number}: {line}")
                began_s, cpu_began_s = time.perf_counter(), tree_cpu_s()
                _read(frame(), messages)
                sample = {"wall_s": time.perf_counter() - began_s, "cpu_s": tree_cpu_s() - cpu_began_s}
                if number:
                    samples.append({"round": number, "line": line, **sample})
        cached.unpersist()
    return {"messages": messages, "partitions": PARTITIONS, "samples": samples}


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


def ratio(body: Mapping[str, Any], of: str, over: str) -> Spread:
    """Return how many times as fast one line is as another in the same round."""
    walls = {(each["round"], each["line"]): each["wall_s"] for each in body["samples"]}
    found = Spread.of([walls[number, over] / wall_s for (number, line), wall_s in walls.items() if line == of])
    assert found is not None
    return found


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Put rates and ratios into a table, and draw them."""
    messages = body["messages"]
    rows, drawn = [], {}
    for line in (SOURCE, MEMORY, CACHE):
        samples = [each for each in body["samples"] if each["line"] == line]
        rates = [messages / each["wall_s"] for each in samples]
        against = ratio(body, SOURCE, line)
        drawn[line] = statistics.median(rates)
        rows.append(
            (
                line,
                *map(significant, (min(rates), drawn[line], max(rates))),
                significant(min(each["cpu_s"] for each in samples) / messages * 1e6),
                None if line == SOURCE else f"{against.lowest:.2f}, {against.median:.2f}, {against.highest:.2f}",
            )
        )
    with picture(pictures / PICTURE, width=8, height=1.8) as axes:
        bars(axes, drawn, [colour(OWN), "#999999", "#cccccc"], "rows/s, median")
    columns = (
        "rows from",
        "rows/s, lowest",
        "median",
        "highest",
        "CPU us a row",
        "our source over it: low, median, high",
    )
    reached = ratio(body, SOURCE, MEMORY).median
    verdict = (
        f"Our source reaches {reached:.2f} of what a source written in Python can have"
        f" (at least {AT_LEAST}, aim {AIM})."
    )
    return "\n\n".join([TEXT, image(pictures / PICTURE, "Rows a second"), table(columns, rows), verdict])


EXPERIMENT = Experiment("spark", "Spark's source", measure, chapter)
