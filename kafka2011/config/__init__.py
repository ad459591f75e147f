"""Settings, with Kafka 0.7's names and defaults: from a dict, a file, the environment or the command line."""

from __future__ import annotations

from kafka2011.config.broker import BrokerConfig
from kafka2011.config.consumer import ConsumerConfig, SimpleConsumerConfig
from kafka2011.config.gateway import GatewayConfig
from kafka2011.config.producer import ProducerConfig, SyncProducerConfig
from kafka2011.config.server import ServerConfig
from kafka2011.config.settings import Setting, Settings

__all__ = [
    "BrokerConfig",
    "ConsumerConfig",
    "GatewayConfig",
    "ProducerConfig",
    "ServerConfig",
    "Setting",
    "Settings",
    "SimpleConsumerConfig",
    "SyncProducerConfig",
]
