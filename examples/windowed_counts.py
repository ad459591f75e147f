"""Counts the messages that come in, by topic and ten seconds of arrival, until Ctrl-C.

    kafka2011 cluster
    python examples/windowed_counts.py [ZOOKEEPER]
    seq 1000 | kafka2011 produce views --zookeeper localhost:2181

A restarted query without a checkpoint counts from the beginning again.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from kafka2011.spark import register

zookeeper = sys.argv[1] if len(sys.argv) > 1 else "localhost:2181"

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run this Python, not the first one on PATH
spark = SparkSession.builder.appName("windowed counts").config("spark.sql.shuffle.partitions", 2).getOrCreate()
register(spark)  # Spark finds an installed wheel by itself; a checkout it does not

messages = (
    spark.readStream.format("kafka2011")
    .option("zk.connect", zookeeper)
    .option("subscribePattern", ".*")
    .option("startingOffsets", "earliest")
    .option("maxBytesPerTrigger", 64 * 1024 * 1024)
    .load()
    .withColumn("arrived", f.current_timestamp())  # messages carry no time of their own: take yours from the value
)
query = (
    messages.groupBy(f.window("arrived", "10 seconds"), "topic")
    .count()
    .orderBy("window", "topic")
    .writeStream.format("console")
    .option("truncate", "false")
    .outputMode("complete")
    .trigger(processingTime="2 seconds")  # without one, an idle query asks for news many times a second
    .start()
)
try:
    query.awaitTermination()
except KeyboardInterrupt:
    query.stop()
