"""What can go wrong between a send and the broker, beyond the errors that all of the package shares."""

from __future__ import annotations

from kafka2011.errors import KafkaError
from zk.errors import ZkUnavailable


class NoBrokersError(KafkaError):
    """Means that no known broker accepts messages of the topic."""


class BrokersUnreadableError(NoBrokersError, ZkUnavailable):
    """ZooKeeper, which knows the brokers, does not answer."""


class InvalidPartitionError(KafkaError):
    """Means that the partitioner returned a number that is no partition of the topic; nothing was sent."""


class QueueFullError(KafkaError):
    """Means that the queue stayed full (queue.size, queue.enqueueTimeout.ms); nothing of the send was queued."""


class ProducerClosedError(KafkaError):
    """Means that the producer was closed before this send."""


class SetRefusedError(KafkaError):
    """Means that the broker closes the connection whenever it gets this set: it was given up, the others were sent."""


class ConfirmTimeoutError(KafkaError):
    """Means that the broker did not confirm within confirm.timeout.ms: the messages may be written or not."""
