"""A topic that an operator deletes now and then, and that its producer makes anew with the next message it sends."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from integration.chaos.records import MessageId
from integration.chaos.replica_clients import confirmed_of, send_all, silent
from kafka2011.admin.topic_changes import delete_topic
from kafka2011.errors import KafkaError
from kafka2011.producer.producer import Producer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from zk.client import ZkClient

TOPIC = "remade"
BATCH = 10
_PAUSE_S = 0.1
_JOIN_S = 200.0
_PATIENCE_S = 5.0
_DELETE_S = 15.0


class RemadeTopic:
    """A thread that sends confirmed messages to the topic; a context manager. `stop` ends it.

    Messages bear the number of the topic's life. What was confirmed in one that was deleted must be gone; only its last
    batch may be there again, of which something may have been on its way a second time.
    """

    def __init__(self, producer_settings: dict[str, object]) -> None:
        self.confirmed: set[MessageId] = set()
        """What was confirmed since the topic was deleted last."""
        self.deleted: set[MessageId] = set()
        self.lives = 1
        self._settings = producer_settings
        self._last: set[MessageId] = set()
        self._sending = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        number = 0
        with Producer(self._settings) as producer:
            while not self._over.wait(_PAUSE_S):
                with self._sending:
                    self._send(producer, range(number, number + BATCH))
                number += BATCH

    def _send(self, producer: Producer, numbers: range) -> None:
        sent = send_all(producer, TOPIC, [MessageId(f"{TOPIC}{self.lives}", number) for number in numbers])
        self._last = {message for message, _ in sent}
        self.confirmed.update(confirmed_of(sent))

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Have it send nothing in this block, but what is not confirmed soon."""
        with silent([self._sending]):
            yield

    def delete(self, client: ZkClient) -> bool:
        """Delete the topic, unless a batch is under way for long; say whether that was done, as far as is known."""
        if not self._sending.acquire(timeout=_PATIENCE_S):
            return False
        try:
            was_confirmed = self.confirmed
            self.lives += 1
            self.confirmed = set()  # also if it is not known whether it was deleted
            try:
                changes = delete_topic(client, TOPIC, timeout_s=_DELETE_S).brokers
            except KafkaError:
                return False
            is_done = any(change.broker is not None and change.is_done for change in changes)
            if is_done:
                self.deleted |= was_confirmed - self._last
            return is_done
        finally:
            self._sending.release()

    def problems(self, found: Collection[MessageId | None]) -> Iterator[str]:
        """Yield what is wrong with what the replicas have of the topic in the end."""
        lost = self.confirmed - set(found)
        if lost:
            yield f"{len(lost)} confirmed messages of topic {TOPIC} are lost, among them {min(lost)}"
        again = self.deleted & set(found)
        if again:
            yield f"{len(again)} messages of topic {TOPIC} are there though it was deleted, among them {min(again)}"

    def stop(self) -> None:
        """Let it end; what was sent is confirmed by then, or never."""
        has_ended = self._thread.ident is not None and not self._thread.is_alive()
        self._over.set()
        assert not has_ended, "a producer ended before it was told to"
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)
            assert not self._thread.is_alive(), "a producer does not end"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
