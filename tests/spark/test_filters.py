"""Which partitions a batch plans when filters are pushed down to it."""

from __future__ import annotations

import pytest
from pyspark.sql.datasource import DataSourceReader, EqualNullSafe, EqualTo, GreaterThan, In, IsNotNull

from kafka2011.spark.data_source import FilteringReader, Kafka2011DataSource
from kafka2011.spark.options import BatchOptions
from kafka2011.spark.source_columns import SCHEMA
from zk.cluster import TopicPartition

OPTIONS = {"zk.connect": "localhost:1", "subscribe": "views,clicks"}
EVERY = [
    TopicPartition(topic, broker_id, number)
    for topic in ("clicks", "views")
    for broker_id in (0, 1)
    for number in (0, 1)
]


def test_filters_on_places_leave_partitions_out() -> None:
    """Those are taken, and all others are left to Spark."""
    reader = FilteringReader(BatchOptions.from_options(OPTIONS))
    others = [
        IsNotNull(("topic",)),
        GreaterThan(("partition",), 0),
        EqualTo(("value",), b"x"),
        EqualTo(("a", "topic"), "t"),
    ]
    places = [EqualTo(("topic",), "views"), In(("brokerId",), (1, 7)), EqualNullSafe(("partition",), 0)]
    assert list(reader.pushFilters([*others[:2], *places, *others[2:]])) == others
    assert list(filter(reader.keeps, EVERY)) == [TopicPartition("views", 1, 0)]


@pytest.mark.parametrize("wanted", ["true", "false"])
def test_a_reader_takes_filters_only_when_asked_to(wanted: str) -> None:
    """Spark fails every filtered read of one that does, unless its own setting allows it."""
    source = Kafka2011DataSource({**OPTIONS, "pushFilters": wanted})
    reader = source.reader(SCHEMA)
    assert (type(reader).pushFilters is not DataSourceReader.pushFilters) == (wanted == "true")
