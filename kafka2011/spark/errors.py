"""What can go wrong between Spark and the brokers, beyond the errors that all of the package shares."""

from __future__ import annotations

from kafka2011.errors import KafkaError


class UnknownTopicError(KafkaError):
    """A topic that no broker has ever registered; one that came into being this moment may follow."""


class DataLossError(KafkaError):
    """Messages that were to be read are no longer there: retention, a shorter log, a partition that is gone."""


class BrokerAwayError(KafkaError):
    """A broker did not come back within the time that the options allow."""


class CorruptMessageError(KafkaError):
    """The bytes at an offset are not a message, or a compressed one does not open; names topic, partition, offset."""


class SparkDiedError(KafkaError):
    """The JVM under this Spark driver is gone, and everything that was running in it."""
