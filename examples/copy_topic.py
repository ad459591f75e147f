"""Copies a topic to another one, and continues where it was when it is started again.

    kafka2011 cluster
    seq 1000 | kafka2011 produce views --zookeeper localhost:2181
    python examples/copy_topic.py [ZOOKEEPER [FROM [TO [CHECKPOINT]]]]

Each message arrives at least once: after a crash some of them twice.
"""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from kafka2011.spark import register

zookeeper, source, target, checkpoint, *_ = [
    *sys.argv[1:],
    *("localhost:2181", "views", "views-copy", "views-copy.checkpoint")[len(sys.argv) - 1 :],
]

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run this Python, not the first one on PATH
spark = SparkSession.builder.appName("copy a topic").getOrCreate()
register(spark)  # Spark finds an installed wheel by itself; a checkout it does not

query = (
    spark.readStream.format("kafka2011")
    .option("zk.connect", zookeeper)
    .option("subscribe", source)
    .option("startingOffsets", "earliest")
    .load()
    .select("value")  # with brokerId and partition too, each message would go to the partition that it came from
    .writeStream.format("kafka2011")
    .option("zk.connect", zookeeper)
    .option("topic", target)
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
rows = sum(progress.numInputRows for progress in query.recentProgress)
print(f"copied {rows} messages from {source} to {target}")
