"""Which columns the sink takes, and where rows go."""

from __future__ import annotations

import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from kafka2011.errors import ConfigError
from kafka2011.producer.errors import InvalidPartitionError
from kafka2011.producer.partitioner import DefaultPartitioner
from kafka2011.spark.options import WriteOptions
from kafka2011.spark.sink import Placement, check_place, open_router
from kafka2011.spark.source_columns import SCHEMA, SinkColumns
from zk.cluster import Broker, TopicPartition

BROKERS = (Broker(0, "localhost", 1), Broker(1, "localhost", 2))
VIEWS = tuple(TopicPartition("views", broker_id, number) for broker_id in (0, 1) for number in range(3))


def options(**more: str) -> WriteOptions:
    return WriteOptions.from_options({"zk.connect": "localhost:1", **more})


def columns(more: dict[str, type], **given: str) -> SinkColumns:
    schema = StructType()
    for name, kind in more.items():
        schema = schema.add(name, kind())
    return SinkColumns.of(schema, options(**given))


def test_columns_are_found_by_name() -> None:
    """In any order and case; others stay unwritten."""
    found = columns({"when": LongType, "TOPIC": StringType, "Key": StringType, "value": BinaryType})
    assert found == SinkColumns(value=3, topic=1, key=2, partition=None, broker_id=None)


def test_the_topic_option_goes_before_the_column() -> None:
    """So what was read from one topic can be written to another as it is."""
    assert SinkColumns.of(SCHEMA, options(topic="copy")) == SinkColumns(0, None, None, 3, 2)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"topic": StringType}, "needs a column value"),
        ({"value": BinaryType}, "needs the option topic, or a column topic"),
        ({"value": IntegerType, "topic": StringType}, "column value is int"),
        ({"value": BinaryType, "topic": StringType, "partition": IntegerType}, "needs a column brokerId"),
        ({"value": BinaryType, "topic": StringType, "partition": StringType, "key": StringType}, "leave one out"),
    ],
)
def test_columns_that_do_not_do(schema: dict[str, type], text: str) -> None:
    """The error says what is missing."""
    with pytest.raises(ConfigError, match=text):
        columns(schema)


def test_keys_go_where_a_producer_sends_them() -> None:
    """By the same hash over the same list."""
    router = open_router(Placement(BROKERS, {"views": VIEWS}), options())
    for key in ("member-42", b"member-42", ""):
        assert router.by_key("views", key) == VIEWS[DefaultPartitioner().partition(key, len(VIEWS))]


def test_a_partition_can_be_chosen() -> None:
    """One that is not there is an error."""
    router = open_router(Placement(BROKERS, {"views": VIEWS}), options())
    place = TopicPartition("views", 1, 2)
    check_place(router, place)
    assert router.named("views", place) == place
    with pytest.raises(InvalidPartitionError, match="views has no partition 1-3"):
        check_place(router, TopicPartition("views", 1, 3))


def test_a_topic_that_nobody_has_goes_to_every_broker() -> None:
    """Which picks a partition for what has no key."""
    router = open_router(Placement(BROKERS, {}), options())
    assert {router.next("new") for _ in range(100)} == {
        TopicPartition("new", 0, -1),
        TopicPartition("new", 1, -1),
    }
    assert router.by_key("new", "key") in {TopicPartition("new", 0, 0), TopicPartition("new", 1, 0)}
