"""AsyncProducer: queues what is sent, and sends it in batches, one thread to a broker (0.7's asynchronous producer)."""

from __future__ import annotations

import threading
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any, Self

from kafka2011.config import ProducerConfig
from kafka2011.message import MessageSet, scan
from kafka2011.producer.broker_queue import BrokerQueue, Urgency
from kafka2011.producer.confirmed_sender import ConfirmedSender
from kafka2011.producer.counts import Counts
from kafka2011.producer.encoder import payloads_of
from kafka2011.producer.errors import ProducerClosedError
from kafka2011.producer.finisher import Finisher
from kafka2011.producer.parcel import Parcel, Ticket
from kafka2011.producer.queue_bound import QueueBound
from kafka2011.producer.set_encoder import SetEncoder
from kafka2011.producer.setup import open_router, own_encoder
from kafka2011.producer.turns import Turns
from kafka2011.producer.unconfirmed_sender import UnconfirmedSender
from kafka2011.protocol import ANY_PARTITION
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future
    from types import TracebackType

    from kafka2011.producer.broker_sender import BrokerSender
    from kafka2011.producer.parcel import FailedSend, Receipt
    from kafka2011.producer.router import Router

TURN_BATCHES = 200
"""So many batches without a key go to one partition before the next one's turn, when sends are confirmed."""

_NOWHERE = TopicPartition("", -1, ANY_PARTITION)  # until a partition is chosen


class AsyncProducer:
    """A producer whose `send` returns at once with a future; may be shared by threads; a context manager.

    Each broker has a queue of at most queue.size messages, from which a thread of its own sends batches of batch.size,
    or what there is after queue.time. So a broker that is gone holds up nobody else. `counts` tells what was done.
    `on_failure` is called with every FailedSend, by a sending thread.
    """

    def __init__(
        self,
        config: ProducerConfig | Mapping[str, object],
        *,
        on_failure: Callable[[FailedSend], object] | None = None,
        router: Router | None = None,
    ) -> None:
        self._config = ProducerConfig.of(config)
        self._value_encoder = own_encoder(self._config)
        self._set_encoder = SetEncoder(self._config)
        self.counts = Counts()
        self._router = open_router(self._config) if router is None else router
        self._urgency = Urgency()
        self._closed = False
        self._senders: dict[int, BrokerSender] = {}
        self._bounds: dict[int, QueueBound] = {}
        self._starting = threading.Lock()
        confirm = self._config.confirm
        self._turns: Turns | None = None
        self._unkeyed_bound: QueueBound | None = None
        if confirm:
            self._turns = Turns(self._router, self._queue_of, TURN_BATCHES * self._config.batch_size)
            self._unkeyed_bound = QueueBound("messages without a key", self._config.queue_size)
        self._finisher = Finisher(
            self.counts,
            confirmed=confirm,
            on_failure=on_failure,
            on_unkeyed_done=self._turns.done if self._turns is not None else None,
        )

    def send(self, topic: str, messages: object, key: object = None) -> Future[Receipt]:
        """Queue one payload, several, or a MessageSet; all of one call go to one partition, in order.

        The future gives a Receipt when all was written, or with confirm=true, confirmed; else the error: a
        BrokerConnectionError, ConfirmTimeoutError or SetRefusedError. It cannot be cancelled. A send waits while the
        queue is full, as long as queue.enqueueTimeout.ms says.
        Raises, with nothing queued: InvalidTopicError, TypeError, MessageSizeTooLargeError, InvalidPartitionError,
        NoBrokersError, QueueFullError, ProducerClosedError.
        """
        self._check_open()
        self._router.check_topic(topic)
        ticket, parcels = self._parcels(topic, messages, key)
        if key is None and self._turns is not None:
            assert self._unkeyed_bound is not None
            self._enqueue(ticket, parcels, self._unkeyed_bound, self._turns.send)
        else:
            partition = self._router.choose(topic, key)
            if self._turns is not None:
                self._turns.before_key(topic)
            queue = self._queue_of(partition.broker_id)
            for parcel in parcels:
                parcel.partition = partition
            self._enqueue(ticket, parcels, self._bounds[partition.broker_id], lambda _, some: queue.put(some))
        return ticket

    def flush(self, timeout_s: float | None = None) -> bool:
        """Send all that is queued without waiting for batches to fill; wait until each of those sends is done.

        Done means written, or with confirm=true confirmed, or failed. False when `timeout_s` passed before.
        """
        self._urgency.add(1)
        try:
            for sender in list(self._senders.values()):
                sender.queue.hurry()
            waited = wait(list(self._finisher.open_tickets), timeout_s)
        finally:
            self._urgency.add(-1)
        return not waited.not_done

    def close(self) -> None:
        """Send all that is queued, wait until it is done, and end; may be called twice.

        Takes as long as the sends may: confirm.timeout.ms, or num.retries tries.
        """
        with self._starting:
            already = self._closed
            self._closed = True
        for bound in list(self._bounds.values()):
            bound.close()
        if self._unkeyed_bound is not None:
            self._unkeyed_bound.close()
        while self._finisher.open_tickets:
            self.flush()
        senders = list(self._senders.values())
        for sender in senders:
            sender.queue.close()
        for sender in senders:
            sender.join()
        if not already:
            self._router.info.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ProducerClosedError("the producer is closed")

    def _parcels(self, topic: str, messages: object, key: object) -> tuple[Ticket, list[Parcel]]:
        if type(messages) is bytes and self._value_encoder is None and len(messages) <= self._config.max_message_size:
            ticket = Ticket(topic, key, 1, 1)  # the most frequent case, and the one in which overhead counts
            return ticket, [Parcel(ticket, _NOWHERE, [messages], None, 1)]
        if isinstance(messages, MessageSet):
            self._set_encoder.check_set(topic, messages)
            count = scan(bytes(messages)).messages
            ticket = Ticket(topic, key, count, 1)
            return ticket, [Parcel(ticket, _NOWHERE, [], messages, count)]
        payloads = payloads_of(messages, self._value_encoder)
        self._set_encoder.check(topic, payloads)
        pieces = list(self._set_encoder.cut(payloads, self._config.batch_size))
        ticket = Ticket(topic, key, len(payloads), len(pieces))
        return ticket, [Parcel(ticket, _NOWHERE, piece, None, len(piece)) for piece in pieces]

    def _enqueue(
        self, ticket: Ticket, parcels: list[Parcel], bound: QueueBound, put: Callable[[str, list[Parcel]], None]
    ) -> None:
        bound.acquire(ticket.messages, self._config.queue_enqueue_timeout_ms)
        for parcel in parcels:
            parcel.bound = bound
        tickets = self._finisher.open_tickets
        tickets.add(ticket)
        try:
            self._check_open()  # again, behind the line above: close() waits for every ticket that is there
            put(ticket.topic, parcels)
        except BaseException as error:
            tickets.discard(ticket)
            bound.release(ticket.messages)
            ticket.set_exception(error)  # a flush may have found it
            raise

    def _queue_of(self, broker_id: int) -> BrokerQueue:
        sender = self._senders.get(broker_id)
        if sender is None:
            with self._starting:
                sender = self._senders.get(broker_id) or self._start_sender(broker_id)
        return sender.queue

    def _start_sender(self, broker_id: int) -> BrokerSender:
        config = self._config
        queue = BrokerQueue(config.batch_size, config.queue_time, self._urgency)
        shared: dict[str, Any] = {
            "config": config,
            "router": self._router,
            "encoder": self._set_encoder,
            "finisher": self._finisher,
            "counts": self.counts,
        }
        sender: BrokerSender
        if self._turns is not None:
            sender = ConfirmedSender(broker_id, queue, turns=self._turns, **shared)
        else:
            sender = UnconfirmedSender(broker_id, queue, **shared)
        self._bounds[broker_id] = QueueBound(f"broker {broker_id}", config.queue_size)
        self._senders[broker_id] = sender
        sender.start()
        return sender
