"""What can go wrong between Spark and the brokers, beyond the errors that all of the package shares."""

from __future__ import annotations

from kafka2011.errors import KafkaError


class UnknownTopicError(KafkaError):
    """A topic that no broker has ever registered; one that came into being this moment may follow."""


class DataLossError(KafkaError):
    """Means that messages to be read no longer exist: retention, a shorter log, or a lost partition."""


class BrokerAwayError(KafkaError):
    """Means that a broker did not come back within the time that the options allow."""


class CorruptMessageError(KafkaError):
    """Means that the bytes at an offset are no message, or that a compressed one cannot be opened."""


class SparkDiedError(KafkaError):
    """The JVM under this Spark driver is gone, and everything that was running in it."""
