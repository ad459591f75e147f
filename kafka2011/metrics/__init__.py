"""Numbers for Prometheus: of an application's own consumers and producers, and what all who show some share."""

from kafka2011.metrics.clients import ConsumerCollector, ProducerCollector

__all__ = ["ConsumerCollector", "ProducerCollector"]
