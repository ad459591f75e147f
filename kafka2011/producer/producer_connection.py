"""A connection that publishes: it notices when the broker has ended it, reconnects, and can ask what was handled.

All producers send over this one class, so that there is one answer to "did the broker end it?".
"""

from __future__ import annotations

import logging
import socket
import time
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from kafka2011.errors import BrokerConnectionError, ProtocolError
from kafka2011.wire.connection import BrokerConnection
from kafka2011.wire.protocol import MultiFetchRequest, encode_request
from kafka2011.wire.sockets import receive_exactly
from kafka2011.wire.tls_socket import TlsSocket

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka2011.config import SyncProducerConfig
    from kafka2011.message.header import AnyBytes
    from zk.cluster import Broker

logger = logging.getLogger(__name__)

Frame: TypeAlias = tuple[bytes, ...]
"""A request in parts: what stands before a set, and the set. To join them would take as long as to send them."""

BARRIER = encode_request(MultiFetchRequest(()))
"""A fetch of nothing: 8 bytes, answered in order by 6, so the answer proves that all sent before was handled."""

BARRIER_ANSWER = b"\x00\x00"
"""What follows the size field of the answer: error 0, and no parts."""

_WHOLE_ANSWER = len(BARRIER_ANSWER).to_bytes(4, "big") + BARRIER_ANSWER

LOOK_INTERVAL_S = 0.001
"""How often `write` checks whether the broker has ended the connection; in between, a failing write shows it."""

_QUICK_SENDS = 16
"""After this many sends in quick succession the kernel may join the next ones into larger packets."""


class ProducerConnection(BrokerConnection):
    """One connection to one broker. `lock` serializes its users.

    `answer_timeout_ms` bounds each wait for the broker, in addition to socket.timeout.ms. `broken` counts the
    connections that we did not end.
    """

    def __init__(self, broker: Broker, config: SyncProducerConfig, answer_timeout_ms: int | None = None) -> None:
        timeout_ms = config.socket_timeout_ms
        super().__init__(
            broker.host,
            broker.port,
            connect_timeout_ms=min(config.connect_timeout_ms, answer_timeout_ms or config.connect_timeout_ms),
            socket_timeout_ms=min(timeout_ms, answer_timeout_ms or timeout_ms),
            buffer_bytes=config.buffer_size,
            security=broker.security,
        )
        self.broker = broker
        self.broken = 0
        self._reconnect_interval = config.reconnect_interval
        self._reconnect_time_interval_s = config.reconnect_time_interval_ms / 1000
        self._sends = 0
        self._renew_at_s = 0.0
        self._look_at_s = 0.0
        self._quick_sends = 0  # in a row; 0 again after a pause
        self._is_joining = False  # whether the kernel may join small sends

    def open(self) -> None:
        """Connect, unless connected."""
        with self.lock:
            if not self.is_open:
                super().open()
                self._opened_now(time.monotonic())

    def write(self, frame: bytes) -> None:
        """Send a request that nothing answers, on a new connection if the broker has ended the old one.

        When this raises BrokerConnectionError, the request was not handed over whole, so the broker ignores it.
        """
        with self.lock:
            ends_s = self._prepare(time.monotonic())
            try:
                self._send(frame, ends_s)
            except BrokerConnectionError:
                self.broken += 1
                raise

    def write_all(self, frames: Sequence[Frame]) -> None:
        """Do as `write` with several requests, in order, where nothing is between them.

        When this raises BrokerConnectionError, the broker gets those that lie whole within its `sent_bytes`.
        """
        with self.lock:
            ends_s = self._prepare(time.monotonic())
            self._sends += len(frames) - 1
            try:
                self._send_all(frames, ends_s)
            except BrokerConnectionError:
                self.broken += 1
                raise

    def _send_all(self, frames: Sequence[Frame], ends_s: float) -> None:
        """Send in one call of C where there is some, else one by one: it must be known how much was sent."""
        opened = self._opened()
        if self._code is not None:
            try:
                self._code.send_all(opened.fileno(), tuple(chain.from_iterable(frames)), ends_s)
            except BaseException as error:  # noqa: BLE001 (raised again)
                self._fail("sending to", error)
            return
        sent_bytes = 0
        for frame in frames:
            try:
                self._send(b"".join(frame), ends_s)
            except BrokerConnectionError as error:
                error.sent_bytes = sent_bytes
                raise
            sent_bytes += sum(map(len, frame))

    def write_message(self, topic: bytes, partition: int, payload: bytes) -> None:
        """Do as `write` with a produce of one message, to a `topic_field`."""
        lock = self.lock
        lock.acquire()  # `with` would take a twentieth of the whole call
        try:
            now_s = time.monotonic()
            if (  # most often there is nothing to prepare
                self._is_joining
                and now_s < self._look_at_s
                and self._sends < self._reconnect_interval
                and self._socket is not None
            ):
                self._sends += 1
                ends_s = now_s + self._limit_s
            else:
                ends_s = self._prepare(now_s)
            try:
                self.send_message(topic, partition, payload, ends_s)
            except BrokerConnectionError:
                self.broken += 1
                raise
        finally:
            lock.release()

    def _prepare(self, now_s: float) -> float:
        """Do what a send needs before, such as to connect; return when it must have ended."""
        if now_s >= self._look_at_s:
            self._look(now_s)
            now_s = time.monotonic()
        elif not self._is_joining:
            self._quick_sends += 1
            if self._quick_sends == _QUICK_SENDS:
                self._join_small_sends(allowed=True)
        if self._socket is None or self._sends >= self._reconnect_interval:
            self._renew(now_s)
            now_s = time.monotonic()
        self._sends += 1
        return now_s + self._limit_s

    def push(self, frames: Sequence[Frame]) -> None:
        """Send requests on the connection that is open."""
        with self.lock:
            self._send_all(frames, self._ends_s())
            self._sends += len(frames)

    def write_and_prove(self, frame: bytes) -> None:
        """Send a request on the connection that is open, and have the broker prove that it has handled it."""
        with self.lock:
            self._sends += 1
            self._check_answer(self._ask(frame + BARRIER, None, 0, 0))

    def prove(self) -> None:
        """Ask, and wait for the answer: it proves that the broker has handled what was sent before."""
        with self.lock:
            self.send(BARRIER)
            self.answer()

    def answer(self) -> None:
        """Read the answer to a barrier, waiting for it. Raises BrokerConnectionError or ProtocolError."""
        self._check_answer(self.receive(len(BARRIER_ANSWER)))

    def _check_answer(self, answer: AnyBytes) -> None:
        if answer != BARRIER_ANSWER:
            self.close()
            raise ProtocolError(f"{self.host}:{self.port} answers a fetch of nothing with {bytes(answer[:20])!r}")

    def answers(self, due: int) -> int:
        """Do as `answer`, then read what has come of the others that are due; return how many were read."""
        self.answer()
        others = self._arrived(len(_WHOLE_ANSWER), due - 1) if due > 1 else b""
        count = len(others) // len(_WHOLE_ANSWER)
        if others != _WHOLE_ANSWER * count:
            self.close()
            raise ProtocolError(f"{self.host}:{self.port} answers fetches of nothing with {others[:20]!r}")
        return 1 + count

    def _arrived(self, response_bytes: int, most: int) -> bytes:
        """Return the responses of this size that have come by now, without waiting for any.

        None without C code, or with TLS: the next `answer` reads them.
        """
        with self.lock:
            opened = self._opened()
            if self._code is None or isinstance(opened, TlsSocket):
                return b""
            try:
                try:
                    data = opened.recv(response_bytes * most, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    return b""
                if cut_bytes := len(data) % response_bytes:
                    data += receive_exactly(opened, response_bytes - cut_bytes, self._ends_s())
            except BaseException as error:  # noqa: BLE001 (raised again)
                self._fail("reading from", error)
            return data

    @property
    def reconnect_is_due(self) -> bool:
        """Whether to reconnect, so that a load balancer in front of the brokers can choose again."""
        return self.is_open and (self._sends >= self._reconnect_interval or time.monotonic() >= self._renew_at_s)

    def cut_off(self) -> None:
        """End it for whoever uses it, who finds out at once, also while waiting for the broker. For another thread."""
        opened = self._socket
        if opened is not None:
            with suppress(OSError):  # it has just ended
                opened.shutdown(socket.SHUT_RDWR)

    def finish(self) -> None:
        """Wait until the broker has handled all that was sent, then close; one that broke off counts as broken."""
        with self.lock:
            self._drop_if_ended()
            if not self.drain_and_close():
                self.broken += 1

    def _look(self, now_s: float) -> None:
        """Do what is not needed for every send: check for the broker's end of it, and whether sends may be joined."""
        if now_s - self._look_at_s >= LOOK_INTERVAL_S:  # a pause: the next send goes out at once
            self._quick_sends = 0
            if self._is_joining:
                self._join_small_sends(allowed=False)
        self._look_at_s = min(now_s + LOOK_INTERVAL_S, self._renew_at_s)
        self._drop_if_ended()
        if now_s >= self._renew_at_s and self.is_open:
            self._renew(now_s)

    def _drop_if_ended(self) -> None:
        if self.ended_by_broker():
            self.broken += 1
            logger.warning(
                "broker %s closed the connection: it refused a set or stopped. Sets sent before may be lost",
                self.broker.address,
            )
            self.close()

    def _renew(self, now_s: float) -> None:
        if self.is_open and not self.drain_and_close():
            self.broken += 1
        super().open()
        self._opened_now(now_s)

    def _opened_now(self, now_s: float) -> None:
        self._sends = self._quick_sends = 0
        self._is_joining = False
        interval_s = self._reconnect_time_interval_s
        self._renew_at_s = now_s + interval_s if interval_s >= 0 else float("inf")
        self._look_at_s = min(now_s + LOOK_INTERVAL_S, self._renew_at_s)

    def _join_small_sends(self, *, allowed: bool) -> None:
        """Let the kernel join small sends while one is unacknowledged (Nagle's algorithm), or have all pushed out."""
        if self._socket is not None:
            self._is_joining = allowed
            try:
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0 if allowed else 1)
            except OSError as error:
                self.broken += 1
                self._fail("sending to", error)
