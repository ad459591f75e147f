"""What an application sent, what it was told, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from kafka2011.producer.batch import FailedBatch, Receipt
    from tests.models.producer.faulty_broker import FaultyBroker


@dataclass(eq=False)
class Sent:
    """One send. Nothing was queued where there is neither a future nor a `failed_with`."""

    sender: str
    payloads: list[bytes]
    key: object
    is_movable: bool
    ready: bytes = b""  # the set's bytes, if it was one
    is_compressed: bool = False  # and counts as one message
    returned_s: float = 0.0
    future: Future[Receipt] | None = None
    failed_with: Exception | None = None  # of a synchronous send

    @property
    def was_queued(self) -> bool:
        """Whether it is the producer's."""
        return self.future is not None or self.failed_with is not None

    @property
    def messages(self) -> int:
        """How many messages it is to the producer."""
        return 1 if self.is_compressed else len(self.payloads)

    @property
    def error(self) -> BaseException | None:
        """What it failed with."""
        return self.failed_with if self.future is None else self.future.exception(0)


@dataclass(frozen=True)
class End:
    """When a future ended, and how many sets each broker had appended by then."""

    at_s: float
    appended: dict[int, int]


class Account:
    """Everything that an application sent and was told."""

    def __init__(self, brokers: Mapping[int, FaultyBroker], now_s: Callable[[], float]) -> None:
        self.brokers = brokers
        self.now_s = now_s
        self.sends: list[Sent] = []
        self.largest_send = (0, 0)  # messages, bytes
        self.failures: list[FailedBatch] = []
        self.ends: dict[Future[Receipt], End] = {}
        self.ended_twice = False
        self.moved: set[Future[Receipt]] = set()  # went to another broker, or a part of it did
        self.closing_s: list[float] = []  # how long each `close` took

    def begin(self, sent: Sent) -> None:
        """Note that a send begins."""
        self.sends.append(sent)
        messages, size_bytes = self.largest_send
        own_bytes = len(sent.ready) or sum(map(len, sent.payloads))
        self.largest_send = max(messages, sent.messages), max(size_bytes, own_bytes)

    def note_end(self, future: Future[Receipt]) -> None:
        """Note that a future ends now."""
        self.ended_twice |= future in self.ends
        self.ends[future] = End(self.now_s(), {each.broker_id: len(each.appended) for each in self.brokers.values()})
