"""How partitions are divided among brokers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from kafka2011.config import GatewayConfig
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.topic_changes import DONE, MOST_PARTITIONS, TopicChanges, shares
from zk.cluster import TopicPartition
from zk.gateways import PartitionList


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        (1, {1: 1}),
        (2, {1: 1, 2: 1}),
        (3, {1: 1, 2: 1, 5: 1}),
        (6, {1: 2, 2: 2, 5: 2}),
        (4, None),
        (0, None),
        (-1, None),
        (MOST_PARTITIONS + 3, None),
    ],
)
def test_there_are_exactly_so_many_or_none(partitions: int, expected: dict[int, int] | None) -> None:
    assert shares(partitions, [1, 2, 5]) == expected


def test_a_check_alone_says_what_would_be_refused_and_changes_nothing() -> None:
    """There is no ZooKeeper that could be changed."""
    known = PartitionList("views", uuid4(), (TopicPartition("views", 1, 0), TopicPartition("views", 2, 0)), 0)
    catalogue: Any = SimpleNamespace(lists={"views": known}, brokers={1: None, 2: None})
    changes = TopicChanges(GatewayConfig(zk_connect="127.0.0.1:1", directory=Path("unused")), catalogue)
    try:
        assert changes.create("clicks", 4, only_check=True) == DONE
        assert changes.create("clicks", 3, only_check=True)[0] is ErrorCode.INVALID_PARTITIONS
        assert changes.create("views", 4, only_check=True)[0] is ErrorCode.TOPIC_ALREADY_EXISTS
        assert changes.grow("views", 4, only_check=True) == DONE
        assert changes.grow("views", 2, only_check=True)[0] is ErrorCode.INVALID_PARTITIONS
        assert changes.grow("clicks", 4, only_check=True)[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    finally:
        changes.stop()
