"""SyncProducer: sends message sets to one broker (paper, section 3.1; 0.7's low-level producer)."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Self, TypeAlias

from kafka2011.config import SyncProducerConfig
from kafka2011.connection import BrokerConnection
from kafka2011.errors import BrokerConnectionError, MessageSizeTooLargeError
from kafka2011.message import MessageSet
from kafka2011.protocol import ANY_PARTITION, MultiProduceRequest, ProduceRequest, encode_request
from kafka2011.topic import validate_topic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

logger = logging.getLogger(__name__)

Messages: TypeAlias = "bytes | Iterable[bytes] | MessageSet"
"""What can be sent: one payload, several payloads, or a ready MessageSet."""


class SyncProducer:
    """A producer for one broker, over one blocking connection; may be shared by threads.

    The broker answers nothing to a produce, so a returned `send` means that the bytes were handed to the operating
    system. A broker that refuses a set closes the connection: the next call notices, says so in the log, counts it in
    `broken_connections`, and connects again. `close` waits until the broker has handled all that was sent, or has
    refused it.
    """

    def __init__(self, host: str, port: int, config: SyncProducerConfig | Mapping[str, object] | None = None) -> None:
        self._config = SyncProducerConfig.of(config)
        self._connection = BrokerConnection(
            host,
            port,
            connect_timeout_ms=self._config.connect_timeout_ms,
            socket_timeout_ms=self._config.socket_timeout_ms,
            buffer_bytes=self._config.buffer_size,
        )
        self._sends_on_connection = 0
        self._connected_at_s = time.monotonic()
        self.broken_connections = 0

    def send(self, topic: str, messages: Messages, partition: int = ANY_PARTITION) -> None:
        """Send one payload, several, or a ready MessageSet to a partition; -1 lets the broker pick one at random.

        Raises MessageSizeTooLargeError or InvalidTopicError before anything is sent, BrokerConnectionError when the
        broker cannot be reached or breaks the connection: part of the set may then have been handled, or none.
        """
        self._send(encode_request(self._request(topic, partition, messages)))

    def multi_send(self, sends: Iterable[tuple[str, int, Messages]]) -> None:
        """Send sets for several (topic, partition, messages) in one request, which the broker handles in order."""
        produces = tuple(self._request(topic, partition, messages) for topic, partition, messages in sends)
        self._send(encode_request(MultiProduceRequest(produces)))

    def close(self) -> None:
        """Wait until the broker has handled what was sent, then close; may be called twice."""
        with self._connection.lock:
            self._drop_if_ended()
            self._drain()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _request(self, topic: str, partition: int, messages: Messages) -> ProduceRequest:
        validate_topic(topic)
        message_set = as_message_set(messages)
        limit_bytes = self._config.max_message_size
        if message_set.largest_payload_bytes > limit_bytes:
            raise MessageSizeTooLargeError(
                f"a payload of {message_set.largest_payload_bytes} bytes for topic {topic} exceeds"
                f" max.message.size {limit_bytes}; nothing was sent"
            )
        return ProduceRequest(topic, partition, bytes(message_set))

    def _send(self, frame: bytes) -> None:
        connection = self._connection
        with connection.lock:
            self._drop_if_ended()
            if self._reconnect_is_due():
                self._drain()
            if not connection.is_open:
                connection.open()
                self._sends_on_connection = 0
                self._connected_at_s = time.monotonic()
            try:
                connection.send(frame)
            except BrokerConnectionError:
                self.broken_connections += 1
                raise
            self._sends_on_connection += 1

    def _drop_if_ended(self) -> None:
        connection = self._connection
        if connection.ended_by_broker():
            self.broken_connections += 1
            logger.warning(
                "broker %s:%d closed the connection: it refused a set or went away, and sets sent before may be lost",
                connection.host,
                connection.port,
            )
            connection.close()

    def _drain(self) -> None:
        if not self._connection.drain_and_close():
            self.broken_connections += 1

    def _reconnect_is_due(self) -> bool:
        """Say whether to connect anew, so that a load balancer in front of the brokers can choose again."""
        config = self._config
        return self._connection.is_open and (
            0 < config.reconnect_interval <= self._sends_on_connection
            or 0 <= config.reconnect_time_interval_ms <= (time.monotonic() - self._connected_at_s) * 1000
        )


def as_message_set(messages: Messages) -> MessageSet:
    """Return a set for whatever `send` takes. Raises TypeError for text: the payload of a message is bytes."""
    if isinstance(messages, MessageSet):
        return messages
    if isinstance(messages, bytes | bytearray | memoryview):
        return MessageSet([bytes(messages)])
    if isinstance(messages, str):
        raise TypeError("a payload is bytes, not str: encode it first")
    return MessageSet(messages)
