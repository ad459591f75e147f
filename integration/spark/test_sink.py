"""`write` and `writeStream`: every row is confirmed, where its columns say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PySparkException

from kafka2011.local_cluster import LocalCluster
from kafka2011.producer.errors import NoBrokersError
from kafka2011.producer.partitioner import DefaultPartitioner
from kafka2011.spark.options import WriteOptions
from kafka2011.spark.sink import plan_placement
from tests.support.clocks import ManualClock
from tests.support.waiting import eventually
from zk.brokers import BrokerRegistry
from zk.cluster import Broker
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from zk.local_zookeeper import LocalZooKeeper


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
    stream: Callable[..., DataFrame],
    tmp_path: Path,
) -> None:
    """From one topic into another."""
    create(topic)
    create(f"{topic}.copy")
    sent = [b"%d" % number for number in range(500)]
    publish(cluster.brokers[0], topic, sent)
    query = (
        stream(topic)
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


def test_a_write_waits_for_a_broker(zk_connect: str) -> None:
    """None is registered when it is planned, and one is soon after."""
    options = WriteOptions.from_options({"zk.connect": zk_connect, "topic": "views"})
    broker = Broker.created(0, "localhost", 9092, 0)
    with connect(zk_connect) as client:
        registry = BrokerRegistry(client)
        placement = plan_placement(options, sleep=lambda _: registry.register(broker))
    assert placement.brokers == (broker,)
    waiting = ManualClock()
    impatient = WriteOptions.from_options(
        {"zk.connect": f"{zk_connect}/empty", "topic": "views", "confirm.timeout.ms": "5000"}
    )
    with pytest.raises(NoBrokersError, match=r"for 5000 ms \(confirm\.timeout\.ms\)"):
        plan_placement(impatient, waiting, waiting.sleep)
    assert waiting.now_s == 5.0


def test_rows_that_brokers_drop_fail_the_write(
    spark: SparkSession,
    zookeeper: LocalZooKeeper,
    tmp_path: Path,
    write: Callable[..., None],
    read: Callable[..., DataFrame],
) -> None:
    """They are larger than the brokers take: no task ends as if it had written them."""
    elsewhere = f"{zookeeper.connect_string}/small-messages"
    properties = {"max.message.size": 1000, "log.flush.interval": 1}
    with LocalCluster(1, zk_connect=elsewhere, directory=tmp_path, properties=properties):
        frame = spark.range(0, 10, 1, 1).selectExpr("rpad(cast(id AS string), if(id = 7, 5000, 10), 'x') AS value")
        with pytest.raises(PySparkException, match="not confirmed"):
            write(frame, topic="views", **{"zk.connect": elsewhere})
        small = frame.where("length(value) = 10")
        write(small, topic="views", **{"zk.connect": elsewhere})
        assert read("views", **{"zk.connect": elsewhere}).distinct().count() >= 9


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
