"""Reads a topic on a cluster while one executor is killed by one of its own tasks; then streams and writes.

    spark-submit read_through_a_kill.py ZOOKEEPER TOPIC DIRECTORY

Writes what it found to DIRECTORY/result.json.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

zookeeper, topic, directory = sys.argv[1:]
killed = Path(directory) / "killed"


def kill_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass batches on; in the middle of one task, the first that gets here, end its executor with kill -9."""
    for number, batch in enumerate(batches):
        yield batch
        if number == 1:
            try:
                killed.touch(exist_ok=False)
            except FileExistsError:
                continue
            daemon = os.getppid()
            executor = int(Path(f"/proc/{daemon}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])
            killed.write_text(Path(f"/proc/{executor}/cmdline").read_text(encoding="utf-8"), encoding="utf-8")
            os.kill(executor, signal.SIGKILL)


spark = SparkSession.builder.getOrCreate()
reader = spark.read.format("kafka2011").option("zk.connect", zookeeper).option("subscribe", topic)
rows = (
    reader.option("minPartitions", 6)
    .load()
    .mapInArrow(
        kill_once,
        "value binary, topic string, brokerId int, partition int, offset long, nextOffset long, indexInSet int",
    )
    .selectExpr("cast(value AS string) AS value")
    .cache()
)
found = {"rows": rows.count(), "distinct": rows.distinct().count()}

copy = f"{topic}.copy"
rows.write.format("kafka2011").mode("append").option("zk.connect", zookeeper).option("topic", copy).save()
query = (
    spark.readStream.format("kafka2011")
    .options(**{"zk.connect": zookeeper, "subscribe": copy, "startingOffsets": "earliest"})
    .load()
    .writeStream.format("noop")
    .option("checkpointLocation", str(Path(directory) / "checkpoint"))
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
found["streamed"] = sum(progress.numInputRows for progress in query.recentProgress)
found["executors killed"] = int("CoarseGrainedExecutorBackend" in killed.read_text(encoding="utf-8"))
(Path(directory) / "result.json").write_text(json.dumps(found), encoding="utf-8")
spark.stop()
