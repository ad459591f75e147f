"""Brokers and partitions, and their znode text both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zk.cluster import MAX_INT32, Broker, TopicPartition, decimal_from
from zk.errors import InvalidName, MalformedNode

ids = st.integers(0, MAX_INT32)
hosts = st.from_regex(r"[A-Za-z0-9_.\-]{1,60}", fullmatch=True)
NOT_A_BROKER: list[bytes | None] = [
    b"",
    b"h",
    b"h:1",
    b"h-1:h:",
    b"h-1:h:x",
    b"h-1:h:0",
    b"h-1:h:65536",
    b"h-1::9092",
    b":h:9092",
]
NOT_A_BROKER += [b"h-1:h:9092:x", b"h-1:h:9092\n", b"h-1:h h:9092", b"h-1:h:-1", b"\xff-1:h:9092", None]


def test_a_broker_is_written_as_07_does() -> None:
    """`creator:host:port`, the creator being host and start time."""
    broker = Broker.created(0, "127.0.0.1", 19092, 1795209775990)
    assert broker.text == "127.0.0.1-1795209775990:127.0.0.1:19092"
    assert Broker.from_node("/x", 0, broker.text.encode()) == broker


@given(ids, hosts, hosts, st.integers(1, 65535))
def test_any_broker_comes_back_from_its_text(broker_id: int, creator: str, host: str, port: int) -> None:
    """Writing and reading a broker changes nothing."""
    broker = Broker(broker_id, host, port, creator)
    assert Broker.from_node("/x", broker_id, broker.text.encode()) == broker


@pytest.mark.parametrize("data", NOT_A_BROKER)
def test_a_malformed_broker_names_its_path(data: bytes | None) -> None:
    """Whoever reads the error knows which znode to look at."""
    with pytest.raises(MalformedNode, match=r"^/brokers/ids/7: ") as caught:
        Broker.from_node("/brokers/ids/7", 7, data)
    assert caught.value.path == "/brokers/ids/7"


@given(st.binary(max_size=80))
def test_garbage_raises_only_malformed_node(data: bytes) -> None:
    """Any bytes are either a broker, whose text they are, or malformed."""
    try:
        broker = Broker.from_node("/brokers/ids/1", 1, data)
    except MalformedNode:
        return
    assert broker.text.encode() == data or broker.port == int(data.rpartition(b":")[2])


@pytest.mark.parametrize(("host", "port", "broker_id"), [("::1", 9092, 0), ("h", 0, 0), ("", 9092, 0), ("h", 1, -1)])
def test_a_broker_that_07_could_not_read_is_never_made(host: str, port: int, broker_id: int) -> None:
    """0.7 splits the text at every colon."""
    with pytest.raises(InvalidName):
        Broker.created(broker_id, host, port, 1)


@given(ids, ids)
def test_any_partition_comes_back_from_its_name(broker_id: int, partition: int) -> None:
    """Writing and reading a partition's name changes nothing."""
    value = TopicPartition("views", broker_id, partition)
    assert TopicPartition.from_znode_name("views", value.znode_name) == value
    assert str(value) == f"views/{value.znode_name}"


@pytest.mark.parametrize("name", ["", "0", "0-", "-0", "0-0-0", "00-0", "0-01", "a-0", "0--1", "0-2147483648", "0-0 "])
def test_a_malformed_partition_names_its_path(name: str) -> None:
    """Two names never stand for one partition, so none may have leading zeros."""
    with pytest.raises(MalformedNode) as caught:
        TopicPartition.from_znode_name("t", name, "/consumers/g/owners/t")
    assert caught.value.path == f"/consumers/g/owners/t/{name}"


def test_partitions_have_the_two_orders_of_07() -> None:
    """Producers sort numerically, consumers sort whole names."""
    partitions = [TopicPartition("t", *numbers) for numbers in ((0, 10), (10, 0), (0, 2), (2, 0))]
    assert [p.znode_name for p in sorted(partitions)] == ["0-2", "0-10", "2-0", "10-0"]
    assert sorted(p.znode_name for p in partitions) == ["0-10", "0-2", "10-0", "2-0"]


@pytest.mark.parametrize("data", [None, b"", b"-1", b"+1", b"01", b" 1", b"1.0", b"11", b"\xd9\xa1", b"9" * 30])
def test_a_number_is_plain_decimal_within_its_limit(data: bytes | None) -> None:
    """What int() alone would take (signs, spaces, other digits) is malformed here."""
    with pytest.raises(MalformedNode, match=r"not a size|no data"):
        decimal_from("/x", data, 10, "a size")


def test_a_number_within_its_limit_is_read() -> None:
    """The limit itself still counts."""
    assert [decimal_from("/x", b"%d" % n, 10, "a size") for n in (0, 1, 10)] == [0, 1, 10]
