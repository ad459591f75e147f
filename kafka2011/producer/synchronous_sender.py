"""Sends in the caller's own thread: `send` returns when the set was written, or with confirm=true, confirmed."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from kafka2011.errors import BrokerConnectionError, ProtocolError
from kafka2011.producer.confirmed_sender import MAX_REFUSALS, answer_timeout_ms, timed_out, timeout_error
from kafka2011.producer.errors import NoBrokersError, SetRefusedError
from kafka2011.producer.parcel import PartitionSet
from kafka2011.producer.producer_connection import ProducerConnection
from kafka2011.producer.requests import BARRIER, produce_frame

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka2011.config import ProducerConfig
    from kafka2011.producer.counts import Counts
    from kafka2011.producer.router import Router
    from zk.cluster import TopicPartition

_BACKOFF_S = 0.1
_AVOID_S = 1.0


class SynchronousSender:
    """One connection to each broker, shared by all threads; each has one set on its way at a time."""

    def __init__(self, config: ProducerConfig, router: Router, counts: Counts) -> None:
        self._config = config
        self._router = router
        self._counts = counts
        self._connections: dict[int, ProducerConnection] = {}
        self._avoid_until_s: dict[int, float] = {}
        self._lock = threading.Lock()

    def send(self, topic: str, key: object, sets: Iterable[tuple[bytes, int]]) -> None:
        """Send sets, each with its number of messages, to one partition in order.

        Raises NoBrokersError, BrokerConnectionError; confirming, ConfirmTimeoutError, SetRefusedError.

        A set that could not even be handed over is tried again, elsewhere if it has no key, as often as
        zk.read.num.retries allow; nothing of it can have arrived.
        """
        partition = self._choose(topic, key)
        for data, messages in sets:
            sending = PartitionSet(topic, partition, key is not None, data, [])
            try:
                if self._config.confirm:
                    self._send_confirmed(sending)
                else:
                    self._send_unconfirmed(sending)
            except Exception:
                self._counts.add(messages_failed=messages)
                raise
            self._counts.add(messages_sent=messages, sets_sent=1)
            partition = sending.partition  # which may have become another

    def close(self) -> None:
        """Wait until the brokers have handled what was sent, then close the connections."""
        with self._lock:
            connections = list(self._connections.values())
            self._connections.clear()
        for connection in connections:
            connection.drain_and_close()

    def _choose(self, topic: str, key: object) -> TopicPartition:
        avoid: list[int] = []
        if self._avoid_until_s:
            now_s = time.monotonic()
            avoid = [broker_id for broker_id, until_s in list(self._avoid_until_s.items()) if until_s > now_s]
        return self._router.choose(topic, key, avoid)

    def _choose_again(self, sending: PartitionSet) -> None:
        """Have a set without a key go elsewhere, if there is anywhere else; the broker was lost just now."""
        self._avoid_until_s[sending.partition.broker_id] = time.monotonic() + _AVOID_S
        if sending.keyed:
            return
        try:
            chosen = self._choose(sending.topic, None)
        except NoBrokersError:
            return
        if chosen.broker_id != sending.partition.broker_id:
            self._counts.add(sets_moved=1)
        sending.partition = chosen

    def _connection(self, broker_id: int) -> ProducerConnection:
        broker = self._router.info.broker(broker_id)
        if broker is None:
            raise BrokerConnectionError(f"broker {broker_id} is not registered")
        connection = self._connections.get(broker_id)
        if connection is None or connection.broker != broker:
            with self._lock:
                connection = self._connections.get(broker_id)
                if connection is None or connection.broker != broker:
                    limit_ms = answer_timeout_ms(self._config) if self._config.confirm else None
                    connection = self._connections[broker_id] = ProducerConnection(broker, self._config, limit_ms)
        return connection

    def _send_unconfirmed(self, sending: PartitionSet) -> None:
        for retries_left in range(self._config.zk_read_num_retries, -1, -1):
            try:
                connection = self._connection(sending.partition.broker_id)
                with connection.lock:
                    broken = connection.broken
                    connection.write(produce_frame([sending]))
                    if connection.broken != broken:
                        self._counts.add(broken_connections=1)
            except BrokerConnectionError:
                if retries_left == 0:
                    raise
                self._router.info.refresh()
                self._choose_again(sending)
            else:
                return

    def _send_confirmed(self, sending: PartitionSet) -> None:
        timeout_ms = self._config.confirm_timeout_ms
        ends_s = time.monotonic() + timeout_ms / 1000
        while True:
            proven = False
            try:
                connection = self._connection(sending.partition.broker_id)
                with connection.lock:
                    self._prepare(connection, ends_s)
                    proven = True
                    sending.tries += 1
                    if sending.tries > 1:
                        self._counts.add(sets_resent=1)
                    connection.push(produce_frame([sending]) + BARRIER)
                    connection.answer()
            except (BrokerConnectionError, ProtocolError) as error:
                if proven:
                    self._counts.add(broken_connections=1)
                    self._note_refusal(sending, error)
                if time.monotonic() >= ends_s:
                    raise timeout_error(str(sending), timeout_ms, sending.tries) from error
                if not proven or timed_out(error):
                    self._choose_again(sending)
                if not proven:
                    time.sleep(min(_BACKOFF_S, max(ends_s - time.monotonic(), 0)))
            else:
                return

    def _prepare(self, connection: ProducerConnection, ends_s: float) -> None:
        """Have a connection that the broker is proven to serve, and that will not wait too long."""
        rest_ms = min(max(ends_s - time.monotonic(), 0) * 1000, answer_timeout_ms(self._config))
        if connection.is_open and connection.answer_waits:  # nothing is due, so it has ended
            connection.close()
        elif connection.reconnect_is_due:
            connection.drain_and_close()
        if connection.is_open:
            connection.limit(rest_ms)
            return
        connection.open()
        connection.limit(rest_ms)
        connection.prove()

    def _note_refusal(self, sending: PartitionSet, error: Exception) -> None:
        if timed_out(error):
            return
        sending.refusals += 1
        if sending.refusals >= MAX_REFUSALS:
            self._counts.add(sets_refused=1)
            raise SetRefusedError(
                f"broker {sending.partition.broker_id} ended the connection {sending.refusals} times when it got a set"
                f" of {len(sending.data)} bytes for {sending}: it refuses the set, and its log says why"
            ) from error
