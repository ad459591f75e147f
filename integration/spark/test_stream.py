"""`spark.readStream`: micro-batches that a restart repeats exactly, over brokers that come and go."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQueryListener

from kafka2011.admin.topic_changes import delete_topic
from kafka2011.local_cluster import LocalCluster
from kafka2011.message.compression import Codec
from kafka2011.spark import lag_bytes, present_lag_bytes, source_metrics
from tests.support.waiting import eventually
from zk.brokers import BrokerRegistry
from zk.cluster import TopicPartition
from zk.connecting import connect
from zk.offsets import OffsetRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from kafka2011.local_cluster import LocalBroker
    from zk.local_zookeeper import LocalZooKeeper

SOON = {"fetchOffset.retryIntervalMs": 200, "fetchOffset.numRetries": 300}


class Given(NamedTuple):
    """One row."""

    broker_id: int
    partition: int
    offset: int
    index_in_set: int
    value: bytes


class Batches:
    """What a query gave to foreachBatch, by number; a number that comes again must bring the same."""

    def __init__(self) -> None:
        self.rows: dict[int, list[Given]] = {}
        self.repeated: set[int] = set()
        self.fail_at = -1
        self.fail_at_rows = False

    def take(self, frame: DataFrame, batch_id: int) -> None:
        columns = ("brokerId", "partition", "offset", "indexInSet", "value")
        rows = sorted(Given._make((*row[:4], bytes(row["value"]))) for row in frame.select(*columns).collect())
        if batch_id in self.rows:
            assert rows == self.rows[batch_id], f"batch {batch_id} came again with other rows"
            self.repeated.add(batch_id)
        self.rows[batch_id] = rows
        if batch_id == self.fail_at or (self.fail_at_rows and rows):
            raise RuntimeError("the sink fails")

    @property
    def all(self) -> list[Given]:
        return [row for rows in self.rows.values() for row in rows]

    @property
    def values(self) -> list[bytes]:
        return sorted(row.value for row in self.all)


@pytest.fixture
def batches() -> Batches:
    return Batches()


@pytest.fixture
def start(
    stream: Callable[..., DataFrame], tmp_path: Path, batches: Batches
) -> Iterator[Callable[..., StreamingQuery]]:
    """Start a query of a topic from the same checkpoint as before; it ends with the test."""
    running: list[StreamingQuery] = []

    def begin(topic: str, *, trigger: dict[str, bool | str] | None = None, **options: object) -> StreamingQuery:
        query = (
            stream(topic, **SOON | options)
            .writeStream.foreachBatch(batches.take)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(**trigger or {"processingTime": "100 milliseconds"})
            .start()
        )
        running.append(query)
        return query

    yield begin
    for query in running:
        query.stop()


AVAILABLE_NOW = {"availableNow": True}


def numbered(first: int, number: int) -> list[bytes]:
    return [b"%06d %s" % (index, b"." * 90) for index in range(first, first + number)]


def test_a_restart_repeats_a_micro_batch_exactly(
    topic: str,
    cluster: LocalCluster,
    create: Callable[..., None],
    publish: Callable[..., int],
    start: Callable[..., StreamingQuery],
    batches: Batches,
) -> None:
    """A query that failed in the middle goes on from its checkpoint: each message once, compressed sets whole."""
    create(topic)
    for number, broker in enumerate([cluster.brokers[0], cluster.brokers[1]]):
        for piece in range(6):
            codec = Codec.GZIP if piece % 2 else Codec.NONE
            publish(broker, topic, numbered(number * 1000 + piece * 100, 100), 0, codec)
    batches.fail_at = 1
    limited = {"maxBytesPerTrigger": 15_000}
    with pytest.raises(StreamingQueryException, match="the sink fails"):
        start(topic, trigger=AVAILABLE_NOW, **limited).awaitTermination(60)
    assert set(batches.rows) == {0, 1}
    batches.fail_at = -1
    publish(cluster.brokers[0], topic, numbered(5000, 10))
    query = start(topic, trigger=AVAILABLE_NOW, **limited)
    assert query.awaitTermination(60)
    assert batches.repeated == {1}
    assert batches.values == sorted(numbered(0, 600) + numbered(1000, 600) + numbered(5000, 10))
    assert len({row[:4] for row in batches.all}) == len(batches.all)
    assert len(batches.rows) > 3
    largest = max(sum(len(row.value) for row in rows if row.index_in_set == 0) for rows in batches.rows.values())
    assert largest < 15_000 + 2 * 100


def test_a_topic_that_was_created_again_is_no_topic_to_read_on(
    topic: str,
    cluster: LocalCluster,
    create: Callable[..., None],
    publish: Callable[..., int],
    start: Callable[..., StreamingQuery],
    batches: Batches,
) -> None:
    """A query whose offset lies in a new, longer log fails; failOnDataLoss=false reads that log from its start."""
    old, new = numbered(0, 50), numbered(1000, 500)
    create(topic)
    publish(cluster.brokers[0], topic, old)
    assert start(topic, trigger=AVAILABLE_NOW).awaitTermination(60)
    with connect(cluster.zk_connect) as client:
        delete_topic(client, topic)
    create(topic)
    publish(cluster.brokers[0], topic, new)
    with pytest.raises(StreamingQueryException, match="was deleted and created again"):
        start(topic, trigger=AVAILABLE_NOW).awaitTermination(60)
    assert start(topic, trigger=AVAILABLE_NOW, failOnDataLoss="false").awaitTermination(60)
    assert batches.values == sorted(old + new)


class LagWatch(StreamingQueryListener):  # type: ignore[misc]  # PySpark has no types for mypy here
    """Keeps how far each query lags behind, as docs/how-to/spark.md shows it."""

    def __init__(self) -> None:
        self.lags: dict[str, dict[TopicPartition, int | None]] = defaultdict(dict)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 (Spark's names, here and below)
        """Do nothing yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Keep the lag of each partition."""
        for source in event.progress.sources:
            self.lags[str(event.progress.id)].update(lag_bytes(source))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Do nothing."""


def test_partitions_that_appear_are_read_and_lag_is_reported(
    spark: SparkSession,
    topic: str,
    cluster: LocalCluster,
    create: Callable[..., None],
    publish: Callable[..., int],
    start: Callable[..., StreamingQuery],
    batches: Batches,
) -> None:
    """A topic born later that the pattern matches is read from its beginning; progress shows ends and lag."""
    watch = LagWatch()
    spark.streams.addListener(watch)
    create(f"{topic}.a", [cluster.brokers[0]])
    publish(cluster.brokers[0], f"{topic}.a", numbered(0, 10))
    query = start(topic, subscribe=None, subscribePattern=f"{topic}[.].*", maxBytesPerTrigger=500)
    eventually(lambda: batches.values)
    create(f"{topic}.b", [cluster.brokers[1]])
    publish(cluster.brokers[1], f"{topic}.b", numbered(100, 10))
    eventually(lambda: batches.values == numbered(0, 10) + numbered(100, 10))
    progress = [json.loads(each.json)["sources"][0] for each in query.recentProgress]
    partition = TopicPartition(f"{topic}.a", 0, 0)
    lags = [lag_bytes(each)[partition] for each in progress if each["endOffset"]]
    assert max(lag or 0 for lag in lags) > 0
    eventually(lambda: lag_bytes(json.loads(query.lastProgress.json)["sources"][0])[partition] == 0)
    eventually(lambda: watch.lags[str(query.id)].get(partition) == 0)
    spark.streams.removeListener(watch)
    query.stop()
    publish(cluster.brokers[0], f"{topic}.a", numbered(10, 10))
    stopped = query.lastProgress["sources"][0]
    options = {"zk.connect": cluster.zk_connect, "subscribePattern": f"{topic}[.].*"}
    assert source_metrics(stopped).lag_bytes == 0, "as of its last micro-batch"
    eventually(lambda: (present_lag_bytes(options, stopped)[partition] or 0) >= 10 * 97)
    assert present_lag_bytes(options, stopped)[TopicPartition(f"{topic}.b", 1, 0)] == 0


def test_a_stream_from_latest_begins_there_even_if_its_first_batch_fails(
    topic: str,
    cluster: LocalCluster,
    create: Callable[..., None],
    publish: Callable[..., int],
    start: Callable[..., StreamingQuery],
    batches: Batches,
) -> None:
    """What came between the start and the restart is not passed over."""
    broker = cluster.brokers[0]
    create(topic, [broker])
    publish(broker, topic, numbered(0, 10))
    batches.fail_at = 0
    with pytest.raises(StreamingQueryException, match="the sink fails"):
        start(topic, startingOffsets="latest", trigger=AVAILABLE_NOW).awaitTermination(60)
    batches.fail_at = -1
    publish(broker, topic, numbered(100, 10))
    assert start(topic, startingOffsets="latest", trigger=AVAILABLE_NOW).awaitTermination(60)
    assert batches.values == numbered(100, 10)


def test_a_broker_that_is_away_for_a_while_is_waited_for(
    topic: str,
    cluster: LocalCluster,
    create: Callable[..., None],
    publish: Callable[..., int],
    start: Callable[..., StreamingQuery],
    batches: Batches,
) -> None:
    """Ended with kill -9 under a running query: others are read on, and it too when it is back, all of it once."""
    lost, other = cluster.add_broker(), cluster.brokers[0]
    create(topic, [lost, other])
    publish(lost, topic, numbered(0, 50))
    query = start(topic)
    eventually(lambda: batches.values == numbered(0, 50))
    lost.kill()
    publish(other, topic, numbered(100, 50))
    eventually(lambda: batches.values == numbered(0, 50) + numbered(100, 50))
    away = TopicPartition(topic, lost.broker_id, 0)
    eventually(lambda: lag_bytes(json.loads(query.lastProgress.json)["sources"][0])[away] is None)
    lost.start()
    publish(lost, topic, numbered(200, 50))
    eventually(lambda: len(batches.all) == 150)
    assert batches.values == numbered(0, 50) + numbered(100, 50) + numbered(200, 50)
    assert query.isActive
    lost.stop()


def gone(cluster: LocalCluster, broker: LocalBroker) -> bool:
    """Whether a broker is no longer registered."""
    with connect(cluster.zk_connect) as client:
        return broker.broker_id not in BrokerRegistry(client).brokers()


def test_the_first_rows_are_read_again_though_a_broker_is_away(
    topic: str,
    cluster: LocalCluster,
    create: Callable[..., None],
    publish: Callable[..., int],
    start: Callable[..., StreamingQuery],
    batches: Batches,
) -> None:
    """A broker dies in the first micro-batch with rows; where it began is in the checkpoint, so nothing is missing."""
    lost, other = cluster.add_broker(), cluster.brokers[0]
    create(topic, [lost, other])
    publish(lost, topic, numbered(0, 50))
    publish(other, topic, numbered(100, 50))
    batches.fail_at_rows = True
    with pytest.raises(StreamingQueryException, match="the sink fails"):
        start(topic).awaitTermination(60)
    batches.fail_at_rows = False
    lost.kill()
    eventually(lambda: gone(cluster, lost))
    with pytest.raises(StreamingQueryException, match=f"{topic}/{lost.broker_id}-0 cannot be read"):
        start(topic, **{"fetchOffset.numRetries": 2}).awaitTermination(60)
    start(topic)
    lost.start()
    publish(lost, topic, numbered(200, 10))
    sent = numbered(0, 50) + numbered(100, 50) + numbered(200, 10)
    eventually(lambda: batches.values == sent)
    assert batches.repeated
    lost.stop()


def test_the_first_rows_being_lost_is_an_error(
    topic: str,
    cluster: LocalCluster,
    create: Callable[..., None],
    publish: Callable[..., int],
    start: Callable[..., StreamingQuery],
    batches: Batches,
) -> None:
    """Retention removes them between a failure of the first micro-batch with rows and its replay."""
    broker = cluster.add_broker()
    create(topic, [broker])
    for piece in range(6):
        publish(broker, topic, numbered(piece * 100, 100))
    batches.fail_at_rows = True
    with pytest.raises(StreamingQueryException, match="the sink fails"):
        start(topic, trigger=AVAILABLE_NOW).awaitTermination(60)
    batches.fail_at_rows = False
    broker.stop()
    min((broker.log_dir / f"{topic}-0").glob("*.kafka")).unlink()
    broker.start()
    with pytest.raises(StreamingQueryException, match="and 0 was to be read: retention"):
        start(topic, trigger=AVAILABLE_NOW).awaitTermination(60)
    broker.stop()


def test_latest_of_a_broker_that_is_away_at_the_start_is_what_it_was_then(
    topic: str,
    cluster: LocalCluster,
    create: Callable[..., None],
    publish: Callable[..., int],
    start: Callable[..., StreamingQuery],
    batches: Batches,
) -> None:
    """It comes back and is read from there, not from its beginning."""
    lost, other = cluster.add_broker(), cluster.brokers[0]
    create(topic, [lost, other])
    publish(lost, topic, numbered(0, 50))
    lost.stop()
    query = start(topic, startingOffsets="latest")
    eventually(lambda: query.lastProgress is not None)
    lost.start()
    partition = f"{lost.broker_id}-0"
    eventually(lambda: partition in json.loads(query.lastProgress.sources[0].endOffset)[topic])
    publish(lost, topic, numbered(100, 10))
    eventually(lambda: batches.values == numbered(100, 10))
    lost.stop()


def test_a_misspelt_topic_is_no_success(topic: str, start: Callable[..., StreamingQuery]) -> None:
    """An availableNow query would end as if it had read it."""
    with pytest.raises(StreamingQueryException, match=f"topic {topic}-misspelt is unknown"):
        start(f"{topic}-misspelt", trigger=AVAILABLE_NOW).awaitTermination(60)


def test_a_query_lives_through_an_outage_of_zookeeper(
    own_zookeeper: LocalZooKeeper,
    publish: Callable[..., int],
    start: Callable[..., StreamingQuery],
    batches: Batches,
    tmp_path: Path,
) -> None:
    """Its brokers are known, so it goes on reading from them, long after planning would give up on ZooKeeper."""

    def read(number: int) -> bool:
        return len(batches.all) == number

    elsewhere = own_zookeeper.connect_string
    with LocalCluster(1, zk_connect=elsewhere, directory=tmp_path, properties={"log.flush.interval": 1}) as own:
        publish(own.brokers[0], "views", numbered(0, 10))
        query = start("views", **{"zk.connect": elsewhere, "fetchOffset.numRetries": 2})
        eventually(lambda: batches.values == numbered(0, 10))
        own_zookeeper.stop()
        for size in range(11, 17):
            publish(own.brokers[0], "views", numbered(size, 1))
            eventually(partial(read, size))
        assert query.isActive
        query.stop()
        own_zookeeper.start()


def test_a_broker_that_stays_away_ends_the_query(
    topic: str,
    cluster: LocalCluster,
    create: Callable[..., None],
    publish: Callable[..., int],
    start: Callable[..., StreamingQuery],
    batches: Batches,
) -> None:
    """With an error that says which, and how long it was waited for."""
    lost = cluster.add_broker()
    create(topic, [lost])
    publish(lost, topic, numbered(0, 5))
    query = start(topic, **{"fetchOffset.numRetries": 3})
    eventually(lambda: len(batches.all) == 5)
    lost.kill()
    with pytest.raises(
        StreamingQueryException, match=f"the broker of {topic}/{lost.broker_id}-0 was unavailable for 600 ms"
    ):
        query.awaitTermination(60)


def test_a_group_is_committed_behind_micro_batches(
    topic: str,
    cluster: LocalCluster,
    create: Callable[..., None],
    publish: Callable[..., int],
    start: Callable[..., StreamingQuery],
    batches: Batches,
) -> None:
    """Each one's end with the next one; so members of the group, or another query, go on from there."""
    broker = cluster.brokers[1]
    create(topic, [broker])
    first_end = publish(broker, topic, numbered(0, 10))
    start(topic, groupid=f"group-{topic}", commitOffsets="true")
    eventually(lambda: len(batches.all) == 10)
    publish(broker, topic, numbered(100, 10))
    eventually(lambda: len(batches.all) == 20)
    with connect(cluster.zk_connect) as client:
        offsets = OffsetRegistry(client)
        eventually(lambda: offsets.read(f"group-{topic}", TopicPartition(topic, 1, 0)) is not None)
        committed = offsets.read(f"group-{topic}", TopicPartition(topic, 1, 0))
        assert committed is not None
        assert committed.offset == first_end
