"""Changes of topics that are refused before ZooKeeper is read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from kafka2011.config import GatewayConfig
from kafka2011.gateway.protocol.errors import ErrorCode
from kafka2011.gateway.topic_changes import TopicChanges
from zk.cluster import TopicPartition
from zk.gateways import PartitionList


def test_a_check_alone_says_what_would_be_refused_and_changes_nothing() -> None:
    """There is no ZooKeeper that could be changed."""
    known = PartitionList("views", uuid4(), (TopicPartition("views", 1, 0), TopicPartition("views", 2, 0)), 0)
    catalogue: Any = SimpleNamespace(lists={"views": known}, brokers={1: None, 2: None})
    changes = TopicChanges(GatewayConfig(zk_connect="127.0.0.1:1", directory=Path("unused")), catalogue)
    try:
        assert changes.create("views", 4, only_check=True)[0] is ErrorCode.TOPIC_ALREADY_EXISTS
        assert changes.grow("views", 2, only_check=True)[0] is ErrorCode.INVALID_PARTITIONS
        assert changes.grow("clicks", 4, only_check=True)[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    finally:
        changes.stop()
