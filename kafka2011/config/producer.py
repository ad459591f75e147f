"""Settings of the producers."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # a field's type
from dataclasses import dataclass
from typing import ClassVar

from kafka2011.config.kinds import (
    IMPLEMENTATION,
    ZK_CONNECT,
    Boolean,
    BrokerList,
    Choice,
    Integer,
    NumberOf,
    Topics,
)
from kafka2011.config.settings import Settings, same_as, setting
from kafka2011.errors import ConfigError
from kafka2011.message.compression import Codec
from zk.cluster import Broker  # noqa: TC001  # a field's type


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncProducerConfig(Settings):
    """Holds the settings of one connection that publishes to one broker."""

    COMPONENT: ClassVar[str] = "sync producer"

    buffer_size: int = setting(102400, Integer(1), "SO_SNDBUF of a connection, in bytes.")
    connect_timeout_ms: int = setting(5000, Integer(1), "How long to wait for a connection.")
    socket_timeout_ms: int = setting(30000, Integer(1), "How long sending a request, or reading its answer, may take.")
    reconnect_interval: int = setting(30000, Integer(1), "Reconnect after this many sends, for load balancers.")
    reconnect_time_interval_ms: int = setting(10_000_000, Integer(-1), "Reconnect after this time; -1 turns this off.")
    max_message_size: int = setting(
        1_000_000,
        Integer(),
        "The largest payload in bytes; larger ones are refused before anything is sent. At most the"
        " brokers' own limit.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(SyncProducerConfig):
    """Holds the settings of a producer that finds brokers and partitions itself."""

    COMPONENT: ClassVar[str] = "producer"
    IGNORED: ClassVar[Mapping[str, str]] = {
        "event.handler": "a Java class",
        "event.handler.props": "settings of a Java class",
        "callback.handler": "a Java class; give the producer a callable instead",
        "callback.handler.props": "settings of a Java class",
        "zk.synctime.ms": "only consumers wait for it",
    }

    zk_connect: str = setting(
        "", ZK_CONNECT, "ZooKeeper's servers, used to find and follow the brokers. Either this or `broker.list`."
    )
    broker_list: tuple[Broker, ...] = setting(
        (), BrokerList(), "Fixed brokers, `id:host:port,...`. Excludes `zk.connect` and `partitioner.class`."
    )
    zk_sessiontimeout_ms: int = setting(6000, Integer(1), "Silence after which ZooKeeper ends the session.")
    zk_connectiontimeout_ms: int = setting(
        None, Integer(1), "How long to wait for ZooKeeper at the start.", fallback=same_as("zk.sessiontimeout.ms")
    )
    zk_read_num_retries: int = setting(3, Integer(), "How often brokers and partitions are read again before a send.")

    producer_type: str = setting("sync", Choice(("sync", "async")), "`sync` returns when written, `async` at once.")
    partitioner_class: str = setting(
        "", IMPLEMENTATION, "Chooses the partition for a key, `module:Class`. Default: by the key's hash, as in 0.7."
    )
    serializer_class: str = setting(
        "", IMPLEMENTATION, "Turns what is sent into bytes, `module:Class`. Default: bytes as they are."
    )
    compression_codec: Codec = setting(Codec.NONE, NumberOf(Codec), "0 none, 1 GZIP, 2 Snappy.")
    compressor_class: str = setting(
        "",
        IMPLEMENTATION,
        "Compresses in place of a built-in codec, `module:Class` with a `codec` (1 or 2) and `compress(bytes)`.",
    )
    compressed_topics: tuple[str, ...] = setting(
        (), Topics(), "Compress only these topics, `topic,...`. Default: all topics, when a codec is set."
    )

    queue_time: int = setting(5000, Integer(1), "`async`: the longest wait for a batch to fill, in ms.")
    queue_size: int = setting(10000, Integer(1), "`async`: messages that may wait to be sent to one broker.")
    queue_max_bytes: int = setting(
        67_108_864, Integer(1), "`async`: bytes of messages, roughly, that may wait to be sent to one broker."
    )
    queue_enqueue_timeout_ms: int = setting(
        -1,
        Integer(-1),
        "`async`: how long a send waits while the queue is full; 0 fails at once, -1 waits without limit (0.7: 0).",
        key="queue.enqueueTimeout.ms",
    )
    batch_size: int = setting(200, Integer(1), "`async`: messages in one request. At most `queue.size`.")
    num_retries: int = setting(0, Integer(), "`async`: how often a failed batch is sent again.")

    confirm: bool = setting(
        False,
        Boolean(),
        "Wait until the broker has answered a request sent after the set, which proves that the set was written.",
    )
    confirm_timeout_ms: int = setting(30000, Integer(1), "How long to keep trying a confirmed send before it fails.")
    close_timeout_ms: int = setting(
        10000,
        Integer(0),
        "How long the exit of a program may wait to send what an unclosed producer has queued.",
    )

    def _check(self) -> None:
        if self.broker_list and self.zk_connect:
            raise ConfigError("broker.list and zk.connect exclude one another: give one of them")
        if self.broker_list and self.partitioner_class:
            raise ConfigError("partitioner.class needs zk.connect: broker.list does not name the partitions")
        if not self.broker_list and not self.zk_connect:
            raise ConfigError("zk.connect or broker.list must be given for the producer")
        if self.batch_size > self.queue_size:
            raise ConfigError(f"batch.size ({self.batch_size}) is more than queue.size ({self.queue_size})")
