"""The messaging system of the 2011 Kafka paper, with the bytes of Apache Kafka 0.7.

The names that most applications need are here; other public ones are in the modules that docs/reference/api.md lists.
Names are loaded when first used, so that a client imports neither gevent nor pyspark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka2011.admin.admin import Admin
    from kafka2011.config import BrokerConfig, ConsumerConfig, ProducerConfig, SimpleConsumerConfig, SyncProducerConfig
    from kafka2011.consumer.connector import ConsumerConnector
    from kafka2011.consumer.feed import StoredSet
    from kafka2011.consumer.rebalance_listener import RebalanceListener
    from kafka2011.consumer.simple_consumer import FetchedSet, SimpleConsumer
    from kafka2011.consumer.stream import MessageStream
    from kafka2011.consumer.topic_filter import Blacklist, Whitelist
    from kafka2011.errors import (
        BrokerConnectionError,
        BrokerError,
        ConfigError,
        InvalidMessageError,
        InvalidMessageSizeError,
        KafkaError,
        MessageSizeTooLargeError,
        NotAllowedError,
        OffsetOutOfRangeError,
        ProtocolError,
        UnknownError,
        WrongPartitionError,
    )
    from kafka2011.local_cluster import LocalCluster
    from kafka2011.message.compression import Codec
    from kafka2011.message.message_set import Message, MessageSet
    from kafka2011.message.topic import InvalidTopicError
    from kafka2011.producer.batch import FailedBatch, Receipt
    from kafka2011.producer.counts import Counts
    from kafka2011.producer.encoder import Compressor, Encoder
    from kafka2011.producer.errors import (
        ConfirmTimeoutError,
        InvalidPartitionError,
        NoBrokersError,
        ProducerClosedError,
        QueueFullError,
        SetRefusedError,
    )
    from kafka2011.producer.partitioner import DefaultPartitioner, Partitioner
    from kafka2011.producer.producer import Producer
    from kafka2011.producer.sync_producer import SyncProducer
    from kafka2011.wire.protocol import ANY_PARTITION, EARLIEST, LATEST
    from zk.client import ZkClient
    from zk.cluster import Broker, TopicPartition
    from zk.connecting import connect
    from zk.errors import ZkError, ZkUnavailable

    __version__: str
    """The version that is installed."""

__all__ = [
    "ANY_PARTITION",
    "EARLIEST",
    "LATEST",
    "Admin",
    "Blacklist",
    "Broker",
    "BrokerConfig",
    "BrokerConnectionError",
    "BrokerError",
    "Codec",
    "Compressor",
    "ConfigError",
    "ConfirmTimeoutError",
    "ConsumerConfig",
    "ConsumerConnector",
    "Counts",
    "DefaultPartitioner",
    "Encoder",
    "FailedBatch",
    "FetchedSet",
    "InvalidMessageError",
    "InvalidMessageSizeError",
    "InvalidPartitionError",
    "InvalidTopicError",
    "KafkaError",
    "LocalCluster",
    "Message",
    "MessageSet",
    "MessageSizeTooLargeError",
    "MessageStream",
    "NoBrokersError",
    "NotAllowedError",
    "OffsetOutOfRangeError",
    "Partitioner",
    "Producer",
    "ProducerClosedError",
    "ProducerConfig",
    "ProtocolError",
    "QueueFullError",
    "RebalanceListener",
    "Receipt",
    "SetRefusedError",
    "SimpleConsumer",
    "SimpleConsumerConfig",
    "StoredSet",
    "SyncProducer",
    "SyncProducerConfig",
    "TopicPartition",
    "UnknownError",
    "Whitelist",
    "WrongPartitionError",
    "ZkClient",
    "ZkError",
    "ZkUnavailable",
    "connect",
]

_HOMES = {
    "kafka2011.admin.admin": ("Admin",),
    "kafka2011.message.compression": ("Codec",),
    "kafka2011.config": (
        "BrokerConfig",
        "ConsumerConfig",
        "ProducerConfig",
        "SimpleConsumerConfig",
        "SyncProducerConfig",
    ),
    "kafka2011.consumer.connector": ("ConsumerConnector",),
    "kafka2011.consumer.feed": ("StoredSet",),
    "kafka2011.consumer.rebalance_listener": ("RebalanceListener",),
    "kafka2011.consumer.simple_consumer": (
        "FetchedSet",
        "SimpleConsumer",
    ),
    "kafka2011.consumer.stream": ("MessageStream",),
    "kafka2011.consumer.topic_filter": (
        "Blacklist",
        "Whitelist",
    ),
    "kafka2011.errors": (
        "BrokerConnectionError",
        "BrokerError",
        "ConfigError",
        "InvalidMessageError",
        "InvalidMessageSizeError",
        "KafkaError",
        "MessageSizeTooLargeError",
        "NotAllowedError",
        "OffsetOutOfRangeError",
        "ProtocolError",
        "UnknownError",
        "WrongPartitionError",
    ),
    "kafka2011.local_cluster": ("LocalCluster",),
    "kafka2011.message.message_set": (
        "Message",
        "MessageSet",
    ),
    "kafka2011.producer.counts": ("Counts",),
    "kafka2011.producer.encoder": (
        "Compressor",
        "Encoder",
    ),
    "kafka2011.producer.errors": (
        "ConfirmTimeoutError",
        "InvalidPartitionError",
        "NoBrokersError",
        "ProducerClosedError",
        "QueueFullError",
        "SetRefusedError",
    ),
    "kafka2011.producer.batch": (
        "FailedBatch",
        "Receipt",
    ),
    "kafka2011.producer.partitioner": (
        "DefaultPartitioner",
        "Partitioner",
    ),
    "kafka2011.producer.producer": ("Producer",),
    "kafka2011.producer.sync_producer": ("SyncProducer",),
    "kafka2011.wire.protocol": (
        "ANY_PARTITION",
        "EARLIEST",
        "LATEST",
    ),
    "kafka2011.message.topic": ("InvalidTopicError",),
    "zk.client": ("ZkClient",),
    "zk.connecting": ("connect",),
    "zk.cluster": (
        "Broker",
        "TopicPartition",
    ),
    "zk.errors": (
        "ZkError",
        "ZkUnavailable",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415  # costs more than the rest of this module

        return version("kafka2011")
    home = _HOME_OF.get(name)
    if home is None:
        here = None
        if name[:1].isupper():  # and not for modules here, some of which are imported before those of settings
            from kafka2011.config.later_names import LATER_CLASSES  # noqa: PLC0415  # only for this error

            here = LATER_CLASSES.get(name)
        if here is not None:  # no AttributeError, whose text `from kafka2011 import` would not show
            raise ImportError(
                f"{name} is a class of clients of later Kafka, here it is {__name__}.{here}"
                " (docs/explanation/coming-from-later-kafka.md)"
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
