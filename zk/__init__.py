"""The coordination layer: the paper's registries in ZooKeeper (section 3.2), with Kafka 0.7's znodes.

Knows nothing of `kafka2011`. Names are imported when they are first used, so that `import zk` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zk.brokers import BrokerRegistry
    from zk.child import ChildProcess
    from zk.client import ZkClient, connect
    from zk.cluster import Broker, Partition
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
    from zk.local import LocalZooKeeper

_HOMES = {
    "Broker": "zk.cluster",
    "BrokerRegistry": "zk.brokers",
    "ChildProcess": "zk.child",
    "ConnectionLost": "zk.errors",
    "LocalZooKeeper": "zk.local",
    "MalformedNode": "zk.errors",
    "NodeHeld": "zk.errors",
    "NotConnected": "zk.errors",
    "Partition": "zk.cluster",
    "SessionExpired": "zk.errors",
    "VersionConflict": "zk.errors",
    "ZkClient": "zk.client",
    "ZkError": "zk.errors",
    "ZkUnavailable": "zk.errors",
    "connect": "zk.client",
}

__all__ = [
    "Broker",
    "BrokerRegistry",
    "ChildProcess",
    "ConnectionLost",
    "LocalZooKeeper",
    "MalformedNode",
    "NodeHeld",
    "NotConnected",
    "Partition",
    "SessionExpired",
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
