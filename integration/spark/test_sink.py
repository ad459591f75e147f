"""`write` and `writeStream`: every row is confirmed, where its columns say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PySparkException

from kafka2011.producer.partitioner import DefaultPartitioner
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from kafka2011.local import LocalCluster


@pytest.fixture
def write(cluster: LocalCluster) -> Callable[..., None]:
    """Write a DataFrame to the tests' brokers."""

    def append(frame: DataFrame, mode: str = "append", **options: str) -> None:
        frame.write.format("kafka2011").mode(mode).options(**{"zk.connect": cluster.zk_connect} | options).save()

    return append


def test_rows_arrive_by_key_and_topic(
    topic: str,
    spark: SparkSession,
    create: Callable[..., None],
    write: Callable[..., None],
    read: Callable[..., DataFrame],
) -> None:
    """A column says the topic; one key is always in one partition, a producer's own, in the order of the rows."""
    create(f"{topic}.a")
    create(f"{topic}.b")
    rows = [(f"{topic}.{'ab'[i % 2]}", f"member-{i % 7}", f"{i:05}") for i in range(2000)]
    write(spark.createDataFrame(rows, "topic string, key string, value string").coalesce(1))
    partitions = [(0, 0), (0, 1), (1, 0), (1, 1)]
    for name in "ab":
        read_back: dict[tuple[int, int], list[str]] = {}
        for row in read(f"{topic}.{name}").sort("offset").collect():
            read_back.setdefault((row.brokerId, row.partition), []).append(row.value.decode())
        expected: dict[tuple[int, int], list[str]] = {}
        for where, key, value in rows:
            if where.endswith(name):
                index = DefaultPartitioner().partition(key, len(partitions))
                expected.setdefault(partitions[index], []).append(value)
        assert read_back == expected


def test_rows_without_key_are_spread(
    topic: str,
    spark: SparkSession,
    create: Callable[..., None],
    write: Callable[..., None],
    read: Callable[..., DataFrame],
) -> None:
    """Each task begins anywhere; compressed on request; the option names the topic."""
    create(topic)
    frame = (
        spark.range(2000).selectExpr("cast(id AS string) AS value", "'ignored' AS topic", "id AS other").repartition(12)
    )
    write(frame, topic=topic, **{"compression.codec": "snappy"})
    back = read(topic)
    assert back.selectExpr("cast(value AS string)").distinct().count() == back.count() == 2000
    assert back.select("brokerId", "partition").distinct().count() > 1
    assert back.where("indexInSet > 0").count() > 0


def test_rows_go_to_the_partition_they_name(
    topic: str,
    spark: SparkSession,
    create: Callable[..., None],
    write: Callable[..., None],
    read: Callable[..., DataFrame],
) -> None:
    """As text, or as the source's own two columns, so that a copy keeps its places."""
    create(topic)
    rows = [(f"{i}", f"{i % 2}-{i // 2 % 2}") for i in range(100)]
    write(spark.createDataFrame(rows, "value string, partition string"), topic=topic)
    found = {row.value.decode(): f"{row.brokerId}-{row.partition}" for row in read(topic).collect()}
    assert found == dict(rows)
    create(f"{topic}.copy")
    write(read(topic), topic=f"{topic}.copy")
    copied = {row.value.decode(): f"{row.brokerId}-{row.partition}" for row in read(f"{topic}.copy").collect()}
    assert copied == dict(rows)


def test_a_topic_is_made_by_its_first_rows(
    topic: str,
    spark: SparkSession,
    write: Callable[..., None],
    read: Callable[..., DataFrame],
    cluster: LocalCluster,
) -> None:
    """Nobody had it before."""
    write(spark.range(3000).selectExpr("cast(id AS string) AS value"), topic=topic)
    eventually(lambda: read(topic).count() == 3000)


def test_a_stream_is_written(
    topic: str,
    spark: SparkSession,
    cluster: LocalCluster,
    create: Callable[..., None],
    publish: Callable[..., int],
    read: Callable[..., DataFrame],
    tmp_path: Path,
) -> None:
    """From one topic into another."""
    create(topic)
    create(f"{topic}.copy")
    sent = [b"%d" % number for number in range(500)]
    publish(cluster.brokers[0], topic, sent)
    query = (
        spark.readStream.format("kafka2011")
        .options(**{"zk.connect": cluster.zk_connect, "subscribe": topic, "startingOffsets": "earliest"})
        .load()
        .select("value")
        .writeStream.format("kafka2011")
        .options(**{"zk.connect": cluster.zk_connect, "topic": f"{topic}.copy"})
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert sorted(row.value for row in read(f"{topic}.copy").collect()) == sorted(sent)


def test_a_broker_that_restarts_under_a_write_loses_nothing(
    topic: str,
    spark: SparkSession,
    cluster: LocalCluster,
    create: Callable[..., None],
    write: Callable[..., None],
    read: Callable[..., DataFrame],
) -> None:
    """Ended with kill -9 just before: rows that name it wait for it, and all arrive at least once."""
    lost = cluster.add_broker()
    create(topic, [lost])
    frame = spark.range(3000).selectExpr("cast(id AS string) AS value", f"'{lost.broker_id}-0' AS partition")
    lost.kill()  # it stays registered until its session ends, so the write is planned for it
    lost.launch()
    write(frame, topic=topic)
    lost.wait_ready()
    values = [row.value for row in read(topic).collect()]
    assert {int(value) for value in values} == set(range(3000))
    lost.stop()


@pytest.mark.parametrize(
    ("query", "mode", "options", "text"),
    [
        ("SELECT 1 AS value", "append", {"topic": "t"}, "column value is int"),
        ("SELECT 'x' AS value", "append", {}, "needs the option topic, or a column topic"),
        ("SELECT 'x' AS value", "append", {"topic": "t", "compresion.codec": "1"}, "did you mean 'compression.codec'"),
        ("SELECT 'x' AS value", "overwrite", {"topic": "t"}, "can only be appended to"),
    ],
)
def test_wrong_writes_are_errors(
    spark: SparkSession, write: Callable[..., None], query: str, mode: str, options: dict[str, str], text: str
) -> None:
    """Before anything is sent."""
    with pytest.raises(AnalysisException) as raised:
        write(spark.sql(query), mode, **options)
    assert text in str(raised.value)


def test_a_null_value_is_an_error(topic: str, spark: SparkSession, write: Callable[..., None]) -> None:
    """A message has a payload."""
    with pytest.raises(PySparkException, match="column value holds nulls"):
        write(spark.sql("SELECT cast(NULL AS binary) AS value"), topic=topic)
