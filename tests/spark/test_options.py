"""Options as Spark gives them: any case, all text."""

from __future__ import annotations

import pytest

from kafka2011.errors import ConfigError
from kafka2011.message.compression import Codec
from kafka2011.spark.options import BatchOptions, StreamOptions, WriteOptions
from kafka2011.wire.protocol import EARLIEST, LATEST
from zk.cluster import Broker, TopicPartition

LEAST = {"zk.connect": "localhost:2181", "subscribe": "views"}


def test_options_are_read_in_any_case() -> None:
    """Spark makes all of them lower case."""
    options = BatchOptions.from_options(
        {**LEAST, "startingoffsets": '{"views": {"0-1": 7, "1-0": -2}}', "MINPARTITIONS": "4"}
    )
    assert options.starting_offsets == {TopicPartition("views", 0, 1): 7, TopicPartition("views", 1, 0): EARLIEST}
    assert options.min_partitions == 4


def test_defaults_are_those_of_sparks_own_connector() -> None:
    """A batch reads all there is, a stream what comes from now on, and lost data stops both."""
    batch, stream = BatchOptions.from_options(LEAST), StreamOptions.from_options(LEAST)
    assert (batch.starting_offsets, batch.ending_offsets) == (EARLIEST, LATEST)
    assert stream.starting_offsets == LATEST
    assert batch.fail_on_data_loss
    assert stream.fail_on_data_loss


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"startingOffset": "earliest"}, "did you mean 'startingOffsets'"),
        ({"failondatalos": "false"}, "did you mean 'failOnDataLoss'"),
        ({"startingOffsets": "oldest"}, "startingOffsets: 'oldest' is not earliest or latest"),
        ({"startingOffsets": "latest"}, "a batch cannot begin at latest"),
        ({"startingOffsets": '{"views": {"0-1": -1}}'}, "a batch cannot begin at latest"),
        ({"startingOffsets": '{"views": {"0": 1}}'}, "'0' is not {broker id}-{partition}"),
        ({"startingOffsets": '{"views": {"0-1": "x"}}'}, "views/0-1: 'x' is not an offset"),
        ({"startingOffsets": '{"views": 5}'}, "topic 'views': 5 is not"),
        ({"startingOffsets": '{"vi/ews": {}}'}, "vi/ews"),
        ({"startingOffsets": '{"views"'}, "is not JSON"),
        ({"endingOffsets": "earliest"}, "endingOffsets: 'earliest' is not latest"),
        ({"endingOffsets": '{"views": {"0-1": -2}}'}, "not an offset of -1 or more"),
        ({"broker.list": "0:localhost:9092"}, "either zk.connect or broker.list"),
        ({"subscribePattern": "v.*"}, "exactly one of subscribe, subscribePattern and assign"),
        ({"subscribe": ""}, "exactly one of subscribe, subscribePattern and assign"),
        ({"subscribe": "", "subscribePattern": "("}, "is not a regex"),
        ({"corruptMessages": "ignore"}, "not one of fail, skip, null"),
        ({"groupid": "a/b"}, "groupid"),
        ({"maxBytesPerTrigger": "5"}, "unknown"),
        ({"maxoffsetspertrigger": "5"}, "Spark's own Kafka connector; here it is maxBytesPerTrigger"),
        ({"kafka.bootstrap.servers": "localhost:9092"}, "here it is zk.connect"),
        ({"kafka.fetch.max.bytes": "5"}, "here it is one of zk.connect, broker.list"),
        ({"startingOffsetsByTimestamp": "{}"}, "names no partition"),
        ({"startingOffsetsByTimestamp": '{"views": {"0-1": -1}}'}, "not an offset of 0 or more"),
        ({"endingTimestamp": "5", "endingOffsetsByTimestamp": '{"views": {"0-1": 5}}'}, "exclude one another"),
        ({"assign": '{"views": ["0-1"]}'}, "exactly one of subscribe"),
        ({"subscribe": "", "assign": '{"views": [1]}'}, "offsets are positions in bytes"),
        ({"subscribe": "", "assign": '{"views": "0-1"}'}, "is not {"),
        ({"subscribe": "", "assign": "{}"}, "names no partition"),
        ({"minoffsetspertrigger": "5"}, "here it is minBytesPerTrigger: offsets are bytes here"),
        ({"maxrecordsperpartition": "5"}, "here it is maxBytesPerPartition: offsets are bytes here"),
    ],
)
def test_a_wrong_option_is_an_error(options: dict[str, str], text: str) -> None:
    """Its name and what is wrong stand in the text."""
    with pytest.raises(ConfigError) as raised:
        BatchOptions.from_options({**LEAST, **options})
    assert text in str(raised.value)


def test_groups_and_patterns_need_zookeeper() -> None:
    """A list of brokers tells neither."""
    brokers = {"broker.list": "0:localhost:9092"}
    for more in ({"subscribePattern": "v.*"}, {"subscribe": "views", "groupid": "reports"}):
        with pytest.raises(ConfigError, match=r"need zk\.connect"):
            BatchOptions.from_options({**brokers, **more})
    assert BatchOptions.from_options({**brokers, "subscribe": "a, b"}).subscribe == ("a", "b")


def test_commits_need_a_group() -> None:
    """Else nobody could say where to."""
    with pytest.raises(ConfigError, match="commitOffsets needs groupid"):
        StreamOptions.from_options({**LEAST, "commitOffsets": "true"})


def test_a_pattern_matches_whole_names() -> None:
    """As Spark's own does."""
    options = BatchOptions.from_options({"zk.connect": "localhost:2181", "subscribePattern": "view.?"})
    assert options.wants("views")
    assert not options.wants("previews")
    assert not options.wants("viewers")


def test_the_sink_takes_a_producers_options() -> None:
    """They reach the producer, which gets brokers in place of ZooKeeper, and always confirms."""
    options = WriteOptions.from_options(
        {"zk.connect": "localhost:2181", "topic": "views", "compression.codec": "gzip", "checkpointlocation": "/tmp/x"}
    )
    config = options.producer_config((Broker(0, "localhost", 9092),))
    assert config.confirm
    assert config.compression_codec is Codec.GZIP
    assert config.broker_list == (Broker(0, "localhost", 9092),)
    assert not config.zk_connect


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"confirm": "false"}, "cannot be turned off"),
        ({"topic": "a/b"}, "topic"),
        ({"subscribe": "views"}, "unknown setting"),
        ({"compression.code": "1"}, "did you mean 'compression.codec'"),
    ],
)
def test_a_wrong_option_of_the_sink_is_an_error(options: dict[str, str], text: str) -> None:
    """Its name and what is wrong stand in the text."""
    with pytest.raises(ConfigError) as raised:
        WriteOptions.from_options({"zk.connect": "localhost:2181", **options})
    assert text in str(raised.value)


def test_options_are_written_as_they_are_read() -> None:
    """So that they can be shown, and given again."""
    options = StreamOptions.from_options(
        {
            "zk.connect": "localhost:2181",
            "assign": '{"views": ["1-0", "0-1"]}',
            "startingOffsetsByTimestamp": '{"views": {"0-1": 5, "1-0": 6}}',
            "maxTriggerDelay": "90 s",
        }
    )
    one, two = TopicPartition("views", 0, 1), TopicPartition("views", 1, 0)
    assert options.assign == (one, two)
    assert options.topics == ("views",)
    assert options.times([one]) == {one: 5}
    assert options.max_trigger_delay_ms == 90_000
    written = {item.key: item.kind.write(getattr(options, item.name)) for item in StreamOptions.settings()}
    assert written["assign"] == '{"views": ["0-1", "1-0"]}'
    assert written["startingOffsetsByTimestamp"] == '{"views": {"0-1": 5, "1-0": 6}}'
    assert written["maxTriggerDelay"] == "90s"


@pytest.mark.parametrize("text", ["15", "m", "15 weeks", "-1s", "1.5s"])
def test_a_delay_has_a_unit(text: str) -> None:
    """So nobody has to guess."""
    with pytest.raises(ConfigError, match=r"maxTriggerDelay: .* is not a time with a unit, such as 500ms"):
        StreamOptions.from_options({**LEAST, "maxTriggerDelay": text})
