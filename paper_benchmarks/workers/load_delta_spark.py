"""Loads a topic of a Kafka of today by Spark's own source and Delta's jars, once it has loaded another one.

It is a stream that takes all there is and ends (`availableNow`): its checkpoint and the table together keep each
message one row. Runs in an environment of its own, `.venv/spark-delta`, which has few of this project's packages.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.avro.functions import from_avro

from paper_benchmarks.measuring.usage import tree_cpu_s
from paper_benchmarks.measuring.worker import work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame

    from paper_benchmarks.measuring.worker import Work

_MARKER_BYTES = 10
JARS = "jars"
"""Of the environment: where what Spark needs for Kafka, Avro and Delta lies."""


def _session(cores: int) -> SparkSession:
    jars = sorted(map(str, (Path(sys.prefix) / JARS).glob("*.jar")))
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.jars": ",".join(jars),
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    session = SparkSession.builder.master(f"local[{cores}]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _rows(stream: DataFrame, schema: str) -> DataFrame:
    where = (f.col("partition").alias("kafka_partition"), f.col("offset").alias("kafka_offset"))
    if not schema:
        rows = stream.select(f.col("value").cast("string").alias("line"), f.col("timestamp").alias("time"), *where)
    else:
        body = f.expr(f"substring(value, {_MARKER_BYTES + 1})")
        event = from_avro(body, schema, {"mode": "FAILFAST"}).alias("event")
        rows = stream.select(event, *where).select("event.*", "kafka_partition", "kafka_offset")
    return rows.withColumn("date", f.to_date("time"))


@contextmanager
def _prepare(job: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Work]]:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = _session(job["cores"])

    def load(topic: str) -> None:
        options = {
            "kafka.bootstrap.servers": job["address"],
            "subscribe": topic,
            "startingOffsets": "earliest",
        }
        rows = _rows(session.readStream.format("kafka").options(**options).load(), job["schema"])
        into = rows.writeStream.format("delta").partitionBy("date").outputMode("append").trigger(availableNow=True)
        query = into.option("checkpointLocation", f"{job['warehouse']}/checkpoint-{topic}").start(
            f"{job['warehouse']}/{topic}"
        )
        query.awaitTermination()

    load(job["warm_topic"])

    def run() -> Mapping[str, Any]:
        began_s = tree_cpu_s()
        load(job["topic"])
        return {"cpu_s": tree_cpu_s() - began_s}

    try:
        yield {"spark": session.version}, run
    finally:
        session.stop()


if __name__ == "__main__":
    work(_prepare)
