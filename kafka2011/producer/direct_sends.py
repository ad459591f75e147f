"""Synchronous sends of one set in the caller's thread, without a batch: most of them, since nothing else is under way.

What is not as usual is left to batches: a broker without an open connection, or for which others wait; a set that may
have to be cut; whatever goes wrong here. An unconfirmed set that was not written whole is written again there. A
confirmed one is in doubt when its connection ends, and is sent again by itself, beside a witness.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kafka2011.errors import BrokerConnectionError, ProtocolError
from kafka2011.producer.batch import DoneFuture, Receipt
from kafka2011.producer.encoder import MAX_SET_BYTES, checked_topic_field, measured
from kafka2011.wire.protocol import produce_frame

if TYPE_CHECKING:
    from kafka2011.config import ProducerConfig
    from kafka2011.producer.accumulator import Accumulator
    from kafka2011.producer.batch import SendFuture
    from kafka2011.producer.counts import Counts
    from kafka2011.producer.encoder import SetEncoder
    from kafka2011.producer.sender import Sender
    from zk.cluster import TopicPartition

logger = logging.getLogger(__name__)


class DirectSends:
    """Sends sets over connections that senders have opened."""

    def __init__(self, config: ProducerConfig, encoder: SetEncoder, counts: Counts, accumulator: Accumulator) -> None:
        self._confirms = config.confirm
        self._encoder = encoder
        self._counts = counts
        self._accumulator = accumulator
        self._answer_ms = min(config.socket_timeout_ms, max(config.confirm_timeout_ms // 3, 1))

    def send(
        self, sender: Sender, where: TopicPartition, payloads: list[bytes], key: object, *, movable: bool
    ) -> SendFuture | None:
        """Send one set, whose payloads were checked, and return its future; None where it is left to batches.

        Of a set that is in doubt that is the future of a batch, which is not done.
        """
        is_single = len(payloads) == 1
        if not is_single and measured(payloads)[0] > MAX_SET_BYTES:
            return None
        topic = checked_topic_field(where.topic)
        is_single = is_single and not self._confirms and not self._encoder.compresses(where.topic)
        data = b"" if is_single else self._encoder.encode(where.topic, payloads)
        with sender.turn:
            connection = sender.idle_connection()
            if connection is None or (self._confirms and connection.reconnect_is_due):
                return None
            broken = connection.broken
            try:
                if is_single:
                    connection.write_message(topic, where.partition, payloads[0])
                elif self._confirms:
                    connection.limit(self._answer_ms)
                    connection.write_and_prove(produce_frame(topic, where.partition, data))
                else:
                    connection.write(produce_frame(topic, where.partition, data))
            except (BrokerConnectionError, ProtocolError) as error:
                connection.close()
                self._counts.add(broken_connections=max(1, connection.broken - broken))
                logger.warning("a set for %s is sent again: %s", where, error)
                if not self._confirms:
                    return None
                # Within the turn: who closes the producer meanwhile waits for it, and sends what is queued.
                return self._accumulator.append_in_doubt(where, payloads, key, movable=movable, sent_ms=self._answer_ms)
            if connection.broken != broken:
                self._counts.add(broken_connections=connection.broken - broken)
        self._counts.add_sent(len(payloads))
        return DoneFuture(Receipt(where.topic, where.broker_id, where.partition, len(payloads), self._confirms, 0))
