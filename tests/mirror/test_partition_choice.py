"""Which partition of the target a set goes to."""

from __future__ import annotations

from kafka2011.mirror.partition_choice import PartitionChoice
from zk.cluster import TopicPartition


def partitions(*names: str, topic: str = "views") -> list[TopicPartition]:
    return [TopicPartition.from_znode_name(topic, name) for name in names]


SOURCES = partitions("0-0", "0-1", "2-0", "10-0")
TARGETS = partitions("5-0", "5-1", "5-2", "5-3", topic="copy")


def test_equally_many_partitions_are_paired_in_order() -> None:
    """By broker and number, as numbers, however they are listed; the topic's name does not matter."""
    choice = PartitionChoice()
    assert [choice.choose(each, SOURCES[::-1], TARGETS[::-1]) for each in SOURCES] == TARGETS


def test_another_number_of_partitions_means_any() -> None:
    """Also when there is none."""
    choice = PartitionChoice()
    assert choice.choose(SOURCES[0], SOURCES, TARGETS[:3]) is None
    assert choice.choose(SOURCES[0], SOURCES, []) is None
    assert choice.choose(SOURCES[0], [], []) is None


def test_a_pairing_outlives_brokers_that_are_away() -> None:
    """Of either side, or of both, when counts may agree by chance; and it holds when they are back."""
    choice = PartitionChoice()
    choice.choose(SOURCES[0], SOURCES, TARGETS)
    for sources, targets in (
        (SOURCES[2:], TARGETS),
        (SOURCES, TARGETS[:1]),
        (SOURCES[2:], TARGETS[:2]),
        (SOURCES, []),
        (SOURCES, TARGETS),
    ):
        assert choice.choose(SOURCES[3], sources, targets) == TARGETS[3]


def test_a_new_partition_ends_a_pairing() -> None:
    """Then counts decide anew."""
    choice = PartitionChoice()
    choice.choose(SOURCES[0], SOURCES[:3], TARGETS[:3])
    assert choice.choose(SOURCES[0], SOURCES, TARGETS[:3]) is None
    assert choice.choose(SOURCES[0], SOURCES[:3], TARGETS[:3]) == TARGETS[0]
    assert choice.choose(SOURCES[3], SOURCES, TARGETS) == TARGETS[3]
    assert choice.choose(SOURCES[0], SOURCES, [*TARGETS, *partitions("6-0", topic="copy")]) is None
    assert choice.choose(SOURCES[0], SOURCES, TARGETS[:3]) is None, "the pairing that was ended does not come back"


def test_a_partition_that_is_not_registered_goes_anywhere() -> None:
    """As what was fetched from a broker before it went, when the mirror has begun without it."""
    assert PartitionChoice().choose(SOURCES[3], SOURCES[:3], TARGETS[:3]) is None
