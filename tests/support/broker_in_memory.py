"""One partition of a broker of 0.7 in memory, for the gateway's parts: what was appended is readable once flushed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import gevent
from gevent.event import Event

from kafka2011.errors import BrokerConnectionError, OffsetOutOfRangeError
from kafka2011.wire.protocol import (
    AT_ONCE,
    EARLIEST,
    LATEST,
    FetchRequest,
    FrameReader,
    MultiFetchRequest,
    ProduceRequest,
    decode_request,
    encode_response_header,
)
from zk.cluster import Broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zk.cluster import TopicPartition

ANSWER_S = 5.0


class BrokerInMemory:
    """Holds a log, and makes links to it. It stands in for `BrokerLinks`.

    `after_append` is called after each append, and may raise BrokerConnectionError. A set above `max_bytes` is dropped,
    and the connection ends when it is to be confirmed.
    """

    def __init__(self) -> None:
        self.broker = Broker(0, "127.0.0.1", 6667)
        self.start = 0
        self.segments = [(0, 2**62)]
        """Segments by their starts, each with the time of its last write."""
        self.data = b""
        self.appends: list[bytes] = []
        self.is_flushing = True
        self.max_bytes = 1 << 30
        self.unflushed = b""
        self.links: list[LinkInMemory] = []
        self.after_append: Callable[[], None] = lambda: None
        self.grown = Event()

    def append(self, data: bytes) -> None:
        """Append bytes, which can be read at once unless flushes are held back."""
        self.unflushed += data
        if self.is_flushing:
            self.flush()

    def flush(self) -> None:
        """Make everything readable."""
        self.data += self.unflushed
        self.unflushed = b""
        grown, self.grown = self.grown, Event()
        grown.set()

    def crash(self) -> None:
        """Lose what was not flushed, and all connections."""
        self.unflushed = b""
        links, self.links = self.links, []
        for link in links:
            link.fail()
        self.flush()

    def read(self, position: int, max_bytes: int) -> bytes:
        """Return what can be read at a position."""
        if not self.start <= position <= self.start + len(self.data):
            raise OffsetOutOfRangeError(f"{position} is not in the log")
        return self.data[position - self.start :][:max_bytes]

    @contextmanager
    def link(self) -> Iterator[LinkInMemory]:
        yield self.new()

    def new(self) -> LinkInMemory:
        return LinkInMemory(self)

    def fetch(self, _where: TopicPartition, position: int, max_bytes: int) -> bytes:
        return self.read(position, max_bytes)

    def offsets(self, _where: TopicPartition, time_ms: int = -1, max_count: int = 1) -> list[int]:
        if time_ms == EARLIEST:
            return [self.start]
        starts = [start for start, written_ms in self.segments if time_ms == LATEST or written_ms <= time_ms]
        return [*([self.start + len(self.data)] if time_ms == LATEST else []), *reversed(starts)][:max_count]


class LinkInMemory:
    """One connection to it."""

    def __init__(self, broker: BrokerInMemory) -> None:
        self.broker = broker
        self._memory = broker
        self._requests: list[MultiFetchRequest] = []
        self._has_more = Event()
        self._has_failed = False
        self._has_dropped = False
        self.is_open = False

    def fail(self) -> None:
        self._has_failed = True
        self._has_more.set()

    def close(self) -> None:
        self.is_open = False

    def send(self, *parts: bytes) -> None:
        self.is_open = True
        if self not in self._memory.links:
            self._memory.links.append(self)
        frames = FrameReader()
        frames.receive_data(b"".join(parts))
        while (frame := frames.next_frame()) is not None:
            self._check()
            request = decode_request(frame)
            if isinstance(request, ProduceRequest) and len(request.messages) > self._memory.max_bytes:
                self._has_dropped = True
            elif isinstance(request, ProduceRequest) and request.messages:
                self._memory.appends.append(bytes(request.messages))
                self._memory.append(bytes(request.messages))
                self._memory.after_append()
            elif isinstance(request, MultiFetchRequest):
                self._requests.append(request)
        self._has_more.set()

    def receive(self, wait_s: float = 0) -> bytes:
        del wait_s
        gevent.sleep(0)  # as with any socket, others run meanwhile
        request = self._requests.pop(0)
        while request.fetches and request.wait not in {None, AT_ONCE} and not self._requests and not self._has_failed:
            if any(self._read(fetch)[1] or self._read(fetch)[0] for fetch in request.fetches):
                break
            self._memory.grown.wait(0.05)
        self._check()
        answers = [self._read(fetch) for fetch in request.fetches]
        body = b"".join(encode_response_header(error, len(data)) + data for error, data in answers)
        return b"\0\0" + body

    def confirm(self, *parts: bytes) -> None:
        self.send(*parts)
        self._has_failed |= self._has_dropped
        self._has_dropped = False
        self._check()

    def _read(self, fetch: FetchRequest) -> tuple[int, bytes]:
        try:
            return 0, self._memory.read(fetch.offset, fetch.max_bytes)
        except OffsetOutOfRangeError:
            return 1, b""

    def _check(self) -> None:
        if self._has_failed:
            self._has_failed = False
            self.is_open = False
            raise BrokerConnectionError("the broker has crashed")
