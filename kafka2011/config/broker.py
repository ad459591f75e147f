"""Settings of a broker."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # a field's type
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  # a field's type
from typing import ClassVar

from kafka2011.config.kinds import (
    MAX_INT64,
    REPLICA_NAME,
    ZK_CONNECT,
    Boolean,
    Decimal,
    Directory,
    Host,
    Integer,
    TopicMap,
)
from kafka2011.config.server import ServerConfig, check_name_for_clients, name_for_clients
from kafka2011.config.settings import same_as, setting
from kafka2011.errors import ConfigError
from kafka2011.message.topic import DEFAULT_MAX_TOPIC_NAME_LENGTH


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig(ServerConfig):
    """Holds the settings of a broker, with 0.7's names and defaults; port 0 picks a free port."""

    COMPONENT: ClassVar[str] = "broker"
    IGNORED: ClassVar[Mapping[str, str]] = {
        "monitoring.period.secs": "nothing is collected periodically",
        "zk.synctime.ms": "only consumers wait for it",
    }

    brokerid: int = setting(None, Integer(0), "The id of the broker, unique in the cluster.")
    hostname: str = setting(
        None,
        Host(),
        "What is registered in ZooKeeper, for clients to connect to. Must be given when the broker listens on all"
        " addresses.",
        fallback=name_for_clients("hostname"),
    )
    port: int = setting(6667, Integer(0, 65535), "The port to listen on; 0 picks a free one.")
    tls_only: bool = setting(
        False,
        Boolean(),
        "Listen over TLS on `port`, and on no other port. 0.7 clients cannot connect then.",
    )

    num_threads: int = setting(
        2,
        Integer(0),
        "Threads that send large answers, by which many consumers get more than one core; all else is done by one"
        " event loop. 0: it sends them too.",
    )
    connections_max_idle_ms: int = setting(
        -1,
        Integer(-1),
        "Close a connection that sends nothing for this time; -1 or 0 turns this off. A 0.7 producer does"
        " not notice, and loses what it sends next.",
    )

    log_dir: Path = setting(None, Directory(), "The directory that holds the logs.")
    log_dir_label_required: bool = setting(
        False,
        Boolean(),
        "Do not start with a `log.dir` that has neither this broker's label nor logs, as when its disk is not mounted.",
    )

    num_partitions: int = setting(1, Integer(1), "Partitions of each topic on this broker.")
    topic_partition_count_map: Mapping[str, int] = setting(
        "", TopicMap(Integer(1)), "Partitions of individual topics on this broker, `topic:count,...`."
    )
    max_topic_name_length: int = setting(
        DEFAULT_MAX_TOPIC_NAME_LENGTH, Integer(1), "The longest topic name allowed, in characters."
    )
    join_topics: bool = setting(
        False, Boolean(), "Register partitions of every registered topic, instead of waiting for a first message."
    )

    log_file_size: int = setting(
        1024**3, Integer(1), "The size in bytes at which a segment is closed and the next one begins."
    )
    topic_log_file_size: Mapping[str, int] = setting("", TopicMap(Integer(1)), "The same for individual topics.")
    log_roll_hours: float = setting(168.0, Decimal(), "A segment older than this is closed too.")
    topic_log_roll_hours: Mapping[str, float] = setting("", TopicMap(Decimal()), "The same for individual topics.")

    log_retention_hours: float = setting(168.0, Decimal(), "Segments last written to longer ago than this are deleted.")
    topic_log_retention_hours: Mapping[str, float] = setting("", TopicMap(Decimal()), "The same for individual topics.")
    log_retention_size: int = setting(
        -1,
        Integer(-1, MAX_INT64),
        "Delete the oldest segments of a log while the rest has at least this many bytes; -1 turns this off.",
    )
    topic_log_retention_size: Mapping[str, int] = setting(
        "", TopicMap(Integer(-1, MAX_INT64)), "The same for individual topics."
    )
    log_cleanup_interval_mins: float = setting(10.0, Decimal(), "Time between two checks for segments to delete.")

    log_scrub_bytes_per_second: int = setting(
        4 * 1024 * 1024,
        Integer(0),
        "How fast full segments are checked for damaged messages in the background; 0 turns this off.",
    )
    log_scrub_interval_hours: float = setting(
        24.0, Decimal(), "The time from the end of one such check of all segments to the start of the next."
    )

    log_flush_interval: int = setting(500, Integer(1), "Messages after which a log is flushed and so becomes readable.")
    log_default_flush_scheduler_interval_ms: int = setting(
        3000, Integer(1), "Time between two checks for logs to flush."
    )
    log_default_flush_interval_ms: int = setting(
        None,
        Integer(1),
        "Time after which a log with new messages is flushed.",
        fallback=same_as("log.default.flush.scheduler.interval.ms"),
    )
    topic_flush_intervals_ms: Mapping[str, int] = setting("", TopicMap(Integer(1)), "The same for individual topics.")

    log_flush_awaited_ms: int = setting(
        1,
        Integer(-1),
        "When a consumer waits at the tail of a log, flush new messages at once, but not sooner than this"
        " time after the last flush; -1 turns this off.",
    )

    max_message_size: int = setting(1_000_000, Integer(), "A set with a payload of more bytes is dropped.")

    metrics_max_partitions: int = setting(
        2000,
        Integer(0),
        "With more partitions than this, metrics by partition are left out; with more topics, metrics by topic.",
    )

    enable_zookeeper: bool = setting(True, Boolean(), "Register in ZooKeeper; without it clients must name the broker.")
    zk_connect: str = setting("", ZK_CONNECT, "ZooKeeper's servers, `host:port,host:port`, and a `/chroot` if wanted.")
    zk_sessiontimeout_ms: int = setting(6000, Integer(1), "Silence after which ZooKeeper considers this broker dead.")
    zk_connectiontimeout_ms: int = setting(
        None, Integer(1), "How long to wait for ZooKeeper at the start.", fallback=same_as("zk.sessiontimeout.ms")
    )

    replica_name: str = setting(
        "",
        REPLICA_NAME,
        "The name of this replica among those with the same `brokerid`. Without it, the broker has no replicas.",
    )
    min_insync_replicas: int = setting(
        1,
        Integer(1),
        "With fewer replicas in sync, the leader included, nothing is appended, and unconfirmed messages"
        " cannot be read.",
    )
    replica_lag_time_max_ms: int = setting(
        4000,
        Integer(100),
        "A follower that has lagged for this time is no longer in sync. Keep it well below 10 s, when"
        " producers send unconfirmed messages again.",
    )
    replica_address_gap_ms: int = setting(
        1500,
        Integer(0),
        "How long the broker is absent from ZooKeeper when another replica takes over, so that 0.7"
        " producers notice the new address. Without such producers, set it to 0.",
    )

    replica_hang_timeout_ms: int = setting(
        0,
        Integer(0),
        "The watchdog kills a leader that hangs for this time, if another replica is in sync and can lead."
        " Set it below zk.sessiontimeout.ms, and only if something restarts the process. 0 turns this off.",
    )
    replica_max_bytes_per_second: int = setting(
        0,
        Integer(0),
        "The most bytes a second for a follower that is not in sync, to spare consumers. It must exceed the"
        " rate of produced bytes, or the follower never catches up. 0: no limit.",
    )

    def _check(self) -> None:
        ServerConfig._check(self)
        if self.replica_name and not self.enable_zookeeper:
            raise ConfigError("replica.name needs ZooKeeper, where replicas agree on who leads")
        check_name_for_clients("hostname", self.hostname)
        if self.enable_zookeeper and not self.zk_connect:
            raise ConfigError("zk.connect must be given for the broker, unless enable.zookeeper is false")
