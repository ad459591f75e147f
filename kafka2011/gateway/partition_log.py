"""One partition as today's clients see it: numbered records, read from the broker, and what waits at its end."""

from __future__ import annotations

import logging
import struct
import time
from collections import OrderedDict
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import gevent
from gevent.event import Event
from gevent.lock import Semaphore

from kafka2011.errors import KafkaError, LogError, OffsetOutOfRangeError
from kafka2011.gateway.recent_bytes import NumberedBytes, RecentBytes
from kafka2011.gateway.records.encoding import encode_piece
from kafka2011.gateway.records.errors import InvalidRecordsError
from kafka2011.gateway.records.found import Kind, Piece
from kafka2011.gateway.records.pieces import find_pieces
from kafka2011.gateway.served_pieces import ServedPieces
from kafka2011.wire.protocol import EARLIEST, LATEST

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Iterator

    from kafka2011.gateway.links import BrokerLinks
    from kafka2011.gateway.numbering.boundaries import Boundary, Numbered
    from kafka2011.gateway.numbering.partition_index import PartitionIndex
    from kafka2011.gateway.records.found import Origin
    from zk.cluster import TopicPartition
    from zk.number_floors import NumberFloors

    SentSet: TypeAlias = tuple[bytes, Origin]
    """A set that this gateway has sent: one wrapper, and who sent its records."""

logger = logging.getLogger(__name__)

FETCH_BYTES = 1024 * 1024
SLACK_BYTES = 64 * 1024
"""What a fetch reads beyond what is wanted: an index knows a place at most so far before a number."""
MOST_FETCHED_BYTES = 8 * 1024 * 1024
HINTS = 256
REFUSED_S = 10.0
"""The time until a broker that refuses this gateway is asked again."""
MOST_SEGMENTS = 100_000
_LENGTH = struct.Struct(">i")


class CorruptLogError(KafkaError):
    """Bytes of a log that cannot be read lie where a client wants to go on."""


class PartitionLog:
    """One partition: its index, the newest of its bytes, and readers. All its calls may wait for the broker.

    `new_index` makes the index, which is opened by the first call that needs it. `number` is the partition's number
    for today's clients. `topic_id` is new at each creation of the topic; its wrappers have the id of its first one.
    """

    def __init__(
        self,
        where: TopicPartition,
        number: int,
        topic_id: uuid.UUID,
        floors: NumberFloors,
        links: Callable[[], BrokerLinks],
        new_index: Callable[[PartitionLog], PartitionIndex],
        max_message_bytes: int,
    ) -> None:
        self.where = where
        self.number = number
        self.topic_id = topic_id
        self.floor = floors.of(number)
        self.wrapper_id = floors.wrapper_id or topic_id
        self._links = links
        self._new_index = new_index
        self._max_message_bytes = max_message_bytes
        self._lock = Semaphore()
        self._is_changing = False  # the index, by who has the lock
        self._index: PartitionIndex | None = None
        self._recent = RecentBytes()
        self._encoded: tuple[int, int, bytes] = (-1, 0, b"")  # what was read last of the recent bytes: many ask for it
        self._hints: OrderedDict[int, int] = OrderedDict()  # positions of numbers where readers will go on
        self._served = ServedPieces()  # also while the broker is away
        self._generation = 0
        self.is_current = False  # what is readable has been indexed, as it was a moment ago
        self.fault = ""  # why it cannot be followed for now
        self._refused_until_s = 0.0
        self.wanted_until_s = 0.0
        self.pause_s = 0.0  # between the newest failure to follow it and the next attempt
        self.paused_until_s = 0.0
        self.on_pieces: Callable[[list[Numbered]], object] = lambda _: None
        self.sent_sets: Callable[[], Iterator[SentSet]] = lambda: iter(())  # and not found yet, in this order
        self._taken: tuple[int, int, list[Piece]] = (0, 0, [])  # where sets that were sent lie, bytes, pieces
        self._grown = Event()

    # What the index asks for

    def earliest(self) -> int:
        """Return where the log starts."""
        return (self._links().offsets(self.where, EARLIEST) or [0])[0]

    def latest(self) -> int:
        """Return the readable end."""
        return (self._links().offsets(self.where) or [0])[0]

    def read(self, position: int, max_bytes: int) -> bytes:
        """Return bytes from a position on."""
        recent = self._recent.range(position, max_bytes)
        return self._links().fetch(self.where, position, max_bytes) if recent is None else recent

    def find_pieces(self, data: bytes, position: int) -> tuple[list[Piece], int]:
        """Divide bytes into pieces; see `records.pieces`."""
        if data and (position, len(data)) == self._taken[:2]:
            return [*self._taken[2]], position + len(data)
        return find_pieces(
            data,
            position,
            {self.wrapper_id.bytes, self.topic_id.bytes},  # an older gateway takes the newest id
            self.number,
            max_length=self._max_message_bytes,
            pause=partial(gevent.sleep, 0),
        )

    # The index

    def index(self) -> PartitionIndex:
        """Return the index, opened. Raises BrokerConnectionError, ZkError and LogError."""
        known = self._index
        if known is not None and not self._is_changing and known.generation == self._generation:
            return known
        with self._lock:
            return self._opened()

    def _opened(self) -> PartitionIndex:
        """Return the index to who has the lock."""
        if self._index is None:
            index = self._new_index(self)
            index.open()
            self._index = index
        if self._index.generation != self._generation:  # it is another log: nothing that was read counts
            self._generation = self._index.generation
            self._served = ServedPieces()
            self._forget()
        return self._index

    @property
    def known_index(self) -> PartitionIndex | None:
        """The index, if it was opened."""
        return self._index

    def begin_following(self) -> None:
        """Open the index, and see what has become of the log after an outage. Raises as `index` does."""
        if self.fault:
            self.check()
            self.fault = ""
        self.index()

    def check(self) -> None:
        """See what has become of the log after a position was out of range, or the broker was away."""
        with self._changed() as index:
            self._forget()
            index.check()

    def _forget(self) -> None:
        self.is_current = False
        self._recent.clear()
        self._encoded = -1, 0, b""
        self._hints.clear()

    @contextmanager
    def _changed(self) -> Iterator[PartitionIndex]:
        """Lend the index to one who changes it.

        If its anchors were written by another gateway, or by a write whose answer was lost, it is opened again.
        """
        with self._lock:
            try:
                index = self._opened()
                self._is_changing = True
                yield index
            except LogError:
                self._index = None
                self._forget()
                raise
            finally:
                self._is_changing = False

    def take(self, position: int, data: bytes) -> None:
        """Give numbers to what was fetched at the end of what is indexed, and wake those who wait for it.

        Nothing is done if that end is elsewhere by now.
        """
        with self._changed() as index:
            if position != index.end.position:
                return
            numbered = index.take(data)
            if not numbered and index.generation == self._generation:
                data = self.read(position, self._needed_bytes(data))
                numbered = index.take(data)
            self._opened()  # which notes that the log is another one
            if not numbered:
                return
            self._encoded = -1, 0, b""
            self._recent.add(NumberedBytes(position, data, numbered))
        self.on_pieces(numbered)
        self.wake()

    def take_sent(self, position: int, sets: list[SentSet]) -> None:
        """Take sets that were sent and lie there, one behind the other."""
        at, pieces = position, []
        for data, origin in sets:
            pieces.append(Piece(Kind.WRAPPER, at, at + len(data), origin.records, origin))
            at += len(data)
        self._taken = position, at - position, pieces
        try:
            self.take(position, b"".join([data for data, _ in sets]))
        finally:
            self._taken = 0, 0, []

    def note_current(self) -> None:
        """Note that all that is readable has been indexed."""
        if not self.is_current:
            self.is_current = True
            self.wake()

    def note_outage(self, why: str, *, is_refused: bool = False) -> None:
        """Note that the broker does not answer, or refuses this gateway: nobody knows what it has."""
        self.is_current = False
        self.fault = why
        self._refused_until_s = time.monotonic() + REFUSED_S if is_refused else 0.0
        self.wake()

    @property
    def is_refused(self) -> bool:
        """Whether the broker's rules do not let this gateway have it. It asks again after some seconds."""
        return time.monotonic() < self._refused_until_s

    def wake(self) -> None:
        """Wake those who wait for a change at the end."""
        grown, self._grown = self._grown, Event()
        grown.set()

    @property
    def changes(self) -> Event:
        """What is set when the end has moved or the log's state has changed; a new one afterwards."""
        return self._grown

    def refresh_start(self) -> None:
        """See whether the broker has deleted the front of the log."""
        start = self.earliest()
        with self._changed() as index:
            if start != index.log_start().position:
                index.note_log_start(start)

    def written_after(self, time_ms: int) -> int | None:
        """Return the start of the first segment that was written after a time, as 0.7 knows it; None without one."""
        starts = sorted(self._links().offsets(self.where, LATEST, MOST_SEGMENTS))
        older = self._links().offsets(self.where, time_ms, 1)
        return min((start for start in starts if not older or start > older[0]), default=None)

    def store(self) -> None:
        """Store what is known of numbers, if anything is."""
        if self._index is not None:
            with self._changed() as index:
                index.persist()

    def release(self) -> None:
        """Give back the numbers that are reserved and were not given, if the index is open. What fails is logged."""
        if self._index is None:
            return
        try:
            with self._changed() as index:
                index.release()
        except (KafkaError, OSError) as error:
            logger.info("%s: its numbers will have a gap if its topic is created again: %s", self.where, error)

    # Reading

    def records(self, number: int, max_bytes: int) -> bytes:
        """Return record batches from a number on, about `max_bytes` of them; none at the end of what is indexed.

        The first batch may begin before the number. Raises CorruptLogError, BrokerError, BrokerConnectionError.
        """
        chunk = self._recent.holding(number)
        if chunk is None:
            chunk = self.chunk_of(number, max_bytes)
            return b"" if chunk is None else self._encode(chunk, number, max_bytes)[0]
        if (number, max_bytes) != self._encoded[:2]:
            self._encoded = number, max_bytes, self._encode_recent(chunk, number, max_bytes)
        return self._encoded[2]

    def _encode_recent(self, chunk: NumberedBytes, number: int, max_bytes: int) -> bytes:
        """Return batches from a number on, also of the chunks that follow: each may be a single message."""
        batches, reached = self._encode(chunk, number, max_bytes)
        while reached == chunk.end_number and (following := self._recent.holding(reached)) is not None:
            chunk = following
            try:
                more, reached = self._encode(chunk, reached, max_bytes - len(batches), may_exceed=False)
            except (CorruptLogError, InvalidRecordsError):
                break
            batches += more
        return batches

    def chunk_of(self, number: int, max_bytes: int) -> NumberedBytes | None:
        """Return bytes from a number on, or from before it, about `max_bytes` of them; fetched unless they are recent.

        None at the end of what is indexed, and if the log turns out to be another one. Raises as `records` does.
        """
        recent = self._recent.holding(number)
        if recent is not None:
            return recent
        index = self.index()
        return None if number >= index.end.number else self._chunk_from(self._place(number), number, max_bytes)

    def hinted_position(self, number: int) -> int | None:
        """Return the position of a number where a reader was told to go on lately; None for any other."""
        return self._hints.get(number)

    @property
    def served(self) -> ServedPieces:
        """What clients were given of this log lately; nothing of another log that was there before."""
        index = self._index
        return self._served if index is not None and index.generation == self._generation else ServedPieces()

    def _place(self, number: int) -> Boundary:
        position = self._hints.get(number)
        place = self.index().find(number)
        return place if position is None else place._replace(position=position, number=number)

    def _chunk_from(self, place: Boundary, number: int, max_bytes: int) -> NumberedBytes | None:
        size = min(max(max_bytes, SLACK_BYTES) + SLACK_BYTES, MOST_FETCHED_BYTES)
        generation = self._generation
        while True:
            try:
                data = self.read(place.position, size)
            except OffsetOutOfRangeError:
                self.check()
                return None
            if self.index().generation != generation:  # the log is another one, and the place was in the old one
                return None
            numbered = self.index().numbered(place, data)
            if not numbered:
                if len(data) < _LENGTH.size or place.position >= self.index().end.position:
                    return None
                size = self._needed_bytes(data)
                continue
            chunk = NumberedBytes(place.position, data, numbered)
            if chunk.end_number > number:
                return chunk
            place = place._replace(position=chunk.end, number=chunk.end_number)

    def _needed_bytes(self, data: bytes) -> int:
        """Return how much must be fetched for the message of which the beginning was fetched."""
        size = _LENGTH.unpack_from(data)[0] + _LENGTH.size if len(data) >= _LENGTH.size else FETCH_BYTES
        if not 0 < size <= self._max_message_bytes:
            raise CorruptLogError(f"{self.where}: a message claims {size} bytes")
        return int(size)

    def _encode(
        self, chunk: NumberedBytes, number: int, max_bytes: int, *, may_exceed: bool = True
    ) -> tuple[bytes, int]:
        """Return the batches of a chunk from a number on, and the number where a reader goes on; -1 within a piece.

        Only the first batch may exceed `max_bytes`, if it `may_exceed` it.
        """
        batches: list[bytes] = []
        size = 0
        next_number, next_position = chunk.end_number, chunk.end
        served: list[Numbered] = []
        for numbered in chunk.pieces:
            piece, first_number, _ = numbered
            behind = first_number + piece.numbers
            if behind <= number:
                continue
            next_number, next_position = first_number, piece.start
            if not may_exceed and size + piece.end - piece.start > max_bytes + SLACK_BYTES:  # made for nothing
                break
            try:
                batch, reached = _batch(self.where, chunk, numbered, number, max_bytes - size)
            except (CorruptLogError, InvalidRecordsError):
                if not batches:
                    raise
                break
            if not may_exceed and size + len(batch) > max_bytes:
                break
            may_exceed = False
            batches.append(batch)
            served.append(numbered)
            size += len(batch)
            if reached < behind:  # the place where it goes on is within a piece
                next_number = -1
                break
            next_number, next_position = behind, piece.end
        self._served.note(chunk, served)
        if next_number >= 0:
            self._hints[next_number] = next_position
            self._hints.move_to_end(next_number)
        if len(self._hints) > HINTS:
            self._hints.popitem(last=False)
        return b"".join(batches), next_number


def _batch(
    where: TopicPartition, chunk: NumberedBytes, numbered: Numbered, number: int, max_bytes: int
) -> tuple[bytes, int]:
    """Return the batch of a piece from a number on, and the number after it. Raises CorruptLogError."""
    piece, first_number, is_repeat = numbered
    if piece.kind not in {Kind.PLAIN, Kind.WRAPPER}:
        raise CorruptLogError(f"{where}: {piece.kind.value} bytes at position {piece.start}")
    return encode_piece(
        chunk.data,
        chunk.position,
        piece,
        first_number,
        skip=max(number - first_number, 0),
        max_bytes=max(max_bytes, 1),
        is_repeat=is_repeat,
    )
