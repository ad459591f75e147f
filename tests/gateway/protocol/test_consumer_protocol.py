"""The bytes of subscriptions and assignments, against those of a codec that is generated from Kafka's own tables."""

from __future__ import annotations

import io
import struct
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from kafka2011.gateway.protocol.consumer_protocol import (
    MemberSubscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from kafka2011.gateway.protocol.errors import MalformedRequestError
from tests.planted.patches import read_defects
from tests.planted.planting import planted

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.planted.patches import Defect

VERSIONS = range(4)
NUMBERS = st.lists(st.integers(0, 2**31 - 1), max_size=5).map(tuple)
TOPICS = st.lists(st.text(max_size=20), unique=True, max_size=5).map(tuple)
PARTITIONS = st.dictionaries(st.text(max_size=20), NUMBERS, max_size=5)


def module_of(name: str, version: int) -> Any:
    return import_module(f"kio.schema.consumer_protocol_{name}.v{version}.data")


def kio_bytes(entity: Any, version: int) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return struct.pack(">h", version) + buffer.getvalue()


def kio_subscription(version: int, topics: tuple[str, ...], owned: dict[str, tuple[int, ...]]) -> bytes:
    kio = module_of("subscription", version)
    fields: dict[str, Any] = {"topics": topics, "user_data": b"zone"}
    if version >= 1:
        fields["owned_partitions"] = tuple(
            kio.TopicPartition(topic=topic, partitions=of) for topic, of in owned.items()
        )
    if version >= 2:
        fields["generation_id"] = 7
    if version >= 3:
        fields["rack_id"] = "r1"
    return kio_bytes(kio.ConsumerProtocolSubscription(**fields), version)


def kio_assignment(data: bytes) -> dict[str, tuple[int, ...]]:
    entity, size = entity_reader(module_of("assignment", 0).ConsumerProtocolAssignment)(data, 2)
    assert 2 + size == len(data)
    return {each.topic: tuple(each.partitions) for each in entity.assigned_partitions}


@given(topics=TOPICS, owned=PARTITIONS)
def test_a_subscription_of_each_version_is_read(topics: tuple[str, ...], owned: dict[str, tuple[int, ...]]) -> None:
    """Version 0 does not say what a member owns, which is another thing than that it owns nothing."""
    for version in VERSIONS:
        expected = MemberSubscription(topics, owned if version else None)
        assert read_subscription(kio_subscription(version, topics, owned)) == expected


@given(topics=TOPICS, owned=st.none() | PARTITIONS, user_data=st.none() | st.binary(max_size=20))
def test_a_subscription_is_read_as_it_was_written(
    topics: tuple[str, ...], owned: dict[str, tuple[int, ...]] | None, user_data: bytes | None
) -> None:
    assert read_subscription(write_subscription(topics, owned, user_data)) == (topics, owned)


@given(partitions=PARTITIONS)
def test_an_assignment_is_read_by_kafka_and_by_us(partitions: dict[str, tuple[int, ...]]) -> None:
    data = write_assignment(partitions)
    assert kio_assignment(data) == read_assignment(data) == partitions


def test_no_bytes_are_no_assignment() -> None:
    """A member that has joined and not synchronised yet has none."""
    assert read_assignment(b"") == {}


def test_a_topic_that_is_named_twice_counts_once() -> None:
    """And its partitions are taken together."""
    assert read_subscription(write_subscription(["a", "b", "a"])).topics == ("a", "b")
    kio = module_of("assignment", 1)
    twice = tuple(kio.TopicPartition(topic="a", partitions=(number,)) for number in (1, 2))
    data = kio_bytes(kio.ConsumerProtocolAssignment(assigned_partitions=twice, user_data=None), 1)
    assert read_assignment(data) == {"a": (1, 2)}


def test_a_later_version_is_read_as_the_newest_that_is_known() -> None:
    """Its fields come behind those."""
    later = b"\0\x09" + kio_subscription(3, ("a",), {"a": (1,)})[2:] + b"more"
    assert read_subscription(later) == (("a",), {"a": (1,)})


def test_a_subscription_that_ends_as_version_0_does_is_read_as_version_0() -> None:
    """As kafka-go and old releases of Sarama write it."""
    data = b"\0\x01" + write_subscription(["a"], user_data=b"zone")[2:]
    assert read_subscription(data) == (("a",), None)
    with pytest.raises(MalformedRequestError):
        read_subscription(data + b"\0")


def test_bytes_that_end_too_early_are_refused() -> None:
    """Wherever they end, but where version 0 ends."""
    whole = kio_subscription(3, ("a",), {"a": (1,)})
    end_of_version_0 = len(kio_subscription(0, ("a",), {}))
    for size in set(range(len(whole))) - {end_of_version_0}:
        with pytest.raises(MalformedRequestError):
            read_subscription(whole[:size])
    assignment = write_assignment({"a": (1,)})
    for size in range(1, len(assignment)):
        with pytest.raises(MalformedRequestError):
            read_assignment(assignment[:size])
    for data in (b"\xff\xff" + whole[2:], whole[:2] + b"\x7f" + whole[3:]):
        with pytest.raises(MalformedRequestError):
            read_subscription(data)


@pytest.mark.parametrize("defect", read_defects("gateway_consumer_protocol").values(), ids=lambda defect: defect.name)
def test_each_defect_is_noticed(defect: Defect) -> None:
    """By the check that it names."""
    check: Callable[[], None] = globals()[defect.shows["noticed_by"]]
    with planted(defect), pytest.raises((AssertionError, MalformedRequestError, pytest.fail.Exception)):
        check()
