"""`python -m paper_benchmarks load`: what a load into Parquet costs, beside writing the same rows from memory."""

from __future__ import annotations

import datetime
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark import StorageLevel

from kafka2011.cli.output import show_table
from kafka2011.local import LocalCluster
from kafka2011.pipeline.event_types import EVENT_TYPES, PAGE_VIEW
from kafka2011.pipeline.events import EventEncoder
from kafka2011.pipeline.registry import SchemaRegistry
from kafka2011.pipeline.schemas import KnownSchemas
from kafka2011.producer.producer import Producer
from kafka2011.warehouse.formats import Format, open_quarantine, open_topic_table
from kafka2011.warehouse.sessions import open_spark
from kafka2011.warehouse.settings import LoadSettings
from kafka2011.warehouse.topic_load import Step, TopicLoad
from paper_benchmarks import results_file
from paper_benchmarks.events import page_views
from paper_benchmarks.machine import Neighbours, describe
from paper_benchmarks.systems.usage import tree_cpu_s
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_TOPIC = "page_views"
_DIFFERENT = 20_000
"""So many events are made; they are published again and again."""
_WARM_UP = 20_000
_SET = 200
_MB = 1_000_000


@dataclass(frozen=True, slots=True)
class _Line:
    """One line of the table: `log_bytes` is how much of the logs, or of rows in memory, went through."""

    line: str
    rows: int
    log_bytes: int
    wall_s: float
    cpu_s: float


@click.command("load")
@click.option("--rounds", "round_count", default=3, show_default=True, type=click.IntRange(1), help="So many loads.")
@click.option("--events", "count", default=500_000, show_default=True, type=click.IntRange(1), help="Events a load.")
@click.option("--codec", default=0, show_default=True, type=click.IntRange(0, 2), help="0 none, 1 GZIP, 2 Snappy.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=results_file.DIRECTORY / "load.json",
    help="Where samples go. Default: paper_benchmarks/results/load.json.",
)
def command(round_count: int, count: int, codec: int, output: Path) -> None:
    """Measure a load into a Parquet table on local[2], from two brokers of two partitions each.

    Beside it, the same rows are written from memory: by Spark from a cached DataFrame, and by PyArrow on one core.
    """
    started = datetime.datetime.now(datetime.UTC)
    neighbours = Neighbours()
    lines: list[_Line] = []
    directory = Path(tempfile.mkdtemp(prefix="kafka2011-load-"))
    spark = open_spark("local[2]", {"spark.driver.memory": "4g"})
    try:
        with LocalCluster(2, properties={"num.partitions": 2, "log.flush.interval": 1}) as cluster:
            with connect(cluster.zk_connect) as client:
                SchemaRegistry(client).register(_TOPIC, PAGE_VIEW)
            payloads = EventEncoder(KnownSchemas(EVENT_TYPES)).encode_all(_TOPIC, page_views(_DIFFERENT))
            warehouse = directory / "warehouse"
            _publish(cluster, payloads, _WARM_UP, codec)
            _load(spark, cluster, warehouse)
            for _ in range(round_count):
                _publish(cluster, payloads, count, codec)
                found = _load(spark, cluster, warehouse)
                lines += found
            lines += _from_memory(spark, warehouse / _TOPIC, directory, found[-1], round_count)
    finally:
        spark.stop()
        shutil.rmtree(directory, ignore_errors=True)
    facts = neighbours.facts()
    results_file.write(
        output,
        {
            "benchmark": "load",
            "started": started.isoformat(timespec="seconds"),
            "machine": describe(Path("/tmp")),  # noqa: S108  # where the warehouse was
            "run": {"rounds": round_count, "events": count, "codec": codec, **facts},
            "samples": [asdict(each) for each in lines],
        },
    )
    columns = ("line", "rows", "s lowest", "rows/s", "MB/s of the log", "cpu us/row lowest")
    show_table(columns, _table(lines), as_json=False)
    click.echo(f"\nmeanwhile others kept {facts['cores_used_by_others']} cores busy; samples: {output}")


def _table(lines: list[_Line]) -> list[tuple[object, ...]]:
    best: dict[str, _Line] = {}
    for each in lines:
        if each.line not in best or each.wall_s < best[each.line].wall_s:
            best[each.line] = each
    return [
        (
            each.line,
            each.rows,
            f"{each.wall_s:.2f}",
            round(each.rows / each.wall_s),
            f"{each.log_bytes / each.wall_s / _MB:.1f}",
            f"{min(other.cpu_s for other in lines if other.line == each.line) / each.rows * 1e6:.1f}",
        )
        for each in best.values()
    ]


def _publish(cluster: LocalCluster, payloads: list[bytes], count: int, codec: int) -> None:
    settings = {"zk.connect": cluster.zk_connect, "producer.type": "async", "confirm": True, "compression.codec": codec}
    with Producer(settings) as producer:
        for start in range(0, count, _SET):
            at = start % len(payloads)
            producer.send(_TOPIC, payloads[at : at + min(_SET, count - start)])
        producer.flush()


def _load(spark: SparkSession, cluster: LocalCluster, warehouse: Path) -> list[_Line]:
    at: dict[Step, tuple[float, float]] = {}
    load = TopicLoad(
        spark,
        open_topic_table(Format.PARQUET, str(warehouse), _TOPIC),
        open_quarantine(str(warehouse), _TOPIC),
        LoadSettings(zk_connect=cluster.zk_connect),
        on_step=lambda step: at.setdefault(step, (time.perf_counter(), tree_cpu_s())),  # type: ignore[arg-type]
    )
    began_s, cpu_began_s = time.perf_counter(), tree_cpu_s()
    done = load.load()
    wall_s, cpu_s = time.perf_counter() - began_s, tree_cpu_s() - cpu_began_s
    writing_s, writing_cpu_s = (
        after - before for after, before in zip(at[Step.WRITTEN], at[Step.RESOLVED], strict=True)
    )
    return [
        _Line("load", done.rows, done.log_bytes, wall_s, cpu_s),
        _Line("of it read, decode, write", done.rows, done.log_bytes, writing_s, writing_cpu_s),
    ]


def _from_memory(spark: SparkSession, table: Path, directory: Path, like: _Line, round_count: int) -> list[_Line]:
    """Write the rows of the last load from memory."""
    newest = max(each for each in table.iterdir() if each.name.startswith("load_id="))
    frame = spark.read.parquet(str(newest)).drop("date").persist(StorageLevel.MEMORY_ONLY)
    frame.count()
    rows = ds.dataset(newest, format="parquet").to_table().combine_chunks()

    def by_spark(target: Path) -> None:
        frame.write.option("compression", "zstd").parquet(str(target))

    def by_pyarrow(target: Path) -> None:
        pq.write_table(rows, target, compression="zstd")

    lines = []
    writers: dict[str, Callable[[Path], None]] = {"spark from memory": by_spark, "pyarrow from memory": by_pyarrow}
    for number in range(round_count):
        for name, write in writers.items():
            began_s, cpu_began_s = time.perf_counter(), tree_cpu_s()
            write(directory / f"{name}-{number}")
            wall_s, cpu_s = time.perf_counter() - began_s, tree_cpu_s() - cpu_began_s
            lines.append(_Line(name, like.rows, like.log_bytes, wall_s, cpu_s))
    frame.unpersist()
    return lines
