"""What a load costs, beside writing the same rows from memory."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import defaultdict
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import StorageLevel

from kafka2011.events.codec import EventEncoder
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schemas import KnownSchemas
from kafka2011.events.types import EVENT_TYPES, PAGE_VIEW
from kafka2011.local_cluster import LocalCluster
from kafka2011.producer.producer import Producer
from kafka2011.warehouse.loading.load_settings import LoadSettings
from kafka2011.warehouse.loading.running_spark import open_spark
from kafka2011.warehouse.loading.spark_engine import SparkEngine
from kafka2011.warehouse.loading.topic_load import Step, TopicLoad
from kafka2011.warehouse.table.quarantine import open_quarantine
from kafka2011.warehouse.table.reading import open_table
from kafka2011.warehouse.table.topic_table import TopicTable
from paper_benchmarks.experiments.experiment import Experiment
from paper_benchmarks.measuring.page_views import page_views
from paper_benchmarks.measuring.samples import Sample, figures
from paper_benchmarks.measuring.usage import tree_cpu_s
from paper_benchmarks.pages.tables import significant, spread_of, table, text
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from paper_benchmarks.experiments.experiment import Bench

_TOPIC = "page_views"
_DIFFERENT = 20_000
"""So many events are made; they are published again and again."""
_WARM_UP = 20_000
_SET = 200

TEXT = """\
Page views go from two brokers with two partitions each into a table, by Spark on `local[2]`, after a
load that warms it up. The first line is all of it: offsets, reading, decoding, writing, the coverage check and the
commit. Beside it the same rows are written from memory, by Spark from a cached DataFrame and by PyArrow on one core; a
load also reads, decodes and sorts them. Processor time is that of Spark, its workers and the brokers together."""


def measure(bench: Bench) -> dict[str, Any]:
    """Load again and again, and then write the same rows from memory."""
    events = bench.sized(toy=2000, small=500_000, paper=5_000_000)
    rounds = bench.sized(toy=1, small=3, paper=7)
    found: dict[str, list[Sample]] = defaultdict(list)
    spark = open_spark("local[2]", {"spark.driver.memory": "4g"}, name="benchmark")
    try:
        with (
            tempfile.TemporaryDirectory(prefix="bench-load-", dir=bench.data) as path,
            LocalCluster(2, properties={"num.partitions": 2, "log.flush.interval": 1}) as cluster,
        ):
            directory = Path(path)
            with connect(cluster.zk_connect) as client:
                SchemaRegistry(client).register(_TOPIC, PAGE_VIEW)
            payloads = EventEncoder(KnownSchemas(EVENT_TYPES)).encode_all(_TOPIC, page_views(_DIFFERENT))
            warehouse = directory / "warehouse"
            _publish(cluster, payloads, min(_WARM_UP, events))
            _load(spark, cluster, warehouse)
            for number in range(1, rounds + 1):
                bench.say(f"round {number} of {rounds}")
                _publish(cluster, payloads, events)
                log_bytes, both = _load(spark, cluster, warehouse)
                for line, sample in both.items():
                    found[line].append(sample)
            newest = max((warehouse / _TOPIC / "data").iterdir(), key=lambda each: each.stat().st_mtime)
            rows = open_table(warehouse, _TOPIC).to_table(filter=pc.field("kafka2011_load_id") == rounds + 1)
            found.update(_from_memory(bench, spark, newest, rows.combine_chunks(), directory))
    finally:
        spark.stop()
    lines = [{"line": line, **figures(samples)} for line, samples in found.items()]
    return {"events": events, "log_bytes": log_bytes, "lines": lines}


def _publish(cluster: LocalCluster, payloads: list[bytes], count: int) -> None:
    settings = {"zk.connect": cluster.zk_connect, "producer.type": "async", "confirm": True}
    with Producer(settings) as producer:
        for start in range(0, count, _SET):
            at = start % len(payloads)
            producer.send(_TOPIC, payloads[at : at + min(_SET, count - start)])
        producer.flush()


def _load(spark: SparkSession, cluster: LocalCluster, warehouse: Path) -> tuple[int, dict[str, Sample]]:
    """Load what is new; return how many bytes of the logs that was, and what it took."""
    at: dict[Step, tuple[float, float]] = {}
    load = TopicLoad(
        SparkEngine(spark.sparkContext),
        TopicTable(warehouse, _TOPIC),
        open_quarantine(str(warehouse), _TOPIC),
        LoadSettings(zk_connect=cluster.zk_connect),
        on_step=lambda step: at.setdefault(step, _now()),  # type: ignore[arg-type]
    )
    began = _now()
    done = load.load()
    samples = {
        "load": _sample(done.rows, began, _now()),
        "of it read, decode, write": _sample(done.rows, at[Step.RESOLVED], at[Step.WRITTEN]),
    }
    return done.log_bytes, samples


def _now() -> tuple[float, float]:
    return time.perf_counter(), tree_cpu_s()


def _sample(rows: int, began: tuple[float, float], ended: tuple[float, float]) -> Sample:
    return Sample(amount=rows, wall_s=ended[0] - began[0], cpu_s=ended[1] - began[1])


def _from_memory(
    bench: Bench, spark: SparkSession, newest: Path, rows: pa.Table, directory: Path
) -> dict[str, list[Sample]]:
    """Write the rows of the last load from memory."""
    frame = spark.read.parquet(str(newest)).drop("date").persist(StorageLevel.MEMORY_ONLY)
    frame.count()
    writers: dict[str, Callable[[str], object]] = {
        "spark from memory": lambda target: frame.write.option("compression", "zstd").parquet(target),
        "pyarrow from memory": lambda target: pq.write_table(rows, target, compression="zstd"),
    }
    numbers = count()

    def once(line: str) -> Sample:
        began = _now()
        writers[line](str(directory / f"rows-{next(numbers)}"))
        return _sample(rows.num_rows, began, _now())

    found = bench.in_turn(writers, once, bench.sized(toy=1, small=3, paper=7))
    frame.unpersist()
    return found


# The report ----------------------------------------------------------------------------------------------------------


def _mb_s(body: Mapping[str, Any], line: Mapping[str, Any]) -> float:
    return float(statistics.median(line["rate"]) * body["log_bytes"] / body["events"] / 1e6)


def chapter(body: Mapping[str, Any], _pictures: Path) -> str:
    """Put times, rates and costs into a table."""
    columns = [
        ("line", text("line")),
        ("s", lambda line: f"{body['events'] / statistics.median(line['rate']):.2f}"),
        ("rows/s", spread_of("rate", whole=True)),
        ("MB/s of the log", lambda line: significant(_mb_s(body, line))),
        ("CPU us a row", spread_of("client_cpu_us")),
    ]
    text_of_events = f"{body['events']:,} events a load."
    return "\n\n".join([TEXT, text_of_events, table(body["lines"], columns)])


EXPERIMENT = Experiment(
    "load",
    "What a load costs",
    "whoever loads topics into tables: how far that is from writing the same rows from memory",
    measure,
    chapter,
)
