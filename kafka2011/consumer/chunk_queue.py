"""ChunkQueue: the fetched sets that wait for one stream, in the order in which they came, and the room for more.

Its lock guards more than the queue: the feeds that fill it and the stream that empties it, too. So what is fetched,
handed out and given up never contradict one another, and a message costs one lock.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable


class Waiting(Protocol):
    """What the queue must know of a chunk."""

    @property
    def room(self) -> int:
        """How many sets of fetch.size it counts for."""

    @property
    def is_wanted(self) -> bool:
        """False when its partition was given up or rewound after it was fetched."""


ChunkT = TypeVar("ChunkT", bound=Waiting)


class ChunkQueue(Generic[ChunkT]):
    """Chunks with the room of at most `max_chunks` sets; fetches under way reserve it for what they may bring.

    Each broker may reserve only its share, or one where nothing waits: so a broker that does not answer stops no other.
    If more comes than there is room for, it is refused, and fetched again later.

    All methods are called with `lock` held; `changed`, a condition of that lock, is notified whenever waiting threads
    should look again. `room_made` is called when a fetch that found no room would find some now, and `filled` when
    there is a chunk to take, or the end; neither may wait, nor take this lock.
    """

    def __init__(self, max_chunks: int, room_made: Callable[[], None]) -> None:
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.is_closed = False
        self.unfinished_releases = 0  # partitions given up with a message in the application's hand
        self._max_chunks = max_chunks
        self._room_made = room_made
        self.filled: Callable[[], None] | None = None
        self._chunks: deque[ChunkT] = deque()
        self.taken = 0  # the room of all of them
        self._feeds: Counter[int] = Counter()  # partitions being fetched, by broker
        self.reserved: Counter[int] = Counter()  # room for fetches under way, by broker
        self._refused: set[int] = set()  # brokers from which a fetch was not made for want of room

    def join(self, broker_id: int) -> None:
        """Count one partition more for a broker."""
        self._feeds[broker_id] += 1

    def part(self, broker_id: int) -> None:
        """Count one partition less for a broker; those that remain share the room."""
        self._feeds[broker_id] -= 1
        if not self._feeds[broker_id]:
            del self._feeds[broker_id]
            self._make_room()

    def reserve(self, broker_id: int) -> bool:
        """Reserve room for one set from a broker, until `give_back`; False when there is none."""
        if self.is_closed:
            return False
        reserved = self.reserved[broker_id]
        share = max(1, self._max_chunks // max(1, len(self._feeds)))
        is_room = self.taken + self.reserved.total() < self._max_chunks and reserved < share
        if not is_room and (reserved or self._chunks):
            self._refused.add(broker_id)
            return False
        self._refused.discard(broker_id)
        self.reserved[broker_id] += 1
        return True

    def is_reserved(self, broker_id: int) -> bool:
        """Say whether fetches of a broker are under way, which give their room back when they bring nothing."""
        return self.reserved[broker_id] > 0

    def give_back(self, broker_id: int, count: int = 1) -> None:
        """Let others have the room that was reserved."""
        self.reserved[broker_id] -= count

    def put(self, chunk: ChunkT, broker_id: int) -> bool:
        """Queue a chunk from a broker, after `give_back`; False if others have taken the room for it."""
        if self._chunks and self.taken + chunk.room > self._max_chunks:
            self._refused.add(broker_id)
            return False
        self._chunks.append(chunk)
        self.taken += chunk.room
        self._tell()
        return True

    def take(self) -> ChunkT | None:
        """Take the oldest chunk that is still wanted; None when there is none."""
        while self._chunks:
            chunk = self._chunks.popleft()
            self.taken -= chunk.room
            self._make_room()
            if chunk.is_wanted:
                return chunk
        return None

    def drop_unwanted(self) -> None:
        """Drop the chunks that will not be handed out, and make their room free."""
        kept = [chunk for chunk in self._chunks if chunk.is_wanted]
        if len(kept) < len(self._chunks):
            self._chunks = deque(kept)
            self.taken = sum(chunk.room for chunk in kept)
            self._make_room()
        self.changed.notify_all()

    def close(self) -> None:
        """Drop everything."""
        self.is_closed = True
        self._chunks.clear()
        self.taken = 0
        self._tell()

    def _tell(self) -> None:
        self.changed.notify_all()
        if self.filled is not None:
            self.filled()

    def _make_room(self) -> None:
        if self._refused:
            self._refused.clear()
            self._room_made()
