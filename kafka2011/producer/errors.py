"""What can go wrong between a send and the broker, beyond the errors that all of the package shares."""

from __future__ import annotations

from kafka2011.errors import KafkaError
from zk.errors import ZkUnavailable


class NoBrokersError(KafkaError):
    """No known broker can take messages of the topic."""


class BrokersUnreadableError(NoBrokersError, ZkUnavailable):
    """ZooKeeper, which knows the brokers, does not answer."""


class InvalidPartitionError(KafkaError):
    """The partitioner returned a number that is not one of the topic's partitions; nothing was sent."""


class QueueFullError(KafkaError):
    """The queue had no room in time (queue.size, queue.enqueueTimeout.ms); nothing of the send was queued."""


class ProducerClosedError(KafkaError):
    """The producer was closed before this send."""


class SetRefusedError(KafkaError):
    """The broker closes the connection whenever it gets this set, so the set was given up; the others were not."""


class ConfirmTimeoutError(KafkaError):
    """The broker did not confirm in time (confirm.timeout.ms): the messages may have been written, or not."""
