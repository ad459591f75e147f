"""Which order of partitions counts: a number that clients know never means another partition."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from kafka2011.gateway.partition_lists import ListsFile, wanted_list
from zk.cluster import TopicPartition
from zk.gateways import PartitionList
from zk.number_floors import NumberFloors

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

ID, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)


def where(name: str) -> TopicPartition:
    return TopicPartition.from_znode_name("views", name)


def listed(*names: str, topic_id: uuid.UUID = ID, version: int = 3) -> PartitionList:
    return PartitionList("views", topic_id, tuple(map(where, names)), version)


def wanted(kept: PartitionList | None, stored: PartitionList | None, *present: str) -> tuple[list[str], int]:
    made = wanted_list("views", kept, stored, map(where, present))
    return [each.znode_name for each in made.partitions], made.version


def test_new_partitions_come_last() -> None:
    assert wanted(None, None, "0-0", "1-0") == (["0-0", "1-0"], -1)
    assert wanted(None, listed("1-0"), "0-0", "1-0") == (["1-0", "0-0"], 3)
    assert wanted(listed("1-0"), listed("1-0"), "1-0") == (["1-0"], 3)


def test_what_another_gateway_has_appended_counts() -> None:
    assert wanted(listed("1-0"), listed("1-0", "2-0"), "0-0") == (["1-0", "2-0", "0-0"], 3)


def test_a_list_of_before_is_put_right() -> None:
    """ZooKeeper was restored: clients know more than it."""
    assert wanted(listed("1-0", "0-0"), listed("1-0"), "0-0", "1-0", "2-0") == (["1-0", "0-0", "2-0"], 3)
    made = wanted_list("views", listed("1-0", "0-0"), None, [where("0-0")])
    assert (made.topic_id, made.version) == (ID, -1)
    assert [each.znode_name for each in made.partitions] == ["1-0", "0-0"]


def test_the_order_that_clients_know_counts_if_there_are_two(caplog: pytest.LogCaptureFixture) -> None:
    assert wanted(listed("1-0", "0-0"), listed("1-0", "2-0"), "0-0") == (["1-0", "0-0", "2-0"], 3)
    assert "another order" in caplog.text


def test_a_topic_with_another_id_is_another_one() -> None:
    made = wanted_list("views", listed("1-0", "0-0"), listed("0-0", topic_id=OTHER), [where("0-0")])
    assert made == listed("0-0", topic_id=OTHER)


def test_a_topic_that_was_deleted_is_another_one_when_it_is_created_again() -> None:
    deleted = listed("1-0", "0-0")._replace(is_deleted=True)
    made = wanted_list("views", listed("1-0", "0-0"), deleted, [where("0-0")])
    assert made.topic_id not in {ID, OTHER}
    assert (made.partitions, made.version, made.is_deleted) == ((where("0-0"),), 3, False)
    restored = wanted_list("views", listed("0-0", topic_id=OTHER), deleted, [where("0-0")])
    assert (restored.topic_id, restored.version) == (OTHER, 3)


def test_lists_are_kept_in_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "topics.json"
    assert ListsFile(path).load() == ({}, {})
    floors = {"views": NumberFloors((10, 20), 5, OTHER), "gone": NumberFloors((1,))}
    ListsFile(path).store({"views": listed("1-0", "0-0")}, floors)
    assert ListsFile(path).load() == ({"views": listed("1-0", "0-0", version=-1)}, {"views": floors["views"]})

    path.write_bytes(b'{"views": 7}')
    assert ListsFile(path).load() == ({}, {})
    assert "topics.json cannot be read" in caplog.text
