"""Settings of the consumers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kafka2011.config.kinds import GROUP_NAME, ZK_CONNECT, Boolean, Choice, Integer
from kafka2011.config.settings import Settings, same_as, setting
from kafka2011.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleConsumerConfig(Settings):
    """Holds the settings of one connection that fetches from one broker."""

    COMPONENT: ClassVar[str] = "simple consumer"

    socket_timeout_ms: int = setting(30000, Integer(1), "How long connecting, or a request with its answer, may take.")
    socket_buffersize: int = setting(
        65536, Integer(1), "SO_RCVBUF of a connection, in bytes; at least twice `fetch.size`, and 2 MiB."
    )
    fetch_size: int = setting(
        1024 * 1024,
        Integer(1),
        "Bytes per fetch of a partition. A consumer that lags fetches several times that, up to 1 MiB, if"
        " its queue has space for the sets.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(SimpleConsumerConfig):
    """Holds the settings of a member of a consumer group."""

    COMPONENT: ClassVar[str] = "consumer"

    groupid: str = setting(None, GROUP_NAME, "The consumer group.")
    consumerid: str = setting(
        "", GROUP_NAME, "This member's name in the group. Default: host, time and a random number."
    )
    zk_connect: str = setting(None, ZK_CONNECT, "ZooKeeper's servers, `host:port,host:port`, and a `/chroot`.")
    zk_sessiontimeout_ms: int = setting(6000, Integer(1), "Silence after which ZooKeeper considers this member dead.")
    zk_connectiontimeout_ms: int = setting(
        None, Integer(1), "How long to wait for ZooKeeper at the start.", fallback=same_as("zk.sessiontimeout.ms")
    )
    zk_synctime_ms: int = setting(2000, Integer(1), "How far a ZooKeeper server may lag behind its leader.")
    session_watchdog: bool = setting(
        False,
        Boolean(),
        "Start a small process that ends the ZooKeeper session as soon as this process dies. Other members"
        " then take its partitions at once, not after `zk.sessiontimeout.ms`.",
    )

    autooffset_reset: str = setting(
        "smallest",
        Choice(("smallest", "largest")),
        "Where to start without a committed offset, or if that offset is no longer in the log.",
    )
    autooffset_newpartitions: str = setting(
        "reset",
        Choice(("reset", "smallest")),
        "Where to start in partitions created after this member joined: `smallest`, at their beginning, so that"
        " nothing is missed; `reset`, as `autooffset.reset` says.",
    )
    autocommit_enable: bool = setting(True, Boolean(), "Commit what was consumed at regular intervals.")
    autocommit_interval_ms: int = setting(10000, Integer(1), "Time between two such commits.")
    fetch_wait_max_ms: int = setting(
        30000,
        Integer(0, 60000),
        "How long a broker may wait at the tail of the logs for new messages before it answers; with 0, and"
        " at 0.7 brokers, it does not wait.",
    )
    fetch_min_bytes: int = setting(
        1, Integer(1), "How many new bytes the broker waits for, of all partitions together."
    )
    fetcher_backoff_ms: int = setting(
        1000, Integer(1), "The time until the next fetch if a broker had nothing new and did not wait."
    )
    queuedchunks_max: int = setting(10, Integer(1), "Fetched sets of `fetch.size` that may wait for one stream.")
    partition_assignment: str = setting(
        "range",
        Choice(("range", "fair")),
        "How a group assigns its partitions: `range`, each topic separately, as in 0.7; `fair`, all topics"
        " together, if all members ask for it.",
    )
    rebalance_retries_max: int = setting(4, Integer(1), "Attempts at a rebalance before it is logged as failing.")
    rebalance_backoff_ms: int = setting(
        None,
        Integer(1),
        "Time between two attempts, and the longest wait for the application when a partition is given up.",
        fallback=same_as("zk.synctime.ms"),
    )
    max_poll_interval_ms: int = setting(
        -1,
        Integer(-1),
        "If the application does not poll each stream within this time, the member gives up its partitions"
        " until it does; -1 or 0 turns this off.",
    )
    consumer_timeout_ms: int = setting(
        -1, Integer(-1), "Iteration ends after this time without a message; -1 waits without limit."
    )
    shallowiterator_enable: bool = setting(
        False, Boolean(), "Return compressed sets as they are, unopened, instead of the messages inside."
    )

    def _check(self) -> None:
        for key, value in (("groupid", self.groupid), ("zk.connect", self.zk_connect)):
            if not value:
                raise ConfigError(f"{key} must not be empty for the consumer")
