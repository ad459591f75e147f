"""Where a load goes on: in the log that the table was loaded from, and in no other one that is in its place."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kafka2011.message.message_set import encode
from kafka2011.spark.errors import BrokerAwayError, DataLossError, UnknownTopicError
from kafka2011.spark.log_check import CHECKED_BYTES, checks_to_json
from kafka2011.spark.offset_ranges import OffsetRange
from kafka2011.warehouse.errors import ReplacedLogError
from kafka2011.warehouse.loading.load_settings import LoadSettings
from kafka2011.warehouse.loading.resolving import LOG_CHECKS, Begun, checks_of, in_our_words, once_registered, resolve
from kafka2011.warehouse.table.commits import Commit, Operation
from tests.support.cluster_in_memory import ClusterInMemory
from tests.support.logs_in_memory import LogInMemory
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from kafka2011.errors import KafkaError
    from kafka2011.spark.options import ReadOptions

ONE, TWO = TopicPartition("views", 0, 0), TopicPartition("views", 1, 0)
OPTIONS = LoadSettings(zk_connect="localhost:1").read_options("views")
LENIENT = LoadSettings(zk_connect="localhost:1", fail_on_data_loss=False).read_options("views")


def segment(messages: int) -> bytes:
    """Return a segment of messages that are like no others, of 100 bytes each."""
    return b"".join(encode(uuid.uuid4().bytes + b"x" * 74) for _ in range(messages))


@pytest.fixture
def cluster() -> ClusterInMemory:
    return ClusterInMemory({ONE: LogInMemory([segment(30)]), TWO: LogInMemory([segment(3)])})


def load(
    cluster: ClusterInMemory, newest: Commit | None = None, options: ReadOptions = OPTIONS, restart: bool = False
) -> Commit:
    """Do what a load does, and return its commit, as it is read again."""
    stored = {} if newest is None else newest.offsets
    with cluster.lookup(options) as lookup:
        resolved, checks = resolve(options, lookup, newest, stored, restart_replaced=restart)
    offsets = {**stored, **{each.topic_partition: each.end for each in resolved.ranges}}
    commit = Commit("views", 1, Operation.LOAD, 1, offsets, extra={LOG_CHECKS: checks_to_json(checks)})
    return Commit.from_json(commit.to_json(), "here")


def ranges_after(cluster: ClusterInMemory, newest: Commit, restart: bool = False) -> list[OffsetRange]:
    with cluster.lookup(OPTIONS) as lookup:
        begun = resolve(OPTIONS, lookup, newest, newest.offsets, restart_replaced=restart)
    return [each for each in begun.resolved.ranges if each.size_bytes]


def test_the_same_log_is_read_on(cluster: ClusterInMemory) -> None:
    """However much, or little, was appended; and with nothing new, nothing is fetched."""
    first = load(cluster)
    assert set(checks_of(first)) == {ONE, TWO}
    cluster.logs[ONE].data += segment(1)
    assert ranges_after(cluster, first) == [OffsetRange(ONE, 3000, 3100)]
    second = load(cluster, first)
    assert checks_of(second)[TWO] == checks_of(first)[TWO]
    cluster.logs[TWO].data += segment(50)
    assert ranges_after(cluster, second) == [OffsetRange(TWO, 300, 5300)]
    third = load(cluster, second)
    fetched = cluster.logs[TWO].fetched_bytes
    assert load(cluster, third) == third
    assert cluster.logs[TWO].fetched_bytes == fetched


def test_a_look_is_small(cluster: ClusterInMemory) -> None:
    """Two pieces of a partition that has grown, and none of another."""
    first = load(cluster)
    before = cluster.logs[ONE].fetched_bytes
    cluster.logs[ONE].data += segment(1000)
    load(cluster, first)
    assert cluster.logs[ONE].fetched_bytes - before == 2 * CHECKED_BYTES


def test_another_log_that_has_grown_past_the_offset_is_refused(cluster: ClusterInMemory) -> None:
    """Unless it is to be loaded from its beginning; the other partition goes on then."""
    first = load(cluster)
    cluster.logs[ONE] = LogInMemory([segment(90)])
    cluster.logs[TWO].data += segment(1)
    with pytest.raises(ReplacedLogError, match=r"views/0-0 was .* offset 3000, but .* made again, or .*--restart-rep"):
        load(cluster, first)
    assert ranges_after(cluster, first, restart=True) == [OffsetRange(ONE, 0, 9000), OffsetRange(TWO, 300, 400)]
    second = load(cluster, first, restart=True)
    cluster.logs[ONE].data += segment(1)
    assert ranges_after(cluster, second) == [OffsetRange(ONE, 9000, 9100)]


def test_another_log_as_long_as_the_old_one_is_found_out_once_it_grows(cluster: ClusterInMemory) -> None:
    first = load(cluster)
    cluster.logs[ONE] = LogInMemory([segment(30)])
    assert ranges_after(cluster, first) == []
    cluster.logs[ONE].data += segment(1)
    with pytest.raises(ReplacedLogError, match="what stands before that offset is not what was loaded"):
        load(cluster, first)


def test_a_shorter_log_is_refused(cluster: ClusterInMemory) -> None:
    first = load(cluster)
    cluster.logs[ONE] = LogInMemory([segment(10)])
    cluster.logs[TWO] = LogInMemory([segment(1)])
    with pytest.raises(ReplacedLogError, match=r"its log ends at 1000, and 1 more partitions are like it: the disk"):
        load(cluster, first)
    second = load(cluster, first, restart=True)
    assert (second.offsets, set(checks_of(second))) == ({ONE: 1000, TWO: 100}, {ONE, TWO})


def test_what_retention_has_removed_cannot_be_compared(cluster: ClusterInMemory) -> None:
    """That is no sign of another log, as long as nothing is missing; then the rules of lost data hold."""
    first = load(cluster)
    cluster.logs[ONE].data += segment(20)
    cluster.logs[ONE].starts += [3000, 4000]
    cluster.logs[ONE].delete_until(3000)
    assert ranges_after(cluster, first) == [OffsetRange(ONE, 3000, 5000)]
    cluster.logs[ONE].delete_until(4000)
    with pytest.raises(DataLossError):
        load(cluster, first)
    assert load(cluster, first, LENIENT).offsets[ONE] == 5000


def test_bytes_of_two_segments_are_compared(cluster: ClusterInMemory) -> None:
    """A fetch ends where a segment does."""
    cluster.logs[ONE] = LogInMemory([segment(30), segment(5), segment(2)])
    first = load(cluster)
    assert checks_of(first)[ONE][:2] == (3700 - CHECKED_BYTES, 3700)
    cluster.logs[ONE].data += segment(1)
    assert ranges_after(cluster, first) == [OffsetRange(ONE, 3700, 3800)]


def test_commits_without_checks_are_believed(cluster: ClusterInMemory) -> None:
    """Those of earlier versions, and checks that are of other offsets than the commit's."""
    first = load(cluster)
    bare = replace(first, extra={})
    moved = replace(first, offsets={**first.offsets, ONE: 2900})
    assert checks_of(bare) == {}
    assert set(checks_of(moved)) == {TWO}
    cluster.logs[ONE].data += segment(1)
    assert ranges_after(cluster, bare) == [OffsetRange(ONE, 3000, 3100)]
    assert ranges_after(cluster, moved) == [OffsetRange(ONE, 2900, 3100)]


def test_a_partition_whose_broker_is_away_keeps_its_check(cluster: ClusterInMemory) -> None:
    first = load(cluster)
    cluster.away = {1}
    cluster.logs[ONE].data += segment(1)
    second = load(cluster, first)
    assert checks_of(second)[TWO] == checks_of(first)[TWO]


def test_a_topic_that_is_not_registered_yet_is_waited_for(cluster: ClusterInMemory) -> None:
    logs = dict(cluster.logs)
    cluster.logs.clear()
    asked = 0

    def ask() -> Begun:
        nonlocal asked
        asked += 1
        if asked == 3:
            cluster.logs.update(logs)
        with cluster.lookup(OPTIONS) as lookup:
            return resolve(OPTIONS, lookup, None, {}, restart_replaced=False)

    assert once_registered(ask, 60).resolved.size_bytes == 3300
    assert asked == 3


def test_a_topic_that_nobody_registers_is_unknown(cluster: ClusterInMemory) -> None:
    cluster.logs.clear()

    def ask() -> Begun:
        with cluster.lookup(OPTIONS) as lookup:
            return resolve(OPTIONS, lookup, None, {}, restart_replaced=False)

    with pytest.raises(UnknownTopicError, match="topic views is unknown"):
        once_registered(ask, 0.5)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (DataLossError("gone. To go on with what there is, set failOnDataLoss to false"), "use --no-fail-on-data-loss"),
        (DataLossError("gone (failOnDataLoss is true)"), r"\(to go on with what there is, use --no-fail-on-data-loss"),
        (BrokerAwayError("was away (kafkaConsumer.pollTimeoutMs)"), "--option kafkaConsumer.pollTimeoutMs="),
    ],
)
def test_errors_name_the_options_of_a_load(error: KafkaError, said: str) -> None:
    with pytest.raises(type(error), match=said) as found, in_our_words():
        raise error
    assert "failOnDataLoss" not in str(found.value)


def test_checks_are_small_json(cluster: ClusterInMemory) -> None:
    kept = load(cluster).extra[LOG_CHECKS]
    assert set(kept) == {"0-0", "1-0"}
    assert len(json.dumps(kept)) < 80
