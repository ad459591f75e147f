"""The choice of a partition, and what happens when what is known of the brokers does not do."""

from __future__ import annotations

from typing import cast

import pytest

from kafka2011.producer import router as router_module
from kafka2011.producer.errors import InvalidPartitionError, NoBrokersError
from kafka2011.producer.partition_info import ListedBrokers
from kafka2011.producer.partitioner import DefaultPartitioner
from kafka2011.producer.router import Router
from kafka2011.wire.protocol import ANY_PARTITION
from tests.support.clocks import ManualClock
from zk.cluster import Broker, TopicPartition

CLOCK = ManualClock()


class StaleInfo(ListedBrokers):
    """Knows brokers 0 and 1, each with 2 partitions; broker 1's address only after some refreshes."""

    def __init__(self, refreshes: int) -> None:
        super().__init__([Broker(0, "host", 1), Broker(1, "host", 2)])
        self._missing = refreshes

    def partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition.all_of(topic, {0: 2, 1: 2}))

    choices = partitions

    def broker(self, broker_id: int) -> Broker | None:
        return None if broker_id == 1 and self._missing else super().broker(broker_id)

    def refresh(self) -> None:
        self._missing -= 1


class Growing(ListedBrokers):
    """One broker, with more and more partitions."""

    count = 1

    def choices(self, topic: str) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition.all_of(topic, {0: self.count}))


class Constant:
    """Finds the same partition for every key."""

    def __init__(self, partition: int) -> None:
        self._partition = partition

    def partition(self, key: object, num_partitions: int) -> int:
        return self._partition


def test_what_is_known_is_read_again_before_a_send_fails() -> None:
    """As often as zk.read.num.retries, when the key's broker is not alive."""
    assert Router(StaleInfo(2), Constant(3), 2, CLOCK).by_key("t", "key") == TopicPartition("t", 1, 1)
    with pytest.raises(NoBrokersError, match="broker 1, which has t/1-1, is not alive"):
        Router(StaleInfo(3), Constant(3), 2, CLOCK).by_key("t", "key")


@pytest.mark.parametrize("partition", [-1, 4])
def test_a_partitioner_must_choose_one_that_exists(partition: int) -> None:
    """Anything else is an error that names the topic."""
    with pytest.raises(InvalidPartitionError, match=rf"returned {partition} for a key of topic t, which has 4"):
        Router(StaleInfo(0), Constant(partition), 0, CLOCK).by_key("t", "key")


def test_without_a_key_partitions_take_turns() -> None:
    """All of them before any comes again; those of a broker that is down only when there is no other."""
    clock = ManualClock()
    router = Router(StaleInfo(0), DefaultPartitioner(), 0, clock)
    every = set(StaleInfo(0).choices("t"))
    for _ in range(10):
        assert {router.next("t") for _ in every} == every
    router.mark_down(0, 5.0)
    assert {router.next("t").broker_id for _ in range(50)} == {1}
    assert router.elsewhere("t", 1) is None
    elsewhere = router.elsewhere("t", 0)
    assert elsewhere is not None
    assert elsewhere.broker_id == 1
    router.mark_down(1, 5.0)
    assert {router.next("t").broker_id for _ in range(50)} == {0, 1}
    router.mark_up(1)
    assert {router.next("t").broker_id for _ in range(50)} == {1}
    clock.now_s = 5.0
    assert {router.next("t").broker_id for _ in range(50)} == {0, 1}


def test_turns_follow_the_partitions_that_there_are() -> None:
    """A partition that appears takes part at once."""
    info = Growing([Broker(0, "host", 1)])
    router = Router(info, DefaultPartitioner(), 0, CLOCK)
    assert {router.next("t").partition for _ in range(5)} == {0}
    info.count = 3
    assert {router.next("t").partition for _ in range(3)} == {0, 1, 2}


def test_a_partition_that_is_named_is_taken_if_its_broker_lives() -> None:
    """After what is known was read again."""
    wanted = TopicPartition("t", 1, 7)
    assert Router(StaleInfo(2), DefaultPartitioner(), 2, CLOCK).named("t", wanted) == wanted
    with pytest.raises(NoBrokersError, match="which has t/1-7, is not alive"):
        Router(StaleInfo(3), DefaultPartitioner(), 2, CLOCK).named("t", wanted)
    with pytest.raises(InvalidPartitionError, match="t/1-7 is not a partition of topic u"):
        Router(StaleInfo(0), DefaultPartitioner(), 2, CLOCK).named("u", wanted)


class Short(StaleInfo):
    """It is known, after some refreshes, that broker 1 has seven partitions of the topic."""

    def lacks(self, partition: TopicPartition) -> bool:
        return partition.partition >= (7 if self._missing > 0 else 8)


def test_a_partition_that_is_named_must_be_there() -> None:
    """The broker would drop what is sent to another one; and what names no partition is an error in words."""
    wanted = TopicPartition("t", 1, 7)
    with pytest.raises(InvalidPartitionError, match="there is no t/1-8: broker 1 has 2 partitions of topic t"):
        Router(Short(0), DefaultPartitioner(), 2, CLOCK).named("t", wanted._replace(partition=8))
    assert Router(Short(1), DefaultPartitioner(), 2, CLOCK).named("t", wanted) == wanted
    with pytest.raises(TypeError, match=r"a partition is a TopicPartition\(topic, broker_id, partition\), not int"):
        Router(Short(0), DefaultPartitioner(), 2, CLOCK).named("t", cast("TopicPartition", 0))


class Unborn(Growing):
    """The same, which nobody has registered before some refreshes."""

    def __init__(self, refreshes: int) -> None:
        super().__init__([Broker(0, "host", 1)])
        self._missing = refreshes

    def choices(self, topic: str) -> tuple[TopicPartition, ...]:
        return () if self._missing else super().choices(topic)

    def refresh(self) -> None:
        self._missing -= 1


def test_without_a_key_what_is_known_is_read_again_too() -> None:
    """As often as with one."""
    assert Router(Unborn(2), DefaultPartitioner(), 2, CLOCK).next("t") == TopicPartition("t", 0, 0)
    with pytest.raises(NoBrokersError, match="no live broker is known for topic t"):
        Router(Unborn(3), DefaultPartitioner(), 2, CLOCK).next("t")


def test_turns_are_remembered_for_so_many_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer of ever new topics needs no ever more memory."""
    monkeypatch.setattr(router_module, "_MAX_TURNS", 3)
    router = Router(StaleInfo(0), DefaultPartitioner(), 0, CLOCK)
    for number in range(10):
        router.next(f"t{number}")
        assert len(router.turns) <= 3


def test_broker_list_leaves_partitions_to_the_broker() -> None:
    """Brokers are sorted as numbers; a key has partition 0 of one of them."""
    info = ListedBrokers([Broker(10, "ten", 1), Broker(9, "nine", 1)])
    assert info.partitions("t") == (TopicPartition("t", 9, 0), TopicPartition("t", 10, 0))
    assert info.choices("t") == (TopicPartition("t", 9, ANY_PARTITION), TopicPartition("t", 10, ANY_PARTITION))
    assert info.broker(10) == Broker(10, "ten", 1)
    assert info.broker(8) is None


def test_a_broker_that_is_not_alive_gets_nothing_without_a_key() -> None:
    """Neither in turn nor in place of another."""
    router = Router(StaleInfo(1000), DefaultPartitioner(), 0, CLOCK)
    assert {router.next("t").broker_id for _ in range(20)} == {0}
    assert router.elsewhere("t", 0) is None


def test_a_named_partition_is_looked_for_as_often_as_others() -> None:
    """While its broker is not alive."""
    where = TopicPartition("t", 1, 1)
    assert Router(StaleInfo(2), DefaultPartitioner(), 2, CLOCK).named("t", where) == where
    with pytest.raises(NoBrokersError, match="broker 1, which has t/1-1, is not alive"):
        Router(StaleInfo(3), DefaultPartitioner(), 2, CLOCK).named("t", where)


def test_a_key_has_no_partition_while_none_are_known() -> None:
    """The error says that there is no broker, not that something was divided by 0."""
    with pytest.raises(NoBrokersError, match="no live broker is known for topic t"):
        Router(ListedBrokers([]), DefaultPartitioner(), 1, CLOCK).by_key("t", "key")
