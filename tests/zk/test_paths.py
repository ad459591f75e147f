"""Znode paths."""

from __future__ import annotations

import pytest

from zk import paths
from zk.cluster import TopicPartition
from zk.errors import InvalidName, ZkError


def test_paths_are_those_of_kafka_07() -> None:
    """Every registry lies where 0.7 looks for it."""
    assert paths.broker(3) == "/brokers/ids/3"
    assert paths.topic("views") == "/brokers/topics/views"
    assert paths.topic_broker("views", 3) == "/brokers/topics/views/3"
    assert paths.consumer_ids("g") == "/consumers/g/ids"
    assert paths.consumer("g", "g_host-1-0a1b2c3d") == "/consumers/g/ids/g_host-1-0a1b2c3d"
    assert paths.owner("g", TopicPartition("views", 3, 10)) == "/consumers/g/owners/views/3-10"
    assert paths.offset("g", TopicPartition("views", 3, 10)) == "/consumers/g/offsets/views/3-10"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "/", "a\x00", "a\nb", "\x7f", "\x9f", "\ud800", "\uf8ff", "x" * 256]
)
def test_a_name_that_cannot_be_a_path_component_is_refused(name: str) -> None:
    """What ZooKeeper would refuse, or what would lead elsewhere, never gets into a path."""
    with pytest.raises(InvalidName, match="group"):
        paths.group(name)
    with pytest.raises(ZkError, match="consumer"):
        paths.consumer("g", name)
    with pytest.raises(ValueError, match="topic"):
        paths.topic(name)


@pytest.mark.parametrize("name", ["a", "...", "a.b", "a-b_c", "naïve", "日本", "x" * 255, "a b"])
def test_other_names_pass_unchanged(name: str) -> None:
    """0.7 groups may hold any text that ZooKeeper takes."""
    assert paths.group(name) == f"/consumers/{name}"


def test_parent_and_child_are_inverse() -> None:
    """The root is its own special case."""
    assert paths.parent("/brokers") == "/"
    assert paths.parent("/brokers/ids/0") == "/brokers/ids"
    assert paths.child("/", "brokers") == "/brokers"
    assert paths.child("/brokers", "ids") == "/brokers/ids"
