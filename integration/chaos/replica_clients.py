"""The clients of a run with replicas: producers that confirm, and a group in which a member divides as 0.7 does."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

from integration.chaos.account.ownership import find_double_ownership
from integration.chaos.cluster import MEMBER_SETTINGS, Client
from integration.chaos.evidence import Evidence
from integration.chaos.records import NO_KEY, MessageId, payload_of, read_member, whole_lines
from integration.chaos.replica_set import TOPIC
from kafka2011.errors import KafkaError
from kafka2011.producer.errors import NoBrokersError
from kafka2011.producer.producer import Producer
from zk.child import stop_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from integration.chaos.records import Receipt
    from kafka2011.producer.batch import Receipt as Sent

GROUP = "readers"
MEMBERS = {"current": ("lists", "fair"), "of-2011": ("one", "range")}
"""How each member reads, and how it divides partitions: if one of them does so as 0.7, all do."""
BATCH = 20
PAUSE_S = 0.1
_CONFIRM_S = 90.0
_PATIENCE_S = 2.0


def producer_settings(zk_connect: str) -> dict[str, object]:
    """Return the settings of a producer that confirms."""
    return {
        "zk.connect": zk_connect,
        "producer.type": "async",
        "queue.time": 1,
        "confirm": "true",
        "confirm.timeout.ms": 60_000,
        "zk.sessiontimeout.ms": 20_000,
    }


@contextmanager
def silent(senders: Iterable[threading.Lock]) -> Iterator[None]:
    """Hold the locks of senders in this block: each holds its own while it sends something."""
    held = [lock for lock in senders if lock.acquire(timeout=_PATIENCE_S)]
    try:
        yield
    finally:
        for lock in held:
            lock.release()


def send_all(producer: Producer, topic: str, messages: Iterable[MessageId]) -> list[tuple[MessageId, Future[Sent]]]:
    """Send messages, and return those that were accepted: while no broker is known, there may be none."""
    sent: list[tuple[MessageId, Future[Sent]]] = []
    with suppress(NoBrokersError):
        for message in messages:
            sent.append((message, producer.send(topic, payload_of(message, NO_KEY))))  # noqa: PERF401 - up to the error
    return sent


def confirmed_of(sent: Iterable[tuple[MessageId, Future[Sent]]]) -> Iterator[MessageId]:
    """Yield the messages that are confirmed; others may be there or not."""
    for message, future in sent:
        with suppress(KafkaError, TimeoutError):
            future.result(_CONFIRM_S)
            yield message


class Producers:
    """Threads that send batches, each confirmed before the next; a context manager. `stop` ends them."""

    def __init__(self, zk_connect: str, count: int) -> None:
        self.confirmed: set[MessageId] = set()
        self._zk_connect = zk_connect
        self._over = threading.Event()
        self._sending = [threading.Lock() for _ in range(count)]
        self._threads = [
            threading.Thread(target=self._run, args=(f"p{number}", lock), daemon=True)
            for number, lock in enumerate(self._sending)
        ]

    def _run(self, name: str, sending: threading.Lock) -> None:
        number = 0
        with Producer(producer_settings(self._zk_connect)) as producer:
            while not self._over.wait(PAUSE_S):
                with sending:
                    messages = [MessageId(name, each) for each in range(number, number + BATCH)]
                    self.confirmed.update(confirmed_of(send_all(producer, TOPIC, messages)))
                number += BATCH

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Have them send nothing in this block, but what is not confirmed soon."""
        with silent(self._sending):
            yield

    def stop(self) -> None:
        """Let them end; what was sent is confirmed by then, or never."""
        started = [thread for thread in self._threads if thread.ident is not None]
        has_ended = not all(thread.is_alive() for thread in started)
        self._over.set()
        assert not has_ended, "a producer ended before it was told to"
        for thread in started:
            thread.join(2 * _CONFIRM_S)
            assert not thread.is_alive(), "a producer does not end"

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()


class Members:
    """The members of the group, each a process; a context manager."""

    def __init__(self, zk_connect: str, directory: Path) -> None:
        self._clients = [
            Client(name, "member", style, GROUP, [style, "1", json.dumps(settings)], directory, None)
            for name, (style, rule) in MEMBERS.items()
            for settings in [
                {
                    **MEMBER_SETTINGS,
                    "zk.connect": zk_connect,
                    "groupid": GROUP,
                    "consumerid": name,
                    "partition.assignment": rule,
                    "zk.sessiontimeout.ms": 6000,
                }
            ]
        ]

    def receipts(self) -> Iterator[Receipt]:
        """Yield what they were handed by now."""
        for client in self._clients:
            yield from read_member(client.name, whole_lines(client.notes)).receipts

    def end(self) -> Iterator[str]:
        """Let them leave, and yield what is wrong with them, or with what each of them owned when."""
        evidence = Evidence()
        for client in self._clients:
            client.leave()
        for client in self._clients:
            try:
                status = client.process.wait(60)
            except TimeoutError:
                yield f"member {client.name} does not end"
                continue
            if status:
                yield f"member {client.name} ended with status {status}"
            evidence.members[client.name] = read_member(client.name, whole_lines(client.notes))
        evidence.groups[GROUP] = list(evidence.members)
        shares = {name: len({each.place.where for each in file.receipts}) for name, file in evidence.members.items()}
        if not all(shares.values()):
            yield f"a member was handed nothing: {shares}"
        twice = list(find_double_ownership(evidence))
        if twice:
            yield f"{len(twice)} times {twice[0]}"

    def __enter__(self) -> Self:
        for client in self._clients:
            client.start()
        return self

    def __exit__(self, *_: object) -> None:
        stop_all(client.process for client in self._clients)
