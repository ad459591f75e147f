"""The ZooKeeper session of a command, with the environment's timeouts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from kafka2011.config.kinds import ZK_CONNECT, Integer
from kafka2011.config.settings import Settings, same_as, setting
from zk.connecting import DEFAULT_SESSION_TIMEOUT_MS, connect

if TYPE_CHECKING:
    from zk.client import ZkClient


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig(Settings):
    """What a command that only asks ZooKeeper reads of the environment; clients have the same settings."""

    COMPONENT: ClassVar[str] = "command"

    zk_connect: str = setting(None, ZK_CONNECT, "ZooKeeper's servers.")
    zk_sessiontimeout_ms: int = setting(DEFAULT_SESSION_TIMEOUT_MS, Integer(1), "Silence after which the session ends.")
    zk_connectiontimeout_ms: int = setting(
        None, Integer(1), "How long to wait for ZooKeeper at the start.", fallback=same_as("zk.sessiontimeout.ms")
    )


def open_session(zk_connect: str) -> ZkClient:
    """Connect to ZooKeeper. Raises ConfigError for a bad variable of the environment, ZkError when nobody answers."""
    config = SessionConfig.from_sources(
        environ=os.environ, overrides=[f"zk.connect={zk_connect}"], option="--zookeeper"
    )
    return connect(config.zk_connect, config.zk_sessiontimeout_ms, config.zk_connectiontimeout_ms)
