"""What a broker does with each request, and what it answers; no sockets here.

| request | handled well | refused |
|---|---|---|
| produce, multiproduce | appended in order, nothing answered | bad set, topic or partition: connection closed |
| produce to a new topic | the topic is made | too few files for its logs: connection closed |
| produce over max.message.size | - | set dropped, logged, counted; the connection goes on |
| fetch | a piece of a segment file | error number in the answer |
| multifetch | one answer, outer error 0 | each part carries its own error number |
| what somebody may not do | - | produce, offsets: connection closed; fetch: error -1 in the answer |
| either with a wait | answered once there is enough, or later | as without one, at once |
| multifetch of nothing | answered: what came before was handled | after a dropped set: connection closed |
| offsets | list of offsets | wrong partition, negative number: connection closed |
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka2011.broker.requests.awaited_bytes import missing_bytes
from kafka2011.broker.requests.request_times import RequestTimes
from kafka2011.broker.security.access import CONSUME, PRODUCE
from kafka2011.errors import (
    BrokerError,
    ErrorCodes,
    InvalidMessageError,
    InvalidMessageSizeError,
    KafkaError,
    LogError,
    MessageSizeTooLargeError,
    NotAllowedError,
    WrongPartitionError,
)
from kafka2011.log.log_limit import TooManyLogsError
from kafka2011.log.segment import LogSlice
from kafka2011.message.message_set import complete_prefix_bytes
from kafka2011.message.topic import InvalidTopicError
from kafka2011.replica.serving import Answer, answer_to_fetch
from kafka2011.wire import refusal
from kafka2011.wire.protocol import (
    ANY_PARTITION,
    EARLIEST,
    LATEST,
    MAX_INT32,
    RESPONSE_HEADER_BYTES,
    FetchRequest,
    MultiFetchRequest,
    MultiProduceRequest,
    OffsetsRequest,
    ProduceRequest,
    RefusalRequest,
    Request,
    encode_offsets_body,
    encode_response_header,
)
from kafka2011.wire.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.broker.requests.awaited_bytes import AwaitedBytes
    from kafka2011.broker.requests.message_check import MessageChecker
    from kafka2011.broker.requests.receive_buffer import ReceiveBuffer, Run
    from kafka2011.log.log import Log
    from kafka2011.log.log_manager import LogManager
    from kafka2011.message.header import AnyBytes
    from kafka2011.wire.protocol import FetchWait

logger = logging.getLogger(__name__)

_REFUSED = (InvalidTopicError, WrongPartitionError, InvalidMessageError, NotAllowedError, TooManyLogsError)
# A fetch that meets a LogError, such as a segment file that cannot be opened, is answered with error -1: the bytes that
# the broker was given are safe, and the next fetch may succeed.
_FETCH_ERRORS = (BrokerError, InvalidTopicError, LogError)
_MAX_TOLD = 1000
"""Of how many topics a connection's refusals are logged."""


class RefusedError(KafkaError):
    """A request is answered by closing its connection; the text says why."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What to send: bytes, and pieces of segment files that go out by sendfile and must be released after."""

    parts: tuple[bytes | LogSlice, ...]

    def release(self) -> None:
        """Release the segment files, sent or not; may be called twice."""
        for part in self.parts:
            if isinstance(part, LogSlice):
                part.release()


class _FetchErrors:
    """The parts of one request that are answered with an error: a line of the log for all, not for each of 32,767.

    Errors of a log have a line of their own.
    """

    __slots__ = ("_firsts", "_parts")

    def __init__(self) -> None:
        self._firsts: dict[int, tuple[FetchRequest, int, KafkaError]] = {}
        self._parts: Counter[int] = Counter()

    def add(self, request: FetchRequest, code: int, error: KafkaError) -> None:
        level = logging.WARNING if isinstance(error, LogError) else logging.INFO
        self._firsts.setdefault(level, (request, code, error))
        self._parts[level] += 1

    def log(self) -> None:
        """Name the first, and say how many more there are."""
        for level, (request, code, error) in self._firsts.items():
            more = self._parts[level] - 1
            logger.log(
                level,
                "fetch of %r-%d at %d answered with %s: %s%s",
                request.topic[:300],
                request.partition,
                request.offset,
                f"error {code}" if code else "an empty set",
                error,
                f" (and {more} more parts of this multifetch with an error)" if more else "",
            )


class Client:
    """What the handlers know of one connection: how its sets are checked, and why one of them was dropped, if any.

    `refused_topics` are those of the request being handled that it may not use, by the `rules` of that path; `name`
    says who it is, and `told` which refusals the log has named.
    `wait_for` waits for bytes, for so many seconds at most, and returns False if the client goes meanwhile.
    `appended`, where there are replicas, is told of each log that was appended to for it, and of the offset after that.
    """

    __slots__ = ("appended", "checker", "dropped", "name", "refused_topics", "rules", "told", "wait_for")

    def __init__(
        self,
        checker: MessageChecker,
        wait_for: Callable[[AwaitedBytes, float], bool] = lambda _awaited, _max_wait_s: True,
        name: str = "",
        appended: Callable[[Log, int], None] | None = None,
        rules: str = "",
    ) -> None:
        self.appended = appended
        self.rules = rules
        self.told: set[str] = set()
        self.checker = checker
        self.name = name
        self.wait_for = wait_for
        self.dropped: str | None = None
        self.refused_topics: frozenset[str] = frozenset()


class RequestHandlers:
    """Handles decoded requests against the logs.

    `counts` holds how many requests, sets, messages and refusals of each kind there were, `times` is for those who hand
    requests on. An I/O error in an append
    passes through: the broker stops on it.
    """

    def __init__(self, logs: LogManager) -> None:
        self._logs = logs
        self.counts: Counter[str] = Counter()
        self.times = RequestTimes()

    def handle(self, request: Request, client: Client) -> Reply | None:
        """Do what a request asks for and return the reply; None for produce. Raises RefusedError."""
        try:
            if isinstance(request, ProduceRequest):
                self._produce(request, client)
                return None
            if isinstance(request, FetchRequest):
                return self._fetch(request, client)
            if isinstance(request, RefusalRequest):
                return Reply((refusal.encode_answer(Refusal(client.name, client.rules)),))
            if isinstance(request, MultiFetchRequest):
                return self._multifetch(request, client)
            if isinstance(request, MultiProduceRequest):
                for produce in request.produces:
                    client.checker.pause()
                    self._produce(produce, client)
                return None
            return self._offsets(request, client)
        except _REFUSED as error:
            raise RefusedError(str(error)) from error

    def _check_may_produce(self, topic: str, client: Client) -> None:
        """Raise NotAllowedError unless a client may produce to a topic."""
        if topic in client.refused_topics:
            self.counts[f"not_allowed_{PRODUCE}"] += 1
            raise NotAllowedError(f"{client.name} may not produce: topic {topic[:300]!r}")

    def _refuses(self, topic: str, client: Client) -> bool:
        """Say whether a client may not consume from a topic; each connection is named once for each."""
        if topic not in client.refused_topics:
            return False
        self.counts[f"not_allowed_{CONSUME}"] += 1
        name = topic[:300]
        if name not in client.told and len(client.told) < _MAX_TOLD:
            client.told.add(name)
            logger.warning("%s may not consume topic %r", client.name, name)
        return True

    def produce_together(self, first: ProduceRequest, following: list[bytes], client: Client) -> None:
        """Do as `handle` does for a produce and, after it, for more sets for the same partition.

        Good ones are checked and appended together where the segment has room for all of them. Anything else is handled
        one by one, so that order, refusals, counts and where segments begin are the same.
        """
        sets = [bytes(first.messages), *following]
        if first.topic in client.refused_topics or not self._append_together(
            first.topic, first.partition, sets, client
        ):
            for messages in sets:
                self.handle(ProduceRequest(first.topic, first.partition, messages), client)

    def append_run(self, buffer: ReceiveBuffer, run: Run, client: Client) -> bool:
        """Append the sets of produces that C has found good; do nothing and return False if they are not as usual.

        That is, if they are the first for their partition, are empty, or the segment has no room for all of them.
        """
        topic, partition, _, _, _, size, sets, messages = run
        log = self._logs.existing(topic, partition)
        if log is None or not size or (sets > 1 and size > log.active_room_bytes):
            return False
        self.counts["produce"] += sets
        self._append(log, buffer.sets(run), messages, client)
        return True

    def _append(self, log: Log, data: AnyBytes, messages: int, client: Client) -> None:
        start = log.append(data, messages)
        self.counts["messages_in"] += messages
        if client.appended is not None:
            client.appended(log, start + len(data))

    def _append_together(self, topic: str, partition: int, sets: list[bytes], client: Client) -> bool:
        """Append sets of whole messages with one write, if all is as usual; else do nothing and return False."""
        # Or the end of a message that one set lacks might stand at the beginning of the next.
        if not all(complete_prefix_bytes(messages) == len(messages) for messages in sets):
            return False
        data = b"".join(sets)
        if not data:
            return False
        try:
            checked = client.checker.check(data)
            log = self._logs.get_or_create(topic, partition)
        except TooManyLogsError as error:
            raise RefusedError(str(error)) from error
        except (MessageSizeTooLargeError, InvalidTopicError, WrongPartitionError, InvalidMessageError):
            return False
        if not len(checked.data) == len(data) <= log.active_room_bytes:
            return False
        self.counts["produce"] += len(sets)
        self._append(log, data, checked.messages, client)
        return True

    def _produce(self, request: ProduceRequest, client: Client) -> None:
        counts = self.counts
        counts["produce"] += 1
        self._check_may_produce(request.topic, client)
        partition = request.partition
        if partition == ANY_PARTITION:
            partition = self._logs.choose_partition(request.topic)
        # As in 0.7.2, the first set makes the topic, good or not. A wrong name or partition is refused before.
        log = self._logs.get_or_create(request.topic, partition)
        try:
            checked = client.checker.check(request.messages)
        except MessageSizeTooLargeError as error:
            counts["dropped_sets"] += 1
            client.dropped = f"{request.topic}-{partition}: {error}"
            logger.warning(
                "dropped a set for %s-%d: %s (%d dropped so far)",
                request.topic,
                partition,
                error,
                counts["dropped_sets"],
            )
            return
        except InvalidMessageError as error:
            raise RefusedError(f"produce to {request.topic}-{partition}: {error}") from error
        if checked.data:
            self._append(log, checked.data, checked.messages, client)
        elif client.appended is None:  # replicas begin segments where messages are
            log.append(b"", 0)  # as in 0.7.2, that begins a segment behind a full one

    def _fetch(self, request: FetchRequest, client: Client) -> Reply | None:
        self.counts["fetch"] += 1
        if request.wait is not None and not self._wait(request.wait, (request,), client):
            return None
        errors = _FetchErrors()
        try:
            piece = self._read(request, MAX_INT32 - RESPONSE_HEADER_BYTES, client, is_ours=request.wait is not None)
        except _FETCH_ERRORS as error:
            header = self._error_header(error, request, errors, is_ours=request.wait is not None)
            errors.log()
            return Reply((header,))
        if piece is None:
            return Reply((encode_response_header(0, 0),))
        return Reply((encode_response_header(0, piece.size), piece))

    def _multifetch(self, request: MultiFetchRequest, client: Client) -> Reply | None:
        self.counts["multifetch"] += 1
        if not request.fetches and client.dropped is not None:
            # A producer's question whether all was handled, which no client of 0.7 asks: "yes" would be a lie.
            raise RefusedError(f"asked for confirmation after a set was dropped for {client.dropped}")
        if request.wait is not None and not self._wait(request.wait, request.fetches, client):
            return None
        parts: list[bytes | LogSlice] = []
        errors = _FetchErrors()
        body_bytes = 0
        limit_bytes = MAX_INT32 - RESPONSE_HEADER_BYTES * (len(request.fetches) + 1)
        try:
            for fetch in request.fetches:
                client.checker.pause()  # there may be 32,767 of them
                try:
                    piece = self._read(fetch, limit_bytes - body_bytes, client, is_ours=request.wait is not None)
                except _FETCH_ERRORS as error:
                    parts.append(self._error_header(error, fetch, errors, is_ours=request.wait is not None))
                    continue
                parts.append(encode_response_header(0, piece.size if piece else 0))
                if piece is not None:
                    if body_bytes:  # the first to be sent keeps its file open, the others wait for their turn
                        piece.park()
                    parts.append(piece)
                    body_bytes += piece.size
        except BaseException:
            Reply(tuple(parts)).release()
            raise
        finally:
            errors.log()
        body_bytes += RESPONSE_HEADER_BYTES * len(request.fetches)
        return Reply((encode_response_header(0, body_bytes), *parts))

    def _wait(self, wait: FetchWait, fetches: tuple[FetchRequest, ...], client: Client) -> bool:
        """Wait as a fetch asks for; False if its client goes meanwhile."""
        if wait.max_ms <= 0 or wait.min_bytes <= 0 or client.refused_topics:
            return True
        awaited = missing_bytes(fetches, wait.min_bytes, self._logs, client.checker.pause)
        return awaited is None or client.wait_for(awaited, wait.max_ms / 1000)

    def _read(self, request: FetchRequest, limit_bytes: int, client: Client, *, is_ours: bool) -> LogSlice | None:
        """Return the piece of the log asked for, or None where an empty set is the answer.

        That is so for a topic which a client of 0.7 may not consume: an error would end its fetcher, which serves all
        topics of this broker.
        """
        if self._refuses(request.topic, client):
            if is_ours:
                raise NotAllowedError(f"{client.name} may not consume")
            return None
        log = self._logs.get(request.topic, request.partition)
        if log is None:
            if request.max_bytes == 0:  # a question about partitions: see kafka2011.admin.partitions
                self._logs.check(request.topic, request.partition)
            return None
        if client.appended is not None and _is_not_readable_yet(log, request.offset):
            return None
        piece = log.read(request.offset, min(request.max_bytes, limit_bytes))
        if request.max_bytes < 0:  # last, as in 0.7.2: a wrong topic, partition or offset is the answer there
            raise InvalidMessageSizeError(f"{request.max_bytes} is no number of bytes")
        if piece.size == 0:
            piece.release()
            return None
        log.fetched_bytes += piece.size
        return piece

    def _error_header(self, error: KafkaError, request: FetchRequest, errors: _FetchErrors, *, is_ours: bool) -> bytes:
        """Answer an error with its number, but a log that cannot be read now to a client of 0.7 with an empty set.

        That passes, and a consumer of 0.7.2 ends at any number but that of an offset out of range.
        """
        code = ErrorCodes.code_for(error)
        self.counts[f"fetch_error_{code}"] += 1
        told = ErrorCodes.NONE if isinstance(error, LogError) and not is_ours else code
        errors.add(request, told, error)
        return encode_response_header(told, 0)

    def _offsets(self, request: OffsetsRequest, client: Client) -> Reply:
        self.counts["offsets"] += 1
        is_refused = self._refuses(request.topic, client)
        if is_refused and request.is_ours:
            return Reply((encode_response_header(NotAllowedError.code, 0),))
        log = None if is_refused else self._logs.get(request.topic, request.partition)
        if log is not None:
            if request.max_count < 0:
                raise RefusedError(f"offsets of {request.topic}-{request.partition}: {request.max_count} is no number")
            offsets = log.offsets_before(request.time_ms, request.max_count, client.checker.pause)
        else:
            offsets = [0] if request.time_ms in {LATEST, EARLIEST} else []
        body = encode_offsets_body(offsets)
        return Reply((encode_response_header(0, len(body)) + body,))


def _is_not_readable_yet(log: Log, offset: int) -> bool:
    """Say whether an offset may have been readable at the replica that led before, so that it is not out of range."""
    ends = log.end_offset, log.appended_end_offset
    return answer_to_fetch(offset, log.start_offset, *ends, is_leading=True) is Answer.EMPTY
