"""Makes a producer's parts as its settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.producer.broker_partition_info import BrokerPartitionInfo, ListedBrokers
from kafka2011.producer.implementation import load_implementation
from kafka2011.producer.partitioner import DefaultPartitioner, Partitioner
from kafka2011.producer.router import Router

if TYPE_CHECKING:
    from kafka2011.config import ProducerConfig
    from kafka2011.producer.encoder import Encoder


def own_encoder(config: ProducerConfig) -> Encoder | None:
    """Return the application's encoder, or None for bytes as they are. Raises ConfigError."""
    if not config.serializer_class:
        return None
    encoder: Encoder = load_implementation("serializer.class", config.serializer_class, "encode")
    return encoder


def own_partitioner(config: ProducerConfig) -> Partitioner:
    """Return the application's partitioner, or 0.7's. Raises ConfigError."""
    if not config.partitioner_class:
        return DefaultPartitioner()
    partitioner: Partitioner = load_implementation("partitioner.class", config.partitioner_class, "partition")
    return partitioner


def open_router(config: ProducerConfig) -> Router:
    """Find the brokers, from broker.list or in ZooKeeper. Raises ConfigError, or ZkError without ZooKeeper."""
    partitioner = own_partitioner(config)  # before anything is opened
    return Router(_open_info(config), partitioner, config.zk_read_num_retries)


def _open_info(config: ProducerConfig) -> BrokerPartitionInfo:
    if config.broker_list:
        return ListedBrokers(config.broker_list)
    # Here, so that a producer with broker.list needs no kazoo.
    from kafka2011.producer.zk_partition_info import ZkBrokerPartitionInfo  # noqa: PLC0415

    return ZkBrokerPartitionInfo.connect(config)
