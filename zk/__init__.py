"""The coordination layer: the paper's registries in ZooKeeper (section 3.2), with Kafka 0.7's znodes.

Knows nothing of `kafka2011`. Names are imported when first used, so that `import zk` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zk.brokers import BrokerRegistry
    from zk.child import ChildProcess
    from zk.client import ZkClient
    from zk.cluster import Broker, TopicPartition
    from zk.connecting import connect
    from zk.consumers import ConsumerRegistry
    from zk.errors import (
        ConnectionLost,
        MalformedNode,
        NodeHeld,
        NotConnected,
        SessionExpired,
        VersionConflict,
        ZkError,
        ZkUnavailable,
    )
    from zk.local_zookeeper import LocalZooKeeper
    from zk.offsets import CommittedOffset, OffsetRegistry
    from zk.owners import Owner, OwnerRegistry
    from zk.sessions import SessionEvents, SessionLease

_HOMES = {
    "Broker": "zk.cluster",
    "BrokerRegistry": "zk.brokers",
    "ChildProcess": "zk.child",
    "CommittedOffset": "zk.offsets",
    "ConnectionLost": "zk.errors",
    "ConsumerRegistry": "zk.consumers",
    "LocalZooKeeper": "zk.local_zookeeper",
    "MalformedNode": "zk.errors",
    "NodeHeld": "zk.errors",
    "NotConnected": "zk.errors",
    "OffsetRegistry": "zk.offsets",
    "Owner": "zk.owners",
    "OwnerRegistry": "zk.owners",
    "SessionEvents": "zk.sessions",
    "SessionExpired": "zk.errors",
    "SessionLease": "zk.sessions",
    "TopicPartition": "zk.cluster",
    "VersionConflict": "zk.errors",
    "ZkClient": "zk.client",
    "ZkError": "zk.errors",
    "ZkUnavailable": "zk.errors",
    "connect": "zk.connecting",
}

__all__ = [
    "Broker",
    "BrokerRegistry",
    "ChildProcess",
    "CommittedOffset",
    "ConnectionLost",
    "ConsumerRegistry",
    "LocalZooKeeper",
    "MalformedNode",
    "NodeHeld",
    "NotConnected",
    "OffsetRegistry",
    "Owner",
    "OwnerRegistry",
    "SessionEvents",
    "SessionExpired",
    "SessionLease",
    "TopicPartition",
    "VersionConflict",
    "ZkClient",
    "ZkError",
    "ZkUnavailable",
    "connect",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)
