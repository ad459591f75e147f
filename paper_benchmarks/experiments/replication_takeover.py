"""From kill -9 of a leader until a group reads again what was sent after that."""

from __future__ import annotations

import queue
import secrets
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from kafka2011 import ConsumerConnector, Producer
from paper_benchmarks.clients.measure import new_topic
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.pages.tables import spread_of, table, text
from paper_benchmarks.systems.kafka2011 import own_broker
from paper_benchmarks.systems.replicas import await_that, replicas_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.systems.kafka2011 import KafkaBroker
    from paper_benchmarks.systems.replicas import Replicas

SHIPPED, NO_GAP = "as shipped", "replica.address.gap.ms=0"
_PROPERTIES: dict[str, dict[str, object]] = {SHIPPED: {}, NO_GAP: {"replica.address.gap.ms": 0}}
_BETWEEN_S = 0.01
_TIMEOUT_S = 120.0


class Traffic:
    """A producer that sends all the time, confirmed, and a group of one member that reads it; a context manager."""

    def __init__(self, zk_connect: str) -> None:
        self._zk_connect = zk_connect
        self._topic = new_topic()
        self._sent: dict[int, Future[Any]] = {}
        self._all_read: set[int] = set()
        self._read: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
        """When a message was made and when it was handed out, by the clock that both threads share."""
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._send, self._consume)]
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._producer = stack.enter_context(
                Producer({"zk.connect": self._zk_connect, "producer.type": "async", "confirm": True, "queue.time": 5})
            )
            self._producer.send(self._topic, b"0").result(_TIMEOUT_S)  # what a member needs to have a partition
            settings = {"groupid": secrets.token_hex(4), "autooffset.reset": "smallest"}
            self._consumer = stack.enter_context(ConsumerConnector({"zk.connect": self._zk_connect, **settings}))
            for thread in self._threads:
                thread.start()
            self._resources = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._threads[0].join(_TIMEOUT_S)
        self._resources.close()  # which ends the member's stream, too
        self._threads[1].join(_TIMEOUT_S)

    def await_one_made_after(self, at_ns: int) -> int:
        """Wait until a message that was made after a time is handed out; return when that was."""
        try:
            while True:
                made_ns, read_ns = self._read.get(timeout=_TIMEOUT_S)
                if made_ns > at_ns:
                    return read_ns
        except queue.Empty:
            raise BenchmarkError(f"nothing that was sent was read for {_TIMEOUT_S:g} s") from None

    def finish(self) -> None:
        """Send no more, and wait until all was confirmed and read; else there is no figure, but what went wrong."""
        self._stopped.set()
        self._threads[0].join(_TIMEOUT_S)
        for sent in self._sent.values():
            sent.result(_TIMEOUT_S)
        await_that(lambda: self._sent.keys() <= self._all_read, "all that was confirmed was read")

    def _send(self) -> None:
        while not self._stopped.wait(_BETWEEN_S):
            stamp = time.monotonic_ns()
            self._sent[stamp] = self._producer.send(self._topic, b"%d" % stamp)

    def _consume(self) -> None:
        [stream] = self._consumer.create_message_streams({self._topic: 1})[self._topic]
        for message in stream:
            stamp = int(message.payload)
            self._all_read.add(stamp)
            self._read.put((stamp, time.monotonic_ns()))


def measure_takeovers(bench: Bench, zk_connect: str) -> list[dict[str, Any]]:
    """Kill the leader of two replicas again and again; the one that was killed comes back before the next time."""
    rounds = bench.sized(toy=1, small=5, paper=15)
    settings = bench.sized(toy=(NO_GAP,), small=(SHIPPED, NO_GAP), paper=(SHIPPED, NO_GAP))
    with ExitStack() as stack:
        ready: dict[str, tuple[KafkaBroker, Replicas, Traffic]] = {}
        for number, setting in enumerate(settings):
            chroot = f"{zk_connect}/takeover-{number}"
            system = stack.enter_context(
                own_broker(bench.data, zk_connect=chroot, properties=_PROPERTIES[setting], replicas=2)
            )
            replicas = stack.enter_context(replicas_of(system))
            ready[setting] = system, replicas, stack.enter_context(Traffic(chroot))
        found = bench.in_turn(settings, lambda setting: _take_over(*ready[setting][1:]), rounds, name="takeover")
        for _, _, traffic in ready.values():
            traffic.finish()
    return [
        {"setting": setting, **{key: [each[key] for each in several] for key in several[0]}}
        for setting, several in found.items()
    ]


def _take_over(replicas: Replicas, traffic: Traffic) -> dict[str, float]:
    traffic.await_one_made_after(time.monotonic_ns())
    leader = replicas.leader()
    if leader is None:
        raise BenchmarkError("nobody leads")
    began_ns = time.monotonic_ns()
    leader.kill()
    registered_s = await_that(lambda: replicas.leader() not in {None, leader}, "another replica registered")
    read_ns = traffic.await_one_made_after(began_ns)
    replicas.restart(leader)
    return {"registered_s": registered_s - began_ns / 1e9, "read_s": (read_ns - began_ns) / 1e9}


# The report ----------------------------------------------------------------------------------------------------------

TEXT = """\
A producer sends 100 confirmed messages a second to a broker of two replicas, and a group of one member reads them. The
leader is killed by kill -9. *Registered* is when the other one stands in ZooKeeper as the broker, *read again* when the
member hands out the first message that was made after the kill. `replica.address.gap.ms` is for producers of 0.7, which
have to see that the broker is gone."""


def rows_of_takeovers(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the table."""
    columns = [
        ("settings", text("setting")),
        ("registered after s", spread_of("registered_s")),
        ("read again after s", spread_of("read_s")),
    ]
    return table(lines, columns)
