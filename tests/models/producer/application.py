"""An application's thread: sends of all kinds, and what else one does with a producer."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.errors import BrokerConnectionError, ProtocolError
from kafka2011.message.compression import Codec
from kafka2011.message.message_set import MessageSet
from kafka2011.producer.errors import (
    ConfirmTimeoutError,
    NoBrokersError,
    ProducerClosedError,
    QueueFullError,
    SetRefusedError,
)
from tests.models.producer.account import Sent
from tests.models.producer.faulty_broker import POISON
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from random import Random

    from kafka2011.producer.batch import FailedBatch, Receipt
    from kafka2011.producer.producer import Producer
    from tests.models.producer.account import Account

TOPICS = ("t", "u")
KEYS = ("a", "b", "c", "d")
WAIT_S = 3600.0


class Habits(NamedTuple):
    """What a run's application does."""

    operations: int
    longest_list: int
    longest_payload: int
    longest_pause_s: float
    sends_poison: bool
    closes_early: bool
    sends_from_callbacks: bool
    brokers: int
    partitions: int


class Application:
    """One thread of it. Its payloads are all different."""

    def __init__(
        self,
        name: str,
        producer: Producer,
        account: Account,
        habits: Habits,
        random: Random,
        sleep: Callable[[float], object],
        thread_name: Callable[[], str],
    ) -> None:
        self.name = name
        self._producer = producer
        self._account = account
        self._habits = habits
        self._random = random
        self._sleep = sleep
        self._thread_name = thread_name
        self._futures: list[Future[Receipt]] = []
        self._numbers = itertools.count(1)

    def run(self) -> None:
        """Do all that it does."""
        for _ in range(self._habits.operations):
            self._random.choices(
                (self._send_some, self._pause, self._flush, self._await_one, self._ask_to_be_called),
                (20, 4, 1, 1, 2),
            )[0]()
        if self._habits.closes_early:
            self.close()

    def close(self) -> None:
        """Close the producer, and note how long it takes."""
        began_s = self._account.now_s()
        self._producer.close()
        self._account.closing_s.append(self._account.now_s() - began_s)

    def send(self) -> None:
        """Send something, of any kind, and note what came of it."""
        topic = self._random.choice(TOPICS)
        key = partition = None
        kind = self._random.random()
        if kind < 0.4:
            key = self._random.choice(KEYS)
        elif kind < 0.5:
            broker_id = self._random.randrange(self._habits.brokers)
            partition = TopicPartition(topic, broker_id, self._random.randrange(self._habits.partitions))
        messages, sent = self._messages(key, is_movable=kind >= 0.5)
        self._account.begin(sent)
        try:
            sent.future = self._producer.send(topic, messages, key, partition=partition)
            sent.returned_s = self._account.now_s()
            self._futures.append(sent.future)
        except (QueueFullError, ProducerClosedError, NoBrokersError):
            pass  # nothing was queued
        except (BrokerConnectionError, ProtocolError, ConfirmTimeoutError, SetRefusedError) as error:
            sent.failed_with = error

    def on_failure(self, failed: FailedBatch) -> None:
        """Note what failed, and perhaps send more."""
        self._account.failures.append(failed)
        if self._habits.sends_from_callbacks and len(self._account.failures) < self._habits.operations:
            self.send()

    def _messages(self, key: str | None, *, is_movable: bool) -> tuple[bytes | list[bytes] | MessageSet, Sent]:
        kind = self._random.random()
        if kind < 0.6:
            [payload] = payloads = [self._payload()]
            return payload, Sent(self._thread_name(), payloads, key, is_movable)
        payloads = [self._payload() for _ in range(self._random.randint(0, self._habits.longest_list))]
        if kind < 0.8:
            return payloads, Sent(self._thread_name(), payloads, key, is_movable)
        ready = MessageSet(payloads, Codec.GZIP)
        is_compressed = bool(payloads) and kind > 0.9 and ready.largest_payload_bytes <= self._habits.longest_payload
        if not is_compressed:
            ready = MessageSet(payloads)
        sent = Sent(self._thread_name(), payloads, key, is_movable, bytes(ready), is_compressed)
        return ready, sent

    def _payload(self) -> bytes:
        name = b"%s %d " % (self.name.encode(), next(self._numbers))
        if self._habits.sends_poison and self._random.random() < 0.05:
            name = POISON + b" " + name
        longest = self._habits.longest_payload
        return (name + b"." * self._random.randint(0, longest))[: max(longest, len(name))]

    def _send_some(self) -> None:
        for _ in range(self._random.randint(1, 4)):
            self.send()

    def _pause(self) -> None:
        self._sleep(self._random.random() * self._habits.longest_pause_s)

    def _flush(self) -> None:
        before = list(self._futures)
        if self._producer.flush(self._random.choice((None, self._habits.longest_pause_s))):
            assert all(future.done() for future in before), "flush leaves something behind"

    def _await_one(self) -> None:
        if self._futures:
            self._random.choice(self._futures).exception(WAIT_S)

    def _ask_to_be_called(self) -> None:
        if self._futures and self._habits.sends_from_callbacks:
            self._random.choice(self._futures).add_done_callback(lambda _: self.send())
