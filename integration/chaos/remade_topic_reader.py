"""A client of today that reads a topic through gateways while an operator deletes the topic again and again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

import confluent_kafka

from integration.chaos.gateway import bootstrap_servers_of
from integration.chaos.records import identify
from integration.chaos.remade_topic import TOPIC
from integration.chaos.replica_set import PARTITIONS
from integration.gateway.today import silent
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from integration.chaos.gateway import ChaosGateway
    from integration.chaos.records import MessageId

_POLL_S = 0.2
_JOIN_S = 30.0
_END_S = 90.0


class RemadeTopicReader:
    """A thread with one consumer that is never told of a deletion; a context manager.

    Where the numbers of a new life began below those of an old one, the consumer would skip messages: where its offset
    is out of range, it goes to the end.
    """

    def __init__(self, gateways: Sequence[ChaosGateway]) -> None:
        self._gateways = gateways
        self._read: dict[MessageId, int] = {}
        self._at: dict[tuple[int, int], MessageId] = {}
        self._wrong: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        settings = {
            "bootstrap.servers": bootstrap_servers_of(self._gateways),
            "group.id": TOPIC,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "topic.metadata.refresh.interval.ms": 1000,
            "reconnect.backoff.max.ms": 1000,
            "logger": silent(),
        }
        consumer = confluent_kafka.Consumer(settings)
        start = confluent_kafka.OFFSET_BEGINNING
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, number, start) for number in range(PARTITIONS)])
        while not self._over.is_set():
            for message in consumer.consume(500, _POLL_S):
                if message.error() is None:
                    self._note(message.partition() or 0, message.offset() or 0, message.value() or b"")
        consumer.close()

    def _note(self, partition: int, offset: int, value: bytes) -> None:
        known = identify(value)
        if known is None:
            self._wrong.append(f"offset {offset} of {TOPIC}-{partition} is {value[:40]!r}, which nobody sent")
            return
        message = known[0]
        before = self._at.setdefault((partition, offset), message)
        if before != message:
            self._wrong.append(f"offset {offset} of {TOPIC}-{partition} is {message}, and it was {before}")
        self._read[message] = offset

    def problems(self, confirmed: Collection[MessageId]) -> Iterator[str]:
        """Wait until it has read what was confirmed since the last deletion; yield what is wrong with what it read."""
        missing = set(confirmed)

        def has_read_all() -> bool:
            missing.difference_update(self._read)
            return not missing

        try:
            eventually(has_read_all, _END_S, what="the last messages of the topic that is deleted")
        except AssertionError:
            yield f"{len(missing)} messages of topic {TOPIC} were not read by a live consumer, such as {min(missing)}"
        if not self._read:
            yield f"a live consumer has read nothing of topic {TOPIC}"
        yield from self._wrong[:3]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(_JOIN_S)
