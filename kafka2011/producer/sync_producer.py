"""SyncProducer: sends message sets to one broker (paper, section 3.1; 0.7's low-level producer)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from kafka2011.config import SyncProducerConfig
from kafka2011.errors import MessageSizeTooLargeError
from kafka2011.message.message_set import MessageSet
from kafka2011.producer.encoder import checked_topic_field
from kafka2011.producer.producer_connection import ProducerConnection
from kafka2011.wire.protocol import ANY_PARTITION, multiproduce_frame, produce_frame
from zk.closing import Closing
from zk.cluster import UNKNOWN_ID, Broker

if TYPE_CHECKING:
    from collections.abc import Iterable

Messages: TypeAlias = "bytes | Iterable[bytes] | MessageSet"
"""What can be sent: one payload, several payloads, or a ready MessageSet."""


class SyncProducer(Closing):
    """Publishes to one broker over one blocking connection; may be shared by threads.

    The broker does not answer a produce, so when `send` returns, the bytes were only handed to the operating system. A
    broker that refuses a set closes the connection: a later call notices, logs it, counts it in `broken_connections`,
    and connects again. `close` waits until the broker has handled all that was sent, or has refused it.

    `security` is the path of a file with the settings for TLS; by default the connection is plain.
    """

    def __init__(
        self,
        host: str,
        port: int,
        config: SyncProducerConfig | Mapping[str, object] | None = None,
        security: str = "",
    ) -> None:
        self._config = SyncProducerConfig.of(config)
        self._connection = ProducerConnection(Broker(UNKNOWN_ID, host, port, security=security), self._config)
        self._max_message_bytes = self._config.max_message_size

    def __repr__(self) -> str:
        return f"<SyncProducer to {self._connection.broker.address}>"

    @property
    def broken_connections(self) -> int:
        """Return how often a connection ended that this producer did not close; sets sent before may be lost."""
        return self._connection.broken

    def send(self, topic: str, messages: Messages, partition: int = ANY_PARTITION) -> None:
        """Send one payload, a list of payloads, or a MessageSet to a partition; -1: the broker picks one at random.

        Raises MessageSizeTooLargeError or InvalidTopicError before anything is sent, BrokerConnectionError when the
        broker cannot be reached or breaks the connection: part of the set may then have been handled, or none.
        """
        if type(messages) is bytes and len(messages) <= self._max_message_bytes:  # the most frequent case
            self._connection.write_message(checked_topic_field(topic), partition, messages)
            return
        data = self._set_bytes(topic, messages)
        self._connection.write(produce_frame(checked_topic_field(topic), partition, data))

    def multi_send(self, sends: Iterable[tuple[str, int, Messages]]) -> None:
        """Send sets in one request, handled in order; each of `sends` is (topic, partition, messages)."""
        produces = [
            (checked_topic_field(topic), partition, self._set_bytes(topic, messages))
            for topic, partition, messages in sends
        ]
        self._connection.write(multiproduce_frame(produces))

    def close(self) -> None:
        """Wait until the broker has handled what was sent, then close; may be called twice."""
        self._connection.finish()

    def _set_bytes(self, topic: str, messages: Messages) -> bytes:
        message_set = as_message_set(messages)
        if message_set.largest_payload_bytes > self._max_message_bytes:
            raise MessageSizeTooLargeError(
                f"a payload of {message_set.largest_payload_bytes} bytes for topic {topic} exceeds"
                f" max.message.size {self._max_message_bytes}; nothing was sent"
            )
        return bytes(message_set)


def as_message_set(messages: Messages) -> MessageSet:
    """Return a set for whatever `send` takes. Raises TypeError for text: the payload of a message is bytes."""
    if isinstance(messages, MessageSet):
        return messages
    if isinstance(messages, bytes | bytearray | memoryview):
        return MessageSet([bytes(messages)])
    if isinstance(messages, str | Mapping):  # whose keys would be the payloads
        raise TypeError(f"a payload is bytes, not {type(messages).__name__}: encode it first")
    return MessageSet(messages)
