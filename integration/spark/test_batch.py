"""`spark.read`: every message once, by ranges that begin where messages do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PySparkException

from kafka2011.message.compression import Codec
from kafka2011.spark import commit_offsets, resolve_offsets

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, Row, SparkSession

    from kafka2011.local_cluster import LocalCluster


def payloads(name: str, number: int) -> list[bytes]:
    return [b"%s %d %s" % (name.encode(), index, b"." * 80) for index in range(number)]


def values(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(row.value) for row in frame.select("value").collect())


def places(rows: list[Row]) -> set[tuple[int, int, int, int]]:
    return {(row.brokerId, row.partition, row.offset, row.indexInSet) for row in rows}


@pytest.fixture
def filled(
    topic: str, cluster: LocalCluster, create: Callable[..., None], publish: Callable[..., int]
) -> tuple[str, list[bytes]]:
    """Fill a topic: four partitions, plain and compressed sets, several segments."""
    create(topic)
    sent: list[bytes] = []
    for broker in (cluster.brokers[0], cluster.brokers[1]):
        for partition in range(2):
            for number, codec in enumerate([Codec.NONE, Codec.GZIP, Codec.NONE, Codec.SNAPPY, Codec.NONE]):
                some = payloads(f"{broker.broker_id}-{partition}-{number}", 100)
                publish(broker, topic, some, partition, codec)
                sent += some
    return topic, sorted(sent)


def test_a_batch_reads_every_message_once(filled: tuple[str, list[bytes]], read: Callable[..., DataFrame]) -> None:
    """All partitions of all brokers, each a task; the format was registered by nobody; columns say where a row was."""
    topic, sent = filled
    frame = read(topic)
    rows = frame.collect()
    assert frame.rdd.getNumPartitions() == 4
    assert sorted(bytes(row.value) for row in rows) == sent
    assert {row.topic for row in rows} == {topic}
    assert len(places(rows)) == len(rows)
    for row in rows:
        broker_id, partition, _ = bytes(row.value).split(b" ")[0].split(b"-")
        assert (row.brokerId, row.partition) == (int(broker_id), int(partition))
        assert row.nextOffset > row.offset or row.indexInSet < 99
    assert {row.indexInSet for row in rows} == set(range(100))


def test_ranges_are_cut_for_more_tasks(filled: tuple[str, list[bytes]], read: Callable[..., DataFrame]) -> None:
    """At least so many tasks as asked for, and the same rows."""
    topic, sent = filled
    frame = read(topic, minPartitions=11)
    assert frame.rdd.getNumPartitions() >= 11
    assert values(frame) == sent


def test_assigned_partitions_are_read_in_tasks_of_a_bounded_size(
    filled: tuple[str, list[bytes]], read: Callable[..., DataFrame]
) -> None:
    """And by a time for each partition: all of these were written since 1970."""
    topic, sent = filled
    names = ["0-1", "1-0"]
    options = {
        "subscribe": None,
        "assign": json.dumps({topic: names}),
        "startingOffsetsByTimestamp": json.dumps({topic: dict.fromkeys(names, 1)}),
        "maxBytesPerPartition": 9000,
    }
    frame = read(topic, **options)
    assert frame.rdd.getNumPartitions() > 2
    assert values(frame) == [value for value in sent if value.startswith((b"0-1-", b"1-0-"))]


def test_brokers_can_be_listed(
    filled: tuple[str, list[bytes]], read: Callable[..., DataFrame], cluster: LocalCluster
) -> None:
    """Without ZooKeeper, partitions are found by asking."""
    topic, sent = filled
    listed = ",".join(f"{each}:{cluster.brokers[each].host}:{cluster.brokers[each].port}" for each in (0, 1))
    assert values(read(topic, **{"zk.connect": None, "broker.list": listed})) == sent


def test_offsets_of_rows_lead_to_them(filled: tuple[str, list[bytes]], read: Callable[..., DataFrame]) -> None:
    """A range from one row's offset to another one's is the rows between, the first included and the last not."""
    topic, _ = filled
    every = sorted((row for row in read(topic).collect()), key=lambda row: (row.offset, row.indexInSet))
    mine = [row for row in every if (row.brokerId, row.partition) == (1, 0)]
    starts = sorted({row.offset for row in mine})
    first, last = starts[20], starts[-20]
    bounds = dict.fromkeys(("0-0", "0-1", "1-1"), -2)
    frame = read(
        topic,
        startingOffsets=json.dumps({topic: {**bounds, "1-0": first}}),
        endingOffsets=json.dumps({topic: {**dict.fromkeys(bounds, 0), "1-0": last}}),
    )
    assert places(frame.collect()) == places([row for row in mine if first <= row.offset < last])


def test_a_group_goes_on_where_it_committed(
    topic: str,
    cluster: LocalCluster,
    create: Callable[..., None],
    publish: Callable[..., int],
    read: Callable[..., DataFrame],
) -> None:
    """Two loads of one group, with explicit offsets committed behind each, are all messages once."""
    broker = cluster.brokers[0]
    create(topic)
    loads: list[list[bytes]] = []
    for name in ("first", "second"):
        publish(broker, topic, payloads(name, 50))
        options = {"zk.connect": cluster.zk_connect, "subscribe": topic, "groupid": f"loads-{topic}"}
        resolved = resolve_offsets(options)
        publish(broker, topic, payloads(f"behind {name}", 1))  # too late for this load
        explicit = {"startingOffsets": resolved.starting_offsets, "endingOffsets": resolved.ending_offsets}
        loads.append(values(read(topic, **explicit)))
        assert commit_offsets(cluster.zk_connect, f"loads-{topic}", resolved.ending_offsets) == 4
    assert loads == [payloads_sorted("first", 50), sorted(payloads("behind first", 1) + payloads("second", 50))]
    assert values(read(topic, groupid=f"loads-{topic}")) == payloads("behind second", 1)


def payloads_sorted(name: str, number: int) -> list[bytes]:
    return sorted(payloads(name, number))


def test_times_choose_segments(
    filled: tuple[str, list[bytes]], read: Callable[..., DataFrame], cluster: LocalCluster
) -> None:
    """By the broker's own times: before all there is, and after."""
    topic, sent = filled
    assert values(read(topic, startingTimestamp=1, endingTimestamp=32503680000000)) == sent
    assert read(topic, startingTimestamp=32503680000000).count() == 0


def test_a_pattern_chooses_topics(
    topic: str,
    cluster: LocalCluster,
    create: Callable[..., None],
    publish: Callable[..., int],
    read: Callable[..., DataFrame],
) -> None:
    """Whole names that match, and no others."""
    for name in (f"{topic}.a", f"{topic}.b", f"{topic}.ab"):
        create(name, [cluster.brokers[0]])
        publish(cluster.brokers[0], name, [name.encode()])
    frame = read(topic, subscribe=None, subscribePattern=f"{topic}[.].")
    assert values(frame) == [f"{topic}.a".encode(), f"{topic}.b".encode()]


def test_a_corrupt_message_stops_or_is_passed(
    topic: str,
    cluster: LocalCluster,
    create: Callable[..., None],
    publish: Callable[..., int],
    read: Callable[..., DataFrame],
) -> None:
    """A byte that turned over on the disk: an error that names the place, or all other rows, or a row without value."""
    broker = cluster.brokers[0]
    create(topic, [broker])
    sent = payloads("message", 30)
    publish(broker, topic, sent)
    [segment] = (broker.log_dir / f"{topic}-0").glob("*.kafka")
    offset = next(row.offset for row in read(topic).collect() if bytes(row.value) == sent[7])
    with segment.open("r+b") as file:
        file.seek(offset + 15)
        file.write(b"\xff")
    with pytest.raises(PySparkException, match=f"corrupt message in {topic}/0-0 at offset {offset}: CRC"):
        read(topic).count()
    assert values(read(topic, corruptMessages="skip")) == sorted(each for each in sent if each != sent[7])
    rows = read(topic, corruptMessages="null").where("value IS NULL").collect()
    assert places(rows) == {(0, 0, offset, 0)}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"startingOffset": "earliest"}, "did you mean 'startingOffsets'"),
        ({"maxBytesPerTrigger": 5}, "unknown setting 'maxbytespertrigger' of the kafka2011 batch source"),
        ({"subscribe": "nobody-has-this"}, "topic nobody-has-this is unknown"),
    ],
)
def test_wrong_options_are_errors(read: Callable[..., DataFrame], options: dict[str, object], text: str) -> None:
    """In the text of what Spark raises on the driver."""
    with pytest.raises(AnalysisException) as raised:
        read("views", **options).count()
    assert text in str(raised.value)


def test_an_empty_topic_has_no_rows(topic: str, create: Callable[..., None], read: Callable[..., DataFrame]) -> None:
    """And no error."""
    create(topic)
    assert read(topic).count() == 0


def test_a_message_that_is_lost_is_an_error(
    topic: str, create: Callable[..., None], read: Callable[..., DataFrame], cluster: LocalCluster
) -> None:
    """Unless the options say to go on."""
    create(topic, [cluster.brokers[0]])
    beyond = {"endingOffsets": json.dumps({topic: {"0-0": 500, "0-1": 0}})}
    with pytest.raises(AnalysisException, match=f"{topic}/0-0 was to be read from 0 to 500, but ends at 0"):
        read(topic, **beyond).count()
    assert read(topic, failOnDataLoss="false", **beyond).count() == 0


def test_register_makes_the_format_known(spark: SparkSession) -> None:
    """Where Spark does not find it by itself."""
    from kafka2011.spark import register

    register(spark)
    with pytest.raises(AnalysisException, match="needs"):
        spark.read.format("kafka2011").load().count()


def test_filters_leave_partitions_out(
    filled: tuple[str, list[bytes]], read: Callable[..., DataFrame], spark: SparkSession
) -> None:
    """With the option, and with Spark's own setting, without which it fails every read that has a filter."""
    topic, _ = filled
    frame = read(topic, pushFilters="true").where("brokerId = 1 AND partition = 0 AND length(value) > 0")
    with pytest.raises(AnalysisException, match="filterPushdown"):
        frame.count()
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = read(topic, pushFilters="true").where("brokerId = 1 AND partition = 0 AND length(value) > 0")
        assert frame.rdd.getNumPartitions() == 1
        assert frame.count() == 500
        assert read(topic).where("brokerId = 1").count() == 1000
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
