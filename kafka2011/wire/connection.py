"""One blocking connection to one broker, for producers and consumers alike.

A broker serves a connection strictly in order and answers everything but produce. So the holder of the connection's
lock may send a request and take the next response as its answer.
"""

from __future__ import annotations

import contextlib
import logging
import os
import struct
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, NoReturn, Protocol, cast

from kafka2011 import c_code
from kafka2011.errors import BrokerConnectionError, ProtocolError
from kafka2011.message.message_set import complete_prefix_bytes, encode
from kafka2011.wire.protocol import (
    DEFAULT_MAX_FRAME_BYTES,
    ERROR_BYTES,
    WAIT_BYTES,
    MultiFetchRequest,
    decode_fetch_response,
    encode_request,
    produce_frame,
    without_wait,
)
from kafka2011.wire.sockets import (
    RECEIVE_BYTES,
    connected_socket,
    drain,
    has_ended,
    is_readable,
    limit,
    prepare,
    receive_exactly,
    secured_socket,
    send_at_once,
)
from kafka2011.wire.tls_socket import TlsSocket
from zk import forks
from zk.closing import Closing

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence
    from typing import TypeAlias, TypeVar

    T = TypeVar("T")
    Fetched: TypeAlias = tuple[int, bytes, int]
    """Error code, set, and how many bytes of that belong to whole messages."""

logger = logging.getLogger(__name__)


class ExchangeCode(Protocol):
    """What C does on a socket while other threads run; a file descriptor, a request and the time to end by come first.

    That time is one of `time.monotonic`, however often signals interrupt; after it, a TimeoutError. `waits_s` is the
    socket's own time-out for one receiving call, SO_RCVTIMEO: as long as that ends before, it is relied on.
    """

    def send(self, fd: int, request: bytes, ends_s: float, /) -> None:
        """Send a request."""

    def send_all(self, fd: int, parts: tuple[bytes, ...], ends_s: float, /) -> None:
        """Send parts of requests in a row. An error's `characters_written` says how much was sent before it."""

    def produce(self, fd: int, topic: bytes, partition: int, payload: bytes, ends_s: float, /) -> bool:
        """Send a produce of one message to a `topic_field`; False, and nothing is sent, where a size is wrong."""

    def crc32(self, data: bytes, /) -> int:
        """Return the CRC-32 that such a message has."""

    def exchange(self, fd: int, request: bytes, ends_s: float, waits_s: float, room_bytes: int, /) -> bytearray | int:
        """Return a response without its size field, or that size if it is none or there is no room for it.

        An empty request was sent before.
        """

    def fetch(
        self,
        fd: int,
        request: bytes,
        ends_s: float,
        waits_s: float,
        set_bytes: int,
        most: int,
        within_ms: int,
        wait_bytes: int,
        is_sent: bool,
        /,
    ) -> list[Fetched | int]:
        """Return what a fetch gives, and those that come after it while sets are at least half full.

        No more than `most`, nor than C has places for, and none that is asked for later than `within_ms`. A size comes
        last if the next response is none or there is no room for it. Only the first may wait at the broker, by the
        `wait_bytes` at the end of its request, and may have been sent before.
        """


compiled: ExchangeCode | None = c_code.load("wire._exchange")

SETS_WITHIN_MS = 2
"""After that a call asks for no further set: it would keep the application waiting for those that have come."""

_SIZE = struct.Struct(">i")
_SMALL_BYTES = 1024  # what any response may have
_PIPELINED = 128
"""Small requests that are under way at a time: they and their responses fit any buffer, so nobody waits for room."""
_WAIT_SHARE = 0.9
"""Of the time for a request: how long one call may wait in the kernel, so that it ends before the request must."""
_NUDGE = encode_request(MultiFetchRequest(()))
"""It asks for nothing, and a broker ends the wait of a request when there is another behind it."""


class BrokerConnection(Closing):
    """A socket that connects when first needed and again after a failure.

    All sizes are in bytes, all times in milliseconds. A request that is sent, and one that is answered, may take as
    long as `socket_timeout_ms`, however often signals interrupt it, and however slowly bytes come. Every method may
    raise BrokerConnectionError, which names the broker; the connection is closed by then, and the next call opens a new
    one. The same holds when something else ends a call half-way, such as KeyboardInterrupt or an application's own
    timeout: the rest of one answer must never be taken for the next one. `lock` serializes its users, all but that of
    `interrupt`. In a forked child the connection is closed, and the parent's is left alone.

    A request may wait at the broker for `wait_ms`, as its frame says, which are added to its time. `security` names the
    file that says how a broker is met by TLS; it is read again for each connection.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        connect_timeout_ms: int = 5000,
        socket_timeout_ms: int = 30000,
        buffer_bytes: int = 100 * 1024,
        max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        security: str = "",
    ) -> None:
        self.host = host
        self.port = port
        self.lock = threading.RLock()
        self._connect_timeout_s = connect_timeout_ms / 1000
        self._socket_timeout_s = self._limit_s = socket_timeout_ms / 1000
        self._waits_s = self._socket_timeout_s * _WAIT_SHARE
        self._buffer_bytes = buffer_bytes
        self._max_frame_bytes = max_frame_bytes
        self._security = security
        self._socket: socket.socket | TlsSocket | None = None
        self._code: ExchangeCode | None = None  # for that socket
        self._gate = threading.RLock()  # taken after `lock`, and only briefly; guards these:
        self._waiting: socket.socket | TlsSocket | None = None  # where the answer to a request is due that may wait
        self._nudges = 0  # that were sent behind it
        self._is_interrupted = False
        forks.register(self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} to {self.host}:{self.port}, {'open' if self.is_open else 'closed'}>"

    @property
    def is_open(self) -> bool:
        """Whether there is a socket; it may already be dead at the other side."""
        return self._socket is not None

    def open(self) -> None:
        """Connect, unless connected."""
        with self.lock:
            self._opened()

    def send(self, frame: bytes) -> None:
        """Send one request."""
        with self.lock:
            self._send(frame, self._ends_s())

    def receive(self, max_frame_bytes: int | None = None) -> bytes:
        """Return the next response without its size field.

        Raises ProtocolError if that announces more than `max_frame_bytes`, or than all responses may have.
        """
        with self.lock:
            self._opened()
            return bytes(self._exchange(b"", max_frame_bytes, 0, self._ends_s()))

    def request(
        self, frame: bytes, max_frame_bytes: int | None = None, expected_bytes: int = 0, wait_ms: int = 0
    ) -> memoryview:
        """Send one request and return its response; retries once, on a new connection, if an old one turns out dead.

        A response of up to `expected_bytes` does not wait for other threads on its way, where there is C code.
        Only for requests that change nothing: a produce must not be sent twice unasked. A broker that does not answer
        in time is not asked again. Raises like `receive`.
        """
        return self._ask_twice(lambda: self._ask(frame, max_frame_bytes, expected_bytes, wait_ms))

    def request_many(self, frames: Sequence[bytes]) -> list[memoryview]:
        """Send requests with small responses and return these, in order; a round trip serves many.

        Retries and raises like `request`; so many at a time have the time that one has.
        """
        responses: list[memoryview] = []
        for start in range(0, len(frames), _PIPELINED):
            responses += self._ask_twice(partial(self._ask_many, frames[start : start + _PIPELINED]))
        return responses

    def fetch(self, frame: bytes, set_bytes: int, most: int, wait_ms: int = 0) -> list[Fetched]:
        """Send a fetch of up to `set_bytes`, with a `wait`; return what it gives, and those that follow it in the log.

        Of each, that is the error code, the set, and how many bytes of it belong to whole messages. There is more than
        one, up to `most`, only where there is C code, as long as each is at least half as large as it may be and the
        next one comes soon: then other threads are waited for once, not for each. Retries and raises like `request`.
        """
        return self._ask_twice(lambda: self._fetch(frame, set_bytes, most, wait_ms))

    def interrupt(self) -> None:
        """Let the request that waits at the broker be answered at once, and let none wait until `let_wait`.

        For another thread than the one that waits. It does not wait itself, whoever has the lock.
        """
        self._is_interrupted = True
        if self._gate.acquire(blocking=False):  # else whoever has it looks again once it is free
            try:
                if self._waiting is not None and not self._nudges:
                    with contextlib.suppress(OSError):  # the thread that waits will find out
                        send_at_once(self._waiting, _NUDGE)
                        self._nudges += 1
            finally:
                self._gate.release()

    def let_wait(self) -> None:
        """Let requests wait again, from the next one on."""
        self._is_interrupted = False

    def ended_by_broker(self) -> bool:
        """Say whether the broker has closed an open connection, as it does when it refuses a set.

        Only for a connection on which no response is due: bytes that wait to be read do not count as an end.
        """
        with self.lock:
            return self._socket is not None and has_ended(self._socket)

    @property
    def answer_waits(self) -> bool:
        """Whether reading would not block: an answer is there, or the connection has ended."""
        return self._socket is None or is_readable(self._socket)

    def limit(self, timeout_ms: float) -> None:
        """Set how long to wait for the broker, until changed or reconnected."""
        with self.lock:
            self._limit_s = max(timeout_ms, 1) / 1000

    def close(self) -> None:
        """Close at once; may be called twice."""
        with self.lock:
            if isinstance(self._socket, TlsSocket):
                self._socket.take_leave()
            self._discard()

    def drain_and_close(self) -> bool:
        """Send what is in the socket, wait until the broker has handled it and closed its side, then close.

        Takes the socket timeout at most. Responses that nobody asked for are thrown away. Returns False, and
        logs why, if the broker did not end the connection in order: then it may not have handled everything.
        """
        with self.lock:
            opened = self._socket
            if opened is None:
                return True
            try:
                drain(opened, time.monotonic() + self._socket_timeout_s)
            except OSError as error:
                logger.warning("broker %s:%d did not end the connection in order: %s", self.host, self.port, error)
                return False
            finally:
                self._discard()
            return True

    def _ask_twice(self, ask: Callable[[], T]) -> T:
        """Ask again on a new connection if an old one turns out dead."""
        with self.lock:
            was_open = self.is_open
            try:
                return ask()
            except BrokerConnectionError as error:
                if not was_open or isinstance(error.__cause__, TimeoutError):
                    raise
                logger.debug("asking again on a new connection: %s", error)
            return ask()

    def _ask(self, frame: bytes, max_frame_bytes: int | None, expected_bytes: int, wait_ms: int) -> memoryview:
        self._opened()
        ends_s = self._ends_s() + wait_ms / 1000
        try:
            if wait_ms:
                self._send_to_wait(frame, ends_s)
                frame = b""
            elif self._code is None:
                self._send(frame, ends_s)
                frame = b""
            response = self._exchange(frame, max_frame_bytes, expected_bytes, ends_s)
            if wait_ms:
                self._end_wait()
        except BaseException:  # also between the two
            self._discard()
            raise
        return response

    def _ask_many(self, frames: Sequence[bytes]) -> list[memoryview]:
        self._opened()
        ends_s = self._ends_s()
        try:
            self._send(b"".join(frames), ends_s)
            return [self._exchange(b"", None, 0, ends_s) for _ in frames]
        except BaseException:  # also between two responses
            self._discard()
            raise

    def _fetch(self, frame: bytes, set_bytes: int, most: int, wait_ms: int) -> list[Fetched]:
        limit_bytes = max(self._max_frame_bytes, ERROR_BYTES + set_bytes)
        opened = self._opened()
        if self._code is None:
            return [self._fetched(self._ask(frame, limit_bytes, ERROR_BYTES + set_bytes, wait_ms))]
        ends_s = self._ends_s() + wait_ms / 1000
        last: memoryview | None = None
        try:
            if wait_ms:
                self._send_to_wait(frame, ends_s)
            room_bytes = min(max(set_bytes, 0), RECEIVE_BYTES)
            responses = self._code.fetch(
                opened.fileno(),
                frame,
                *(ends_s, self._waits_s),
                *(room_bytes, most, SETS_WITHIN_MS),
                *(WAIT_BYTES, bool(wait_ms)),
            )
            if isinstance(size := responses[-1], int):
                self._check_size(size, limit_bytes)
                last = memoryview(receive_exactly(opened, size, ends_s))
            if wait_ms:
                self._end_wait()
        except BaseException as error:  # noqa: BLE001 (raised again)
            self._fail("reading from", error)
        if last is not None:
            responses[-1] = self._fetched(last)
        return cast("list[Fetched]", responses)

    def _fetched(self, response: memoryview) -> Fetched:
        code, data = decode_fetch_response(response, f"a fetch from broker {self.host}:{self.port}")
        return code, data, complete_prefix_bytes(data)

    def _send_to_wait(self, frame: bytes, ends_s: float) -> None:
        """Send a request that may wait, in a step of its own, so that `interrupt` knows what comes behind it."""
        with self._gate:
            self._send(without_wait(frame) if self._is_interrupted else frame, ends_s)
            self._waiting = self._socket
        if self._is_interrupted:
            self.interrupt()

    def _end_wait(self) -> None:
        """Take the answers to what `interrupt` has sent, once that to the request is there."""
        with self._gate:
            self._waiting = None
            nudges, self._nudges = self._nudges, 0
        for _ in range(nudges):
            self._exchange(b"", None, 0, self._ends_s())

    def _send(self, frame: bytes, ends_s: float) -> None:
        opened = self._opened()
        try:
            if self._code is not None:
                self._code.send(opened.fileno(), frame, ends_s)
            else:
                limit(opened, ends_s)
                opened.sendall(frame)
        except BaseException as error:  # noqa: BLE001 (raised again)
            self._fail("sending to", error)

    def send_message(self, topic: bytes, partition: int, payload: bytes, ends_s: float) -> None:
        """Send a produce of one message, to a `topic_field`: by one call of C where there is some."""
        opened, code = self._socket, self._code
        if opened is None or code is None:
            self._send(produce_frame(topic, partition, encode(payload)), ends_s)
            return
        try:
            is_sent = code.produce(opened.fileno(), topic, partition, payload, ends_s)
        except BaseException as error:  # noqa: BLE001 (raised again)
            self._fail("sending to", error)
        if not is_sent:
            self._send(produce_frame(topic, partition, encode(payload)), ends_s)

    def _exchange(self, frame: bytes, max_frame_bytes: int | None, expected_bytes: int, ends_s: float) -> memoryview:
        """Receive a response, after a request that only C sends in the same call."""
        limit_bytes = self._max_frame_bytes if max_frame_bytes is None else max_frame_bytes
        opened = self._opened()
        try:
            if self._code is None:
                (size,) = _SIZE.unpack(receive_exactly(opened, _SIZE.size, ends_s))
            else:
                room_bytes = min(max(expected_bytes, _SMALL_BYTES), limit_bytes, RECEIVE_BYTES)
                received = self._code.exchange(opened.fileno(), frame, ends_s, self._waits_s, room_bytes)
                if isinstance(received, bytearray):
                    return memoryview(received)
                size = received
            self._check_size(size, limit_bytes)
            return memoryview(receive_exactly(opened, size, ends_s))
        except BaseException as error:  # noqa: BLE001 (raised again)
            self._fail("reading from", error)

    def _ends_s(self) -> float:
        return time.monotonic() + self._limit_s

    def _opened(self) -> socket.socket | TlsSocket:
        if self._socket is not None:
            return self._socket
        try:
            self._socket = plain = connected_socket(self.host, self.port, self._connect_timeout_s, self._buffer_bytes)
            self._limit_s = self._socket_timeout_s
            if self._security:
                # No C code is ever given such a connection, which it would write plain text to.
                self._code = None
                self._socket = secured_socket(plain, self._security, self.host)
            else:
                plain.settimeout(None)
                # Under gevent, which has sockets that never block, C would hold up everything.
                self._code = compiled if os.get_blocking(plain.fileno()) else None
                prepare(plain, None if self._code is None else self._waits_s)
        except BaseException as error:  # noqa: BLE001 (raised again)
            self._fail("connecting to", error)
        return self._socket

    def _check_size(self, size: int, limit_bytes: int) -> None:
        if not 0 < size <= limit_bytes:
            raise ProtocolError(
                f"broker {self.host}:{self.port} announces a response of {size} bytes: allowed are 1 to {limit_bytes}"
            )

    def _fail(self, doing: str, error: BaseException) -> NoReturn:
        """Close the connection, which may be in the middle of a request or a response, and raise."""
        self._discard()
        if isinstance(error, OSError):
            failure = BrokerConnectionError(f"{doing} broker {self.host}:{self.port} failed: {error}")
            failure.sent_bytes = getattr(error, "characters_written", 0)
            raise failure from error
        raise error

    def _discard(self) -> None:
        with self._gate:
            self._waiting = None
            self._nudges = 0
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None

    def forget_after_fork(self) -> None:
        """In a forked child: close this process's copy of the socket, which does not end the parent's connection."""
        self.lock = threading.RLock()
        self._gate = threading.RLock()
        self._discard()
