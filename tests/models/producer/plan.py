"""What a seed stands for: settings, brokers, faults, and what the application does."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from kafka2011.config import ProducerConfig
from tests.models.producer.application import TOPICS, Habits
from tests.models.producer.cluster import Outage
from tests.models.producer.faulty_broker import Fault

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

_Kind = TypeVar("_Kind", bound=Enum)

_CONSTANTS = {
    "accumulator.MAX_SET_BYTES": (100, 400, 1 << 20),
    "accumulator.MAX_TAKEN_BATCHES": (1, 3, 1000),
    "sender.WINDOW_BATCHES": (1, 3, 256),
    "sender.WINDOW_BYTES": (200, 1 << 23),
    "sender.WRITE_BATCHES": (1, 2, 1000),
    "sender.WRITE_BYTES": (200, 1 << 20),
    "sender.ASK_BATCHES": (1, 2, 32),
    "sender.ASK_BYTES": (200, 1 << 17),
    "confirmation_window.MOST_BARRIERS": (1, 2, 64),
}
"""Limits of the producer's modules that a small run should meet too."""


@dataclass(frozen=True)
class Plan:
    """One run."""

    is_calm: bool  # nothing stands in the producer's way, but for sets that are refused where it confirms
    config: ProducerConfig
    constants: dict[str, int]
    applications: int
    habits: Habits
    picks: bool  # the brokers choose the partition of a message without a key
    faults: tuple[Fault, ...]
    fault_probability: float
    outages: tuple[Outage, ...]
    outage_interval_s: float
    longest_hang_s: float
    buffer_bytes: int
    switch_probability: float
    is_timed: bool = True  # and promises hold of times

    @property
    def open_batches(self) -> int:
        """How many batches can be open at a time for one broker."""
        return len(TOPICS) * (self.habits.partitions + 2)

    @property
    def answer_s(self) -> float:
        """How long the producer waits for an answer."""
        config = self.config
        longest_ms = config.confirm_timeout_ms // 3 if config.confirm else config.socket_timeout_ms
        return (min(config.socket_timeout_ms, longest_ms) + config.connect_timeout_ms) / 1000

    @property
    def longest_close_s(self) -> float:
        """How long the producer's end may take: as long as the sends may, and some waits for brokers that are away."""
        return self.config.confirm_timeout_ms / 1000 + 6 * self.answer_s if self.config.confirm else 10 * self.answer_s

    @property
    def longest_send_s(self) -> float:
        """How long a send may take to end.

        Unconfirmed, for as long as its broker goes on, slowly; and one whose end waits for callbacks as long as those.
        """
        if not self.config.confirm or self.habits.sends_from_callbacks:
            return float("inf")
        return self.config.queue_time / 1000 + self.longest_close_s

    @property
    def keeps_order(self) -> bool:
        """Whether no connection is given up that the broker still reads from, which unconfirmed sends overtake.

        In real time that may happen whenever a thread is slow.
        """
        return self.config.confirm or (self.is_timed and not {Fault.LATE, Fault.HANG} & set(self.faults))


def plan(random: Random) -> Plan:
    """Draw a plan."""
    confirm = random.random() < 0.6
    is_async = random.random() < 0.75
    batch_size = random.randint(1, 6)
    queue_size = batch_size * random.randint(1, 6)
    brokers, partitions = random.randint(1, 3), random.randint(1, 2)
    longest_payload = random.choice((20, 60, 200))
    socket_timeout_ms = random.choice((200, 1000, 3000))
    confirm_timeout_ms = random.choice((300, 1500, 6000))
    is_calm = random.random() < 0.1
    config = ProducerConfig.from_properties(
        {
            "broker.list": "0:host:1",
            "producer.type": "async" if is_async else "sync",
            "confirm": confirm,
            "confirm.timeout.ms": 600_000 if is_calm else confirm_timeout_ms,
            "batch.size": batch_size,
            "queue.size": queue_size,
            "queue.max.bytes": random.choice((100, 600, 1 << 20)),
            "queue.time": random.choice((5, 20, 500)),
            "queue.enqueueTimeout.ms": random.choice((-1, -1, 0, 100)),
            "num.retries": random.randint(0, 3),
            "zk.read.num.retries": random.randint(0, 2),
            "socket.timeout.ms": 600_000 if is_calm else socket_timeout_ms,
            "connect.timeout.ms": random.choice((100, 500)),
            "reconnect.interval": random.choice((2, 5, 1000)),
            "reconnect.time.interval.ms": random.choice((-1, 20, 500)),
            "max.message.size": longest_payload + 40,
            "compression.codec": random.choice((0, 0, 0, 1)),
        }
    )
    return Plan(
        is_calm=is_calm,
        config=config,
        constants={name: random.choice(values) for name, values in _CONSTANTS.items()},
        applications=random.randint(1, 3),
        habits=Habits(
            operations=random.randint(3, 15),
            longest_list=random.choice((2, batch_size, queue_size, 2 * queue_size)),
            longest_payload=longest_payload,
            longest_pause_s=random.choice((0.005, 0.05, 0.5)),
            sends_poison=(confirm or not is_calm) and random.random() < (0.5 if is_calm else 0.2),
            closes_early=random.random() < 0.3,
            sends_from_callbacks=random.random() < 0.3,
            brokers=brokers,
            partitions=partitions,
        ),
        picks=random.random() < 0.2,
        faults=() if is_calm else _some(random, tuple(Fault)),
        fault_probability=random.choice((0.02, 0.1, 0.4)),
        outages=() if is_calm else _some(random, tuple(Outage)),
        outage_interval_s=random.choice((0.02, 0.2, 1.0)),
        longest_hang_s=random.choice((0.1, 1.0, 10.0)),
        buffer_bytes=random.choice((50, 500, 100_000)),
        switch_probability=random.choice((0.05, 0.3, 1.0)),
    )


def _some(random: Random, kinds: Sequence[_Kind]) -> tuple[_Kind, ...]:
    """Draw none, some or all: rare combinations come when most of the others are absent."""
    share = random.choice((0.0, 0.3, 0.6, 1.0))
    return tuple(kind for kind in kinds if random.random() < share)
