"""Asks every replica all the while where its logs end: what could be read once can be read from whoever answers."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Self

from integration.chaos.replica_set import BROKER_ID, PARTITIONS, TOPIC
from kafka2011.consumer.simple_consumer import SimpleConsumer
from kafka2011.errors import KafkaError, OffsetOutOfRangeError
from kafka2011.wire.protocol import LATEST

if TYPE_CHECKING:
    from collections.abc import Iterable

    from integration.chaos.replica_set import ChaosReplica

_PAUSE_S = 0.1
_TIMEOUT_MS = 1000
_JOIN_S = 30.0


class ReplicaWatch:
    """Watches replicas; a context manager with threads.

    `ends` are the highest offsets before which something could be read, by partition. Nobody is asked at the port of a
    replica that does not run: a broker of another run may have taken it.
    """

    def __init__(self, replicas: Iterable[ChaosReplica]) -> None:
        self._wrong: Counter[str] = Counter()
        self._first: dict[str, str] = {}
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self.answers = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(each,), daemon=True) for each in replicas]

    def _run(self, replica: ChaosReplica) -> None:
        settings = {"socket.timeout.ms": _TIMEOUT_MS}
        with SimpleConsumer("127.0.0.1", replica.direct_port, settings, BROKER_ID) as consumer:
            while not self._over.wait(_PAUSE_S):
                for partition in range(PARTITIONS if replica.running else 0):
                    try:
                        self._ask(replica.name, consumer, partition)
                    except OffsetOutOfRangeError as error:
                        self._note(f"{replica.name} does not know what could be read", str(error))
                    except KafkaError:  # it does not lead, or is away
                        break

    @property
    def problems(self) -> list[str]:
        """What was wrong by now, how often, and where first."""
        return [f"{count} times: {self._first[what]}" for what, count in sorted(self._wrong.items())]

    def _note(self, what: str, where: str) -> None:
        with self._lock:
            self._wrong[what] += 1
            self._first.setdefault(what, f"{what}: {where}")

    def _ask(self, name: str, consumer: SimpleConsumer, partition: int) -> None:
        before = self.ends[partition]
        [end] = consumer.get_offsets_before(TOPIC, partition, LATEST)
        if end < before:
            self._note(f"{name} tells an end that is too low", f"{TOPIC}/{partition} at {end}, after {before}")
        with self._lock:
            self.ends[partition] = before = max(self.ends[partition], end)
            self.answers += 1
        consumer.fetch(TOPIC, partition, before)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(_JOIN_S)
