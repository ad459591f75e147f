"""What `Admin` returns and raises; `Admin` itself is imported from `kafka2011`.

The functions and classes below it, for callers that have a `ZkClient`, are not part of the public interface.
"""

from __future__ import annotations

from kafka2011.admin.admin import Admin as Admin
from kafka2011.admin.groups import Groups as Groups
from kafka2011.admin.groups import MisplacedOffsetsError
from kafka2011.admin.snapshot.cluster_snapshot import GroupPartition, PartitionEnds
from kafka2011.admin.topic_changes import TopicDeletion
from kafka2011.admin.topic_growth import BrokerChange
from kafka2011.admin.topics import CreatedTopic
from kafka2011.admin.topics import create_topic as create_topic
from kafka2011.admin.topics import describe_topic as describe_topic
from zk.errors import GroupInUse

__all__ = [
    "BrokerChange",
    "CreatedTopic",
    "GroupInUse",
    "GroupPartition",
    "MisplacedOffsetsError",
    "PartitionEnds",
    "TopicDeletion",
]
