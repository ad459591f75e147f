"""A stream of Spark goes on from a checkpoint of version 0.1.0."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from kafka2011 import Producer
from tests.support.upgrade import LEFT, upgraded

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


def test_a_stream_goes_on_from_its_checkpoint(spark: SparkSession, zk_connect: str, tmp_path: Path) -> None:
    """It has read all that 0.1.0 had stored, so it reads what has come since, and nothing else."""
    shutil.copytree(LEFT / "checkpoint", tmp_path / "checkpoint")
    rows: list[bytes] = []

    def take(frame: DataFrame, _batch: int) -> None:
        rows.extend(bytes(row.value) for row in frame.collect())

    with upgraded(tmp_path / "broker", zk_connect):
        with Producer({"zk.connect": zk_connect, "confirm": True}) as producer:
            producer.send("views", [b"new", b"newer"]).result()
        source = spark.readStream.format("kafka2011").option("zk.connect", zk_connect).option("subscribe", "views")
        query = (
            source.load()
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)
    assert rows == [b"new", b"newer"]
