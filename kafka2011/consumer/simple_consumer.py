"""SimpleConsumer: fetches from one broker at offsets of the caller's choice (paper, section 3.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from kafka2011.config import SimpleConsumerConfig
from kafka2011.consumer.columns import column_decoder
from kafka2011.errors import ErrorCodes, NotAllowedError
from kafka2011.message.message_set import Message, complete_prefix_bytes, decode, scan
from kafka2011.message.topic import partition_text
from kafka2011.wire import refusal
from kafka2011.wire.connection import BrokerConnection
from kafka2011.wire.protocol import (
    AT_ONCE,
    DEFAULT_MAX_FRAME_BYTES,
    ERROR_BYTES,
    RESPONSE_HEADER_BYTES,
    FetchRequest,
    FetchWait,
    MultiFetchRequest,
    OffsetsRequest,
    RefusalRequest,
    decode_multifetch_body,
    decode_offsets_body,
    decode_response,
    encode_request,
)
from zk.closing import Closing
from zk.cluster import UNKNOWN_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from kafka2011.errors import BrokerError
    from kafka2011.wire.protocol import Request
    from zk.cluster import Broker


MAX_FETCH_BYTES = 32 * 1024 * 1024
"""The most that is asked for at once, unless a single fetch.size is larger."""
MAX_SETS = 8
"""How many sets of one partition are taken by one call by who is behind, if the broker gives them soon."""
LARGE_FETCH_BYTES = 1024 * 1024
"""What is asked for at once by who is behind: it costs broker and client less than several small sets, and still fits
the processor's caches."""


class FetchedSet:
    """Holds what a broker sent for one partition from one offset on; iterate over it to get its messages.

    A message that the fetch size cut off at the end is left out. Iterating raises `error`, where the broker refused
    this part of a multifetch, InvalidMessageError at a corrupt message, and InvalidMessageSizeError when the fetch
    was too small for even one message.
    """

    __slots__ = ("_complete_bytes", "broker_id", "data", "error", "offset", "partition", "topic")

    def __init__(
        self,
        request: FetchRequest,
        broker_id: int | None,
        data: bytes,
        error: BrokerError | None = None,
        complete_bytes: int | None = None,
    ) -> None:
        self.topic = request.topic
        self.partition = request.partition
        self.offset = request.offset
        self.broker_id = broker_id
        self.data = data
        self.error = error
        self._complete_bytes = complete_bytes

    @property
    def complete_bytes(self) -> int:
        """Return how many bytes of `data` belong to whole messages, by their lengths alone."""
        if self._complete_bytes is None:
            self._complete_bytes = complete_prefix_bytes(self.data)
        return self._complete_bytes

    @property
    def next_offset(self) -> int:
        """Return the offset to fetch next, once all messages of this set are consumed."""
        return self.offset + scan(self.data).end

    def __iter__(self) -> Iterator[Message]:
        if self.error is not None:
            raise self.error
        return decode(self.data, self.topic, self.broker_id, self.partition, self.offset)

    def arrow(self, max_messages: int = 10_000) -> Iterator[pa.RecordBatch]:
        """Yield the messages as Arrow's record batches, of about `max_messages` each; raises as iterating does.

        The columns are the fields of Message; no object is made for a message. A compressed set comes whole, even where
        a batch becomes longer by it; if it does not open, nothing of it comes. Needs PyArrow: MissingExtraError.
        """
        if self.error is not None:
            raise self.error
        where = self.topic, self.broker_id, self.partition
        yield from column_decoder()(self.data, *where, self.offset, max_rows=max_messages)

    def __repr__(self) -> str:
        where = partition_text(self.topic, self.broker_id, self.partition)
        return f"<FetchedSet of {len(self.data)} bytes from {where} at {self.offset}>"


class SimpleConsumer(Closing):
    """Fetches from one broker over one blocking connection; may be shared by threads.

    It keeps no offset: the caller asks for one, and finds where to go on in the last message's `next_offset`. Requests
    are repeated once on a new connection if an old one turns out dead. Messages will carry `broker_id`. `security`
    names the file that says how the broker is met by TLS, if it is.
    """

    def __init__(
        self,
        host: str,
        port: int,
        config: SimpleConsumerConfig | Mapping[str, object] | None = None,
        broker_id: int | None = None,
        security: str = "",
    ) -> None:
        self._config = SimpleConsumerConfig.of(config)
        self.broker_id = broker_id
        self._connection = BrokerConnection(
            host,
            port,
            connect_timeout_ms=self._config.socket_timeout_ms,
            socket_timeout_ms=self._config.socket_timeout_ms,
            # The kernel counts what it needs itself, too; and a broker that has to wait for room is woken up for it.
            buffer_bytes=max(self._config.socket_buffersize, 2 * max(self._config.fetch_size, LARGE_FETCH_BYTES)),
            security=security,
        )

    def __repr__(self) -> str:
        state = "connected" if self._connection.is_open else "not connected"
        return f"<SimpleConsumer of {self._connection.host}:{self._connection.port}, {state}>"

    @classmethod
    def of(cls, broker: Broker, config: SimpleConsumerConfig | Mapping[str, object] | None = None) -> Self:
        """Return a consumer of a registered broker."""
        return cls(broker.host, broker.port, config, None if broker.id == UNKNOWN_ID else broker.id, broker.security)

    def fetch(
        self,
        topic: str,
        partition: int,
        offset: int,
        max_bytes: int | None = None,
        *,
        wait_ms: int = 0,
        min_bytes: int = 1,
    ) -> FetchedSet:
        """Fetch up to `max_bytes` bytes (default: fetch.size) from an offset; the result yields messages.

        Empty at the end of the log, and for a topic that the broker does not know. With `wait_ms` the broker waits so
        long for `min_bytes` before it answers; one of 0.7 does not. Raises OffsetOutOfRangeError, WrongPartitionError
        NotAllowedError or UnknownError as the broker answers, BrokerConnectionError if it does not.
        """
        max_bytes = self._config.fetch_size if max_bytes is None else max_bytes
        [fetched] = self.fetch_on(topic, partition, offset, max_bytes, 1, wait_ms=wait_ms, min_bytes=min_bytes)
        if fetched.error is not None:
            raise fetched.error
        return fetched

    def fetch_on(
        self,
        topic: str,
        partition: int,
        offset: int,
        max_bytes: int,
        most: int,
        *,
        wait_ms: int = 0,
        min_bytes: int = 1,
    ) -> list[FetchedSet]:
        """Fetch a set and those that follow it, as long as they are large and come soon: one to `most`.

        For consumers that are far behind: a set costs less than one of `fetch`, where there is C code. Errors stay
        with their sets, and an error ends the list. `wait_ms` and `min_bytes` are those of `fetch`, for the first set.
        """
        request = FetchRequest(topic, partition, offset, max_bytes, _wait(wait_ms, min_bytes))
        frame = encode_request(request)
        fetched: list[FetchedSet] = []
        for code, data, complete_bytes in self._connection.fetch(frame, max(0, max_bytes), most, wait_ms):
            fetched.append(self._fetched_set(request, code, data, complete_bytes))
            request = request._replace(offset=request.offset + complete_bytes)
        return fetched

    def arrow(
        self, topic: str, partition: int, offset: int, max_bytes: int | None = None, *, max_messages: int = 10_000
    ) -> Iterator[pa.RecordBatch]:
        """Yield the messages from an offset to the end of the log as Arrow's record batches, see `FetchedSet.arrow`.

        Fetches up to `max_bytes` (default: fetch.size) at a time, or several times that, up to 1 MiB, while there is so
        much. To go on later, begin at the last `next_offset`. Raises as `fetch` does, and as iterating over what it
        returns.
        """
        max_bytes = self._config.fetch_size if max_bytes is None else max_bytes
        _, together = sets_for(max_bytes)
        asked_bytes = max_bytes
        while True:
            [fetched] = self.fetch_on(topic, partition, offset, asked_bytes, 1)
            yield from fetched.arrow(max_messages)
            if not fetched.data:
                return
            offset += fetched.complete_bytes
            asked_bytes = (together if 2 * len(fetched.data) >= max_bytes else 1) * max_bytes

    def multifetch(
        self, fetches: Iterable[tuple[str, int, int, int]], *, wait_ms: int = 0, min_bytes: int = 1
    ) -> list[FetchedSet]:
        """Fetch each of `fetches`, (topic, partition, offset, max_bytes), in one request; each part has its own error.

        `wait_ms` and `min_bytes` are those of `fetch`, for all parts together.
        """
        requests = tuple(FetchRequest(*fetch) for fetch in fetches)
        frame = self._ask(
            MultiFetchRequest(requests, _wait(wait_ms, min_bytes)),
            sum(max(0, request.max_bytes) + RESPONSE_HEADER_BYTES for request in requests),
            wait_ms,
        )
        body = decode_response(frame, f"a multifetch of {len(requests)} parts")
        parts = decode_multifetch_body(body, len(requests))
        return [self._fetched_set(request, code, data) for request, (code, data) in zip(requests, parts, strict=True)]

    def get_offsets_before(self, topic: str, partition: int, time_ms: int, max_count: int = 1) -> list[int]:
        """Return up to `max_count` offsets, newest first, at which segments from before a time start.

        `time_ms` is since the epoch, or LATEST for the flushed end, or EARLIEST for the first offset. For a topic that
        the broker does not know: [0] for LATEST and EARLIEST, else nothing.
        """
        request = OffsetsRequest(topic, partition, time_ms, max_count, is_ours=True)
        return self._offsets(request, self._ask(request))

    def get_many_offsets_before(self, asked: Iterable[tuple[str, int, int, int]]) -> list[list[int]]:
        """Return what `get_offsets_before` returns for each of `asked`: (topic, partition, time_ms, max_count).

        A round trip serves many, so each should ask for few offsets.
        """
        requests = [OffsetsRequest(*request, is_ours=True) for request in asked]
        frames = self._connection.request_many([encode_request(request) for request in requests])
        return [self._offsets(request, frame) for request, frame in zip(requests, frames, strict=True)]

    def _offsets(self, request: OffsetsRequest, frame: memoryview) -> list[int]:
        where = partition_text(request.topic, self.broker_id, request.partition)
        try:
            return decode_offsets_body(decode_response(frame, f"the offsets of {where} before {request.time_ms}"))
        except NotAllowedError:
            raise self._refusal(request.topic) from None

    def _refusal(self, topic: str) -> NotAllowedError:
        """Ask the broker why a topic may not be consumed. Raises BrokerConnectionError and ProtocolError."""
        body = decode_response(self._ask(RefusalRequest(topic)), f"the reason why topic {topic} is refused")
        principal, rules = refusal.decode_answer(bytes(body), f"topic {topic}")
        place = f"{self._connection.host}:{self._connection.port}"
        broker = f"the broker at {place}" if self.broker_id is None else f"broker {self.broker_id} at {place}"
        return NotAllowedError(f"{principal} may not consume topic {topic!r}: see {rules} of {broker}")

    def interrupt(self) -> None:
        """From another thread: let a fetch that waits at the broker be answered now, and none wait until `let_wait`."""
        self._connection.interrupt()

    def let_wait(self) -> None:
        """Let fetches wait again, from the next one on."""
        self._connection.let_wait()

    def _ask(self, request: Request, expected_bytes: int = 0, wait_ms: int = 0) -> memoryview:
        """Return the response, which may be larger than usual if that much was asked for."""
        most_bytes = ERROR_BYTES + expected_bytes
        return self._connection.request(
            encode_request(request), max(DEFAULT_MAX_FRAME_BYTES, most_bytes), most_bytes, wait_ms
        )

    def _fetched_set(
        self, request: FetchRequest, code: int, data: bytes, complete_bytes: int | None = None
    ) -> FetchedSet:
        error = ErrorCodes.error_for(code, f"the broker refused {self._description(request)}") if code else None
        if isinstance(error, NotAllowedError):
            error = self._refusal(request.topic)
        return FetchedSet(request, self.broker_id, data, error, complete_bytes)

    def _description(self, request: FetchRequest) -> str:
        where = partition_text(request.topic, self.broker_id, request.partition)
        return f"a fetch of {where} at offset {request.offset}"

    def close(self) -> None:
        """Close the connection; may be called twice. The next call connects again."""
        self._connection.close()


def sets_for(fetch_bytes: int) -> tuple[int, int]:
    """Return how many sets who is behind is to take by one call, and how many of them as one."""
    most = min(MAX_SETS, max(1, MAX_FETCH_BYTES // max(1, fetch_bytes)))
    together = min(most, max(1, LARGE_FETCH_BYTES // max(1, fetch_bytes)))
    return most // together * together, together


def _wait(wait_ms: int, min_bytes: int) -> FetchWait:
    if wait_ms < 0:
        raise ValueError(f"wait_ms is {wait_ms}: it must not be negative")
    return FetchWait(wait_ms, min_bytes) if wait_ms else AT_ONCE
