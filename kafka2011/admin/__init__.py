"""What operators do to topics and groups: `Admin`, and the functions below it for callers with a ZkClient."""

from __future__ import annotations

from kafka2011.admin.admin import Admin
from kafka2011.admin.groups import Groups
from kafka2011.admin.snapshot.cluster_snapshot import GroupPartition, PartitionEnds
from kafka2011.admin.topics import CreatedTopic, create_topic, describe_topic

__all__ = [
    "Admin",
    "CreatedTopic",
    "GroupPartition",
    "Groups",
    "PartitionEnds",
    "create_topic",
    "describe_topic",
]
