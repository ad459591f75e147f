"""Click-through of searches over the last 1 and 5 minutes, while they happen: a stream over two topics.

Searches are joined with their clicks, and counted in windows that overlap. Every ten seconds, by the time of events,
the result is published as one event, once neither late events nor late clicks can change it any more. These are the
joins and windowed counts that the paper's section 6 wishes for.
"""

from __future__ import annotations

import socket
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sql
from pyspark.sql.types import BinaryType, StructField, StructType

from kafka2011.events.codec import EventEncoder
from kafka2011.events.schema_registry import SchemaRegistry
from kafka2011.events.schemas import KnownSchemas, event_schema
from kafka2011.reports.broker_events import decoded
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

TOPIC = "search_click_through"
"""Where results are published, unless another topic is named."""

EVERY_S = 10
"""How often a result is published, by the time of events."""

_MINUTE_S, _LONG_S = 60, 300


def _counts(minutes: int, span: str) -> tuple[dict[str, object], ...]:
    rate = {"name": f"click_through_{minutes}_min", "type": ["null", "double"], "default": None}
    return (
        {"name": f"searches_{minutes}_min", "type": "long", "doc": f"of the {span} before `time`"},
        {"name": f"clicked_{minutes}_min", "type": "long", "doc": "how many of these were clicked soon after"},
        {**rate, "doc": "clicked of searches; null without a search"},
    )


CLICK_THROUGH = event_schema(
    "SearchClickThrough",
    *_counts(1, "minute"),
    *_counts(5, "five minutes"),
    doc="How many recent searches led to a click. For one `time` the id is always the same.",
)

_ID_NAMESPACE = uuid.UUID("5b1c6b0e-9d0f-5c57-8a43-5f0c3f6e2011")
_READS = ("searches", "clicks")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClickThroughSettings:
    """How the stream counts. The first two delay each result: by their sum, after its window has ended."""

    click_within_s: int = 60
    """How long after a search a click counts."""
    late_s: int = 30
    """How late an event may come; a later one does not count."""
    trigger_s: float = 5.0
    """How often a micro-batch begins."""


def click_through(events: DataFrame, settings: ClickThroughSettings) -> DataFrame:
    """Return, of a stream of both topics, `end` of windows, and `searches_N_min` and `clicked_N_min` before it.

    It needs `topic`, `id`, `time` and `search_id`. There is no row for five minutes without a search. Repeats count
    once.
    """
    watched = events.withWatermark("time", f"{settings.late_s} seconds")
    searches = watched.where("topic = 'searches'").select("id", sql.col("time").alias("searched"))
    clicks = watched.where("topic = 'clicks' and search_id is not null").select(
        "search_id", sql.col("time").alias("clicked")
    )
    soon = sql.expr(
        "search_id = id and clicked >= searched"
        f" and clicked <= searched + interval {int(settings.click_within_s)} seconds"
    )
    # Each search by itself first: it may have several clicks, and come twice.
    pane = sql.window("searched", f"{EVERY_S} seconds")
    each = (
        searches.join(clicks, soon, "left_outer")
        .groupBy(pane, "id")
        .agg(sql.max(sql.col("clicked").isNotNull().cast("long")).alias("clicked"))
    )
    sliding = sql.window(sql.window_time("window"), f"{_LONG_S} seconds", f"{EVERY_S} seconds")
    is_of_minute = sql.col("window.end") > sql.col("sliding.end") - sql.expr(f"interval {_MINUTE_S} seconds")
    return (
        each.select(sliding.alias("sliding"), "window", "clicked")
        .withColumn("of_minute", is_of_minute.cast("long"))
        .groupBy("sliding")
        .agg(
            sql.sum("of_minute").alias("searches_1_min"),
            sql.sum(sql.col("of_minute") * sql.col("clicked")).alias("clicked_1_min"),
            sql.count("*").alias("searches_5_min"),
            sql.sum("clicked").alias("clicked_5_min"),
        )
        .select(
            sql.col("sliding.end").alias("end"), "searches_1_min", "clicked_1_min", "searches_5_min", "clicked_5_min"
        )
    )


def encoded(windows: DataFrame, topic: str) -> DataFrame:
    """Return the rows of `click_through` as events, in a column `value`."""

    def encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        encoder = EventEncoder(KnownSchemas({topic: CLICK_THROUGH}))
        server = socket.gethostname()
        for batch in batches:
            now_us = time.time_ns() // 1000
            ends_us = batch.column("end").cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
            values = []
            for end_us, row in zip(ends_us.to_pylist(), batch.drop_columns("end").to_pylist(), strict=True):
                event_id = uuid.uuid5(_ID_NAMESPACE, f"{topic} {end_us}")
                header = {"time": end_us, "published_at": now_us, "server": server, "id": str(event_id)}
                values.append(encoder.encode(topic, {**header, **row, **_rates(row)}))
            yield pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], ["value"])

    return windows.mapInArrow(encode, StructType([StructField("value", BinaryType())]))


def _rates(row: Mapping[str, int]) -> dict[str, float | None]:
    return {
        f"click_through_{minutes}_min": row[f"clicked_{minutes}_min"] / row[f"searches_{minutes}_min"]
        if row[f"searches_{minutes}_min"]
        else None
        for minutes in (1, 5)
    }


def start_click_through(
    spark: SparkSession,
    zk_connect: str,
    checkpoint: str | Path,
    *,
    topic: str = TOPIC,
    settings: ClickThroughSettings | None = None,
    starting_offsets: str = "latest",
) -> StreamingQuery:
    """Start the stream, after registering the schema of its results; it goes on from its checkpoint.

    Results arrive at least once: a repeated one has the same id. Raises KafkaError without ZooKeeper or schemas.
    """
    settings = settings or ClickThroughSettings()
    with connect(zk_connect) as client:
        registry = SchemaRegistry(client)
        registry.register(topic, CLICK_THROUGH)
        schemas = registry.snapshot()
    source = {"zk.connect": zk_connect, "subscribe": ",".join(_READS), "startingOffsets": starting_offsets}
    rows = spark.readStream.format("kafka2011").options(**source).load()
    events = decoded(rows, _READS, schemas, ("id", "time", "search_id"), skip=True)
    return (
        encoded(click_through(events, settings), topic)
        .writeStream.format("kafka2011")
        .option("zk.connect", zk_connect)
        .option("topic", topic)
        .option("checkpointLocation", str(checkpoint))
        .outputMode("append")
        .queryName("search_click_through")
        .trigger(processingTime=f"{settings.trigger_s} seconds")
        .start()
    )
