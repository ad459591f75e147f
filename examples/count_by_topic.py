"""Counts the messages of every topic, and how many bytes they are.

    kafka2011 cluster
    python examples/count_by_topic.py [ZOOKEEPER]

Topics without messages are not shown.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from kafka2011.spark import register

zookeeper = sys.argv[1] if len(sys.argv) > 1 else "localhost:2181"

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run this Python, not the first one on PATH
spark = SparkSession.builder.appName("count by topic").getOrCreate()
register(spark)  # Spark finds an installed wheel by itself; a checkout it does not

messages = spark.read.format("kafka2011").option("zk.connect", zookeeper).option("subscribePattern", ".*").load()
messages.groupBy("topic").agg(
    f.count("*").alias("messages"),
    f.sum(f.octet_length("value")).alias("bytes"),
    f.countDistinct("brokerId", "partition").alias("partitions"),
).orderBy("topic").show(truncate=False)
