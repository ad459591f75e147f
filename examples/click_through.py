"""Publishes how many searches of the last 1 and 5 minutes led to a click, while they happen, until Ctrl-C.

    kafka2011 cluster
    kafka2011 generate --start now --zookeeper localhost:2181
    python examples/click_through.py CHECKPOINT [ZOOKEEPER]
    kafka2011 consume --topic search_click_through --decode --zookeeper localhost:2181

The stream joins two topics: searches, and clicks that name one. Each search is counted in windows that overlap. Every
ten seconds, by the time of events, the result is published as one event, once neither late events nor late clicks can
change it any more. With the same CHECKPOINT it continues, and a result that comes twice has the same id.
"""

from __future__ import annotations

import os
import socket
import sys
import time
import uuid
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from kafka2011 import connect
from kafka2011.events import EventEncoder, KnownSchemas, SchemaRegistry, event_schema
from kafka2011.reports import decoded
from kafka2011.spark import register

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

READS, TOPIC = ("searches", "clicks"), "search_click_through"
EVERY_S = 10
CLICK_WITHIN_S = 60
LATE_S = 30
ID_NAMESPACE = uuid.UUID("5b1c6b0e-9d0f-5c57-8a43-5f0c3f6e2011")
SCHEMA = event_schema(
    "SearchClickThrough",
    {"name": "searches_1_min", "type": "long", "doc": "of the minute before `time`"},
    {"name": "clicked_1_min", "type": "long", "doc": "how many of these were clicked soon after"},
    {"name": "searches_5_min", "type": "long", "doc": "of the five minutes before `time`"},
    {"name": "clicked_5_min", "type": "long", "doc": "how many of these were clicked soon after"},
    doc="How many recent searches led to a click. For one `time` the id is always the same.",
)


def count(events: DataFrame) -> DataFrame:
    """Return how many searches there were, and how many were clicked, by the ends of windows."""
    watched = events.withWatermark("time", f"{LATE_S} seconds")
    searches = watched.where("topic = 'searches'").select("id", f.col("time").alias("searched"))
    clicks = watched.where("topic = 'clicks' and search_id is not null").select(
        "search_id", f.col("time").alias("clicked")
    )
    soon = f"search_id = id and clicked >= searched and clicked <= searched + interval {CLICK_WITHIN_S} seconds"
    # Each search by itself first: it may have several clicks, and come twice.
    each_search = (
        searches.join(clicks, f.expr(soon), "left_outer")
        .groupBy(f.window("searched", f"{EVERY_S} seconds"), "id")
        .agg(f.max(f.col("clicked").isNotNull().cast("long")).alias("clicked"))
    )
    sliding = f.window(f.window_time("window"), "5 minutes", f"{EVERY_S} seconds")
    is_of_minute = f.col("window.end") > f.col("sliding.end") - f.expr("interval 1 minute")
    return (
        each_search.select(sliding.alias("sliding"), "window", "clicked")
        .withColumn("of_minute", is_of_minute.cast("long"))
        .groupBy("sliding")
        .agg(
            f.sum("of_minute").alias("searches_1_min"),
            f.sum(f.col("of_minute") * f.col("clicked")).alias("clicked_1_min"),
            f.count("*").alias("searches_5_min"),
            f.sum("clicked").alias("clicked_5_min"),
        )
        .select(f.unix_micros("sliding.end").alias("time"), "*")
        .drop("sliding")
    )


def encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Encode rows as events."""
    encoder = EventEncoder(KnownSchemas({TOPIC: SCHEMA}))
    for batch in batches:
        values = [
            encoder.encode(
                TOPIC,
                {
                    **row,
                    "published_at": time.time_ns() // 1000,
                    "server": socket.gethostname(),
                    "id": str(uuid.uuid5(ID_NAMESPACE, f"{TOPIC} {row['time']}")),
                },
            )
            for row in batch.to_pylist()
        ]
        yield pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], ["value"])


def main(checkpoint: str, zookeeper: str = "localhost:2181") -> None:
    """Run the stream until Ctrl-C."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run this Python, not the first one on PATH
    spark = SparkSession.builder.appName("click-through").config("spark.sql.shuffle.partitions", 2).getOrCreate()
    register(spark)  # Spark finds an installed wheel by itself; a checkout it does not
    with connect(zookeeper) as client:
        registry = SchemaRegistry(client)
        registry.register(TOPIC, SCHEMA)
        schemas = registry.snapshot()
    source = {"zk.connect": zookeeper, "subscribe": ",".join(READS), "startingOffsets": "earliest"}
    messages = spark.readStream.format("kafka2011").options(**source).load()
    counted = count(decoded(messages, READS, schemas, ("id", "time", "search_id"), skip=True))
    query = (
        counted.mapInArrow(encode, "value binary")
        .writeStream.format("kafka2011")
        .options(**{"zk.connect": zookeeper, "topic": TOPIC, "checkpointLocation": checkpoint})
        .trigger(processingTime="5 seconds")
        .start()
    )
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
