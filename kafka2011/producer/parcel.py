"""What travels through an asynchronous producer: sends, their parcels, and the sets that parcels are joined into."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafka2011.message import MessageSet
    from kafka2011.producer.queue_bound import QueueBound
    from kafka2011.producer.turns import Turn
    from zk.cluster import TopicPartition


class Receipt(NamedTuple):
    """What became of a send: where its last message went, and how often parts of it had to be sent again.

    `confirmed` says that the broker was proven to have handled it; without confirm=true it was only handed to the
    operating system. `partition` is -1 where the broker chose it.
    """

    topic: str
    broker_id: int
    partition: int
    messages: int
    confirmed: bool
    resends: int


class FailedSend(NamedTuple):
    """Messages that were given up, as `on_failure` gets them: the part of one send that failed, and why.

    `messages` are payloads, or the MessageSet if that is what was sent.
    """

    topic: str
    key: object
    messages: list[bytes] | MessageSet
    error: Exception


class Ticket(Future[Receipt]):
    """One call of `send`, whose parts may end apart, and the future that its caller holds: done when all of them are.

    It cannot be cancelled: what is queued is sent.
    """

    def __init__(self, topic: str, key: object, messages: int, parcels: int) -> None:
        super().__init__()
        self.topic = topic
        self.key = key
        self.messages = messages
        self.open_parcels = parcels
        self.resends = 0
        self.error: Exception | None = None

    def cancel(self) -> bool:
        """Return False: a send cannot be taken back."""
        return False


class Parcel:
    """Messages of one send that stay together: some payloads, or a MessageSet that was given ready."""

    __slots__ = ("bound", "messages", "partition", "payloads", "ready_set", "ticket", "turn")

    def __init__(
        self,
        ticket: Ticket,
        partition: TopicPartition,
        payloads: list[bytes],
        ready_set: MessageSet | None,
        messages: int,
    ) -> None:
        self.ticket = ticket
        self.partition = partition
        self.payloads = payloads
        self.ready_set = ready_set
        self.messages = messages
        self.bound: QueueBound | None = None
        self.turn: Turn | None = None  # without a key, when sends are confirmed


@dataclass(slots=True, eq=False)
class PartitionSet:
    """One message set for one partition, ready to be sent, with the parcels that are in it.

    All of them have a key, or none has: sets without one may change their partition. `suspect` sets were on their way
    when a connection ended, and are sent one by one to find out which of them the broker refuses.
    """

    topic: str
    partition: TopicPartition
    keyed: bool
    data: bytes
    parcels: list[Parcel]
    deadline_ms: float = 0.0
    tries: int = 0
    refusals: int = 0
    suspect: bool = False

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition.partition} on broker {self.partition.broker_id}"
