"""Tracks what was sent but not confirmed, and what must be sent again: a state machine without sockets or clocks.

    add -> to be sent -> send -> unconfirmed -> answered -> gone
                 ^                    |
                 +------- lost -------+

Everything stays in the order in which it was added. A barrier is a question after the batches sent so far: its answer
proves that the broker has handled them, because it serves a connection strictly in order. At most MOST_BARRIERS are
unanswered, so the few bytes of their answers always fit the sockets' buffers, and a writer never has to read to make
progress. Several make room bit by bit, so that the application goes on while the broker works.

When a connection ends, everything unconfirmed goes back ahead of the rest, and is sent again one by one. When the
broker then ends a connection with one batch on it, that batch is the one that it refuses.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka2011.producer.batch import Batch


MOST_BARRIERS = 64


class ConfirmationWindow:
    """The batches of one connection, from oldest to newest. `max_batches` and `max_bytes` bound what is unconfirmed."""

    def __init__(self, max_batches: int, max_bytes: int) -> None:
        self._max_batches = max_batches
        self._max_bytes = max_bytes
        self._waiting: deque[Batch] = deque()
        self._unconfirmed: deque[Batch] = deque()
        self._unconfirmed_bytes = 0
        # For each unanswered barrier, how many batches are between it and the one before; and all of these.
        self._asked: deque[int] = deque()
        self._asked_batches = 0

    @property
    def empty(self) -> bool:
        """Whether there is neither anything to send nor anything unconfirmed."""
        return not self._waiting and not self._unconfirmed

    @property
    def barriers(self) -> int:
        """How many barriers are unanswered."""
        return len(self._asked)

    @property
    def may_ask(self) -> bool:
        """Whether there is something to ask about, and room for one more barrier."""
        return self._asked_batches < len(self._unconfirmed) and len(self._asked) < MOST_BARRIERS

    @property
    def waiting(self) -> int:
        """How many batches are still to be sent, or to be sent again."""
        return len(self._waiting)

    @property
    def first_deadline_s(self) -> float | None:
        """When the oldest batch runs out of time; None when there is none."""
        oldest = self._unconfirmed or self._waiting
        return oldest[0].deadline_s if oldest else None

    @property
    def unconfirmed(self) -> int:
        """How many batches were sent and are not confirmed."""
        return len(self._unconfirmed)

    @property
    def unconfirmed_bytes(self) -> int:
        """How many bytes are in them."""
        return self._unconfirmed_bytes

    def add(self, sets: Iterable[Batch]) -> None:
        """Add batches after all others."""
        self._waiting.extend(sets)

    @property
    def can_send(self) -> bool:
        """Whether `send` would give anything."""
        if not self._waiting:
            return False
        if not self._unconfirmed:
            return True
        if self._waiting[0].suspect or self._unconfirmed[0].suspect:
            return False
        return self._has_room_for(self._waiting[0])

    def send(self, most_batches: int | None = None, most_bytes: int | None = None) -> list[Batch]:
        """Return what is sent next: as much as there is room for, or about so much of it; a suspect batch alone."""
        sent: list[Batch] = []
        sent_bytes = 0
        while self.can_send:
            following = self._waiting.popleft()
            following.tries += 1
            self._unconfirmed.append(following)
            sent.append(following)
            sent_bytes += len(following.data)
            self._unconfirmed_bytes += len(following.data)
            if len(sent) == most_batches or (most_bytes is not None and sent_bytes >= most_bytes):
                break
        return sent

    def ask(self) -> None:
        """Note a barrier after all that was sent."""
        assert self.may_ask
        self._asked.append(len(self._unconfirmed) - self._asked_batches)
        self._asked_batches = len(self._unconfirmed)

    def answered(self, answers: int = 1) -> list[Batch]:
        """Return the batches that the answers to the oldest barriers confirm."""
        count = sum(self._asked.popleft() for _ in range(answers))
        confirmed = [self._unconfirmed.popleft() for _ in range(count)]
        self._asked_batches -= count
        self._unconfirmed_bytes -= sum(len(batch.data) for batch in confirmed)
        return confirmed

    def written(self, batches: list[Batch]) -> None:
        """Forget the oldest that were sent, when not confirming: what was handed over is done."""
        for batch in batches:
            assert self._unconfirmed.popleft() is batch
            self._unconfirmed_bytes -= len(batch.data)

    def not_written(self) -> None:
        """Take back what was sent, when not confirming: the broker does nothing with half a request."""
        self._waiting.extendleft(reversed(self._unconfirmed))
        self._unconfirmed.clear()
        self._unconfirmed_bytes = 0

    def lost(self) -> Batch | None:
        """Take back all that is unconfirmed to send it again; return the one that must be to blame, if any.

        That is a suspect one: it was alone on its connection.
        """
        blamed = self._unconfirmed[0] if self._unconfirmed and self._unconfirmed[0].suspect else None
        for lost in reversed(self._unconfirmed):
            lost.suspect = True
            self._waiting.appendleft(lost)
        self._unconfirmed.clear()
        self._unconfirmed_bytes = 0
        self._asked.clear()
        self._asked_batches = 0
        return blamed

    def remove(self, unwanted: Callable[[Batch], bool]) -> list[Batch]:
        """Take out batches that are still to be sent: those that moved, ran out of time, or were refused."""
        removed = [waiting for waiting in self._waiting if unwanted(waiting)]
        if removed:
            gone = set(map(id, removed))
            self._waiting = deque(waiting for waiting in self._waiting if id(waiting) not in gone)
        return removed

    def _has_room_for(self, following: Batch) -> bool:
        return (
            len(self._unconfirmed) < self._max_batches
            and self._unconfirmed_bytes + len(following.data) <= self._max_bytes
        )
