"""Producer: publishes to the brokers of a cluster, which it finds by itself (paper, sections 3.1 and 3.2)."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import wait
from typing import TYPE_CHECKING

from kafka2011.config import ProducerConfig
from kafka2011.left_open import note_closed, note_opened
from kafka2011.message.message_set import MessageSet
from kafka2011.producer.accumulator import Accumulator
from kafka2011.producer.batch import DoneFuture
from kafka2011.producer.completion import Completion
from kafka2011.producer.counts import Counts
from kafka2011.producer.direct_sends import DirectSends
from kafka2011.producer.encoder import SetEncoder, checked_topic_field, own_encoder, payloads_of
from kafka2011.producer.errors import NoBrokersError
from kafka2011.producer.partition_info import FollowsAddresses, ListedBrokers
from kafka2011.producer.partitioner import own_partitioner
from kafka2011.producer.router import Router
from kafka2011.producer.sender import Sender
from zk import forks
from zk.clock import SYSTEM_CLOCK
from zk.closing import Closing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    from kafka2011.producer.accumulator import BrokerQueue
    from kafka2011.producer.batch import FailedBatch, Receipt, SendFuture
    from kafka2011.producer.partition_info import BrokerPartitionInfo
    from kafka2011.producer.sync_producer import Messages
    from zk.cluster import TopicPartition

logger = logging.getLogger(__name__)

_LOOK_AGAIN_S = 0.1
_MOMENT_S = 0.01


class Producer(Closing):
    """Publishes to the brokers and partitions found in ZooKeeper, or to those of broker.list; a context manager.

        with Producer({"zk.connect": "localhost:2181"}) as producer:
            producer.send("views", b"one")
            producer.send("views", [b"two", b"three"], key="member-42")

    May be shared by threads. With producer.type `sync`, the default, `send` returns when the set was written or, with
    confirm=true, confirmed. With `async` it returns at once: messages wait in batches, at most queue.size messages for
    each broker, and one thread for each broker sends them, so a lost broker delays no other. `on_failure` is called
    with every FailedBatch, in a separate thread. `counts` returns what was done. A forked child starts with nothing
    queued.

    `info` is for tests and for callers that already know the brokers.
    """

    def __init__(
        self,
        config: ProducerConfig | Mapping[str, object],
        *,
        on_failure: Callable[[FailedBatch], object] | None = None,
        info: BrokerPartitionInfo | None = None,
    ) -> None:
        self._config = ProducerConfig.of(config)
        self._on_failure = on_failure
        self._value_encoder = own_encoder(self._config)
        self._set_encoder = SetEncoder(self._config)
        self._partitioner = own_partitioner(self._config)
        self._is_async = self._config.producer_type == "async"
        # What is queued as it is, with nothing more to do.
        self._as_it_is = bytes if self._is_async and self._value_encoder is None else None
        self._given_info = info
        self.counts = Counts()
        self._begin()
        self._router = self._open_router()
        forks.register(self)
        self._note_opened()

    def __repr__(self) -> str:
        where = self._config.zk_connect or f"{len(self._config.broker_list)} brokers"
        state = "closed" if self._accumulator.is_closed else "open"
        return f"<Producer to {where}, {self._config.producer_type}, {state}>"

    def send(
        self, topic: str, messages: Messages, key: object = None, partition: TopicPartition | None = None
    ) -> Future[Receipt]:
        """Send one payload, a list of payloads, or a MessageSet; all of one call go to one partition, in order.

        Without a key that is the topic's present partition, which changes with each full batch; with a key, the
        partitioner's choice; or the `partition` named. The future is that of the batch that the messages are in. It
        gives a Receipt when the batch was written or, with confirm=true, confirmed; else the error: a
        BrokerConnectionError, ConfirmTimeoutError or SetRefusedError. A synchronous producer waits for that, and raises
        the error itself. The future cannot be cancelled.
        An asynchronous send waits while the queue is full, for at most queue.enqueueTimeout.ms; with confirm=true it
        also waits while there is no broker, for at most confirm.timeout.ms.
        Raises, with nothing queued: InvalidTopicError, TypeError, MessageSizeTooLargeError, InvalidPartitionError,
        NoBrokersError, QueueFullError, ProducerClosedError.
        """
        if type(messages) is self._as_it_is and key is None and partition is None:
            return self._accumulator.append_payload(topic, messages) or self._queue(topic, messages, None, None)
        if self._is_async:
            return self._queue(topic, messages, key, partition)
        return self._send_now(topic, messages, key, partition)

    def send_at_once(self, topic: str, messages: Messages) -> Future[Receipt] | None:
        """Queue one payload, or several, without a key if that needs no waiting; return None otherwise.

        For event loops, which call `send` in a thread then. Raises as `send`.
        """
        if type(messages) is self._as_it_is:
            return self._accumulator.append_payload(topic, messages)
        if self._forked or not self._is_async or isinstance(messages, MessageSet):
            return None
        payloads = payloads_of(messages, self._value_encoder)
        self._set_encoder.check(topic, payloads)
        return self._accumulator.append_unkeyed(topic, payloads)

    def flush(self, timeout_s: float | None = None) -> bool:
        """Send what is queued at once, and wait until it is done; return False if `timeout_s` seconds pass first.

        Done means written (with confirm=true: confirmed) or failed. Not for callbacks, which futures wait for.
        """
        return not wait(self._accumulator.close_all(), timeout_s).not_done

    def close(self, timeout_s: float | None = None) -> None:
        """Send what is queued, wait until the brokers have handled all of it, and end; may be called twice.

        Takes as long as the sends may: confirm.timeout.ms, or one more attempt to reach a broker that is away. With
        `timeout_s`, what is not confirmed by then fails with ConfirmTimeoutError.
        """
        note_closed(self)
        self._closing.set()
        self._accumulator.end(timeout_s)
        while self._senders:
            for broker_id, sender in list(self._senders.items()):
                sender.close()
                with self._accumulator.lock:  # several threads may be here, and new senders are made under it
                    if self._senders.get(broker_id) is sender:
                        del self._senders[broker_id]
        self._completion.close()
        if not self._forked:  # what a child has not used belongs to the parent
            self._router.info.close()

    def close_at_exit(self) -> None:
        """Send what the program has left queued, for close.timeout.ms at most, and log how much was not sent."""
        failed_before = self.counts.messages_failed
        self.close(self._config.close_timeout_ms / 1000)
        if failed := self.counts.messages_failed - failed_before:
            logger.error("%d messages were not sent by a producer that was not closed before the program ended", failed)

    # Inside ------------------------------------------------------------------------------------------------------

    def _note_opened(self) -> None:
        """Have it closed at the exit where messages may wait in it."""
        if self._is_async:
            note_opened(self)

    def _begin(self) -> None:
        self._accumulator = Accumulator(self._config, SYSTEM_CLOCK, self._new_sender)
        self._completion = Completion(self._accumulator, self.counts, self._on_failure, confirmed=self._config.confirm)
        self._senders: dict[int, Sender] = {}
        self._direct = DirectSends(self._config, self._set_encoder, self.counts, self._accumulator)
        self._closing = threading.Event()
        self._forked = False
        self._reopening = threading.Lock()

    def _open_router(self) -> Router:
        """Find the brokers, from broker.list or in ZooKeeper. Raises NoBrokersError without ZooKeeper."""
        info = self._given_info or _open_info(self._config)
        if isinstance(info, FollowsAddresses):
            info.when_moved(self._broker_moved)
        return Router(info, self._partitioner, self._config.zk_read_num_retries, SYSTEM_CLOCK)

    def _broker_moved(self, broker_id: int) -> None:
        sender = self._senders.get(broker_id)
        if sender is not None:
            sender.broker_moved()

    def _queue(self, topic: str, messages: object, key: object, partition: TopicPartition | None) -> SendFuture:
        """Check and route what is sent, once, and put it into batches."""
        if self._forked:
            self._reopen()
        checked_topic_field(topic)
        movable = key is None and partition is None
        timeout_ms = self._config.queue_enqueue_timeout_ms if self._is_async else -1
        if isinstance(messages, MessageSet):
            self._set_encoder.check_set(topic, messages)
            where = self._route(topic, key, partition)
            return self._accumulator.append_set(where, messages, key, movable=movable, timeout_ms=timeout_ms)
        payloads = payloads_of(messages, self._value_encoder)
        self._set_encoder.check(topic, payloads)
        if movable:
            future = self._accumulator.append_unkeyed(topic, payloads)
            if future is not None:
                return future
        where = self._route(topic, key, partition)
        return self._accumulator.append(where, payloads, key, movable=movable, timeout_ms=timeout_ms)

    def _send_now(self, topic: str, messages: object, key: object, partition: TopicPartition | None) -> SendFuture:
        """Send in this thread, and wait until it is done."""
        if self._forked:
            self._reopen()
        checked_topic_field(topic)
        if isinstance(messages, MessageSet):
            return self._drive(self._queue(topic, messages, key, partition))
        payloads = payloads_of(messages, self._value_encoder)
        self._set_encoder.check(topic, payloads)
        where = self._route(topic, key, partition)
        movable = key is None and partition is None
        sender = None if self._accumulator.is_closed else self._senders.get(where.broker_id)
        future = None if sender is None else self._direct.send(sender, where, payloads, key, movable=movable)
        if future is None:
            future = self._accumulator.append(where, payloads, key, movable=movable, timeout_ms=-1)
        return future if type(future) is DoneFuture else self._drive(future)

    def _route(self, topic: str, key: object, partition: TopicPartition | None) -> TopicPartition:
        """Return where it goes; with confirm=true, wait for brokers that are just registering."""
        deadline_s = None
        while True:
            try:
                if partition is not None:
                    return self._router.named(topic, partition)
                return self._router.next(topic) if key is None else self._router.by_key(topic, key)
            except NoBrokersError:
                if deadline_s is None:
                    patience_ms = self._config.confirm_timeout_ms if self._config.confirm else 0
                    deadline_s = SYSTEM_CLOCK.monotonic_s() + patience_ms / 1000
                if SYSTEM_CLOCK.monotonic_s() >= deadline_s or self._accumulator.is_closed:
                    raise
                self._closing.wait(_LOOK_AGAIN_S)

    def _drive(self, future: SendFuture) -> SendFuture:
        """Send in this thread until everything is done. Raises the error that it failed with."""
        while not future.done():
            for batch in self._accumulator.unfinished(future):
                sender = self._senders.get(batch.where.broker_id)
                if sender is not None:
                    sender.drive(batch)
            wait([future], _MOMENT_S)  # another thread may be ending it, or closing the producer
        future.result()
        return future

    def _new_sender(self, queue: BrokerQueue) -> None:
        sender = self._senders[queue.broker_id] = Sender(
            queue,
            config=self._config,
            router=self._router,
            encoder=self._set_encoder,
            accumulator=self._accumulator,
            completion=self._completion,
            counts=self.counts,
            clock=SYSTEM_CLOCK,
        )
        if self._is_async:
            sender.start()

    # After a fork ------------------------------------------------------------------------------------------------

    def forget_after_fork(self) -> None:
        """In a forked child: leave the parent's queue, threads and session alone, and start again when first used."""
        self._begin()
        self._forked = self._given_info is None

    def _reopen(self) -> None:
        with self._reopening:
            if self._forked:
                self._router = self._open_router()
                self._forked = False
                self._note_opened()


def _open_info(config: ProducerConfig) -> BrokerPartitionInfo:
    if config.broker_list:
        return ListedBrokers(config.broker_list)
    # Imported here, so that a producer with broker.list needs no kazoo; and by any thread, so not while one forks.
    with forks.held_back():
        from kafka2011.producer.zk_partition_info import ZkBrokerPartitionInfo  # noqa: PLC0415

    return ZkBrokerPartitionInfo.connect(config)
