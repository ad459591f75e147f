"""Very many connections: idle ones, and ones that wait at the end of one log."""

from __future__ import annotations

import selectors
import socket
import time
from typing import TYPE_CHECKING

from kafka2011 import SimpleConsumer, SyncProducer
from kafka2011.wire.protocol import FetchRequest, FetchWait, MultiFetchRequest, encode_request
from paper_benchmarks.limits.limit import TIMEOUT_S, Limit, Run, Taken, cores_of, percentile
from paper_benchmarks.systems.kafka2011 import own_broker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paper_benchmarks.limits.limit import Row

_TOPIC = "views"
_BARRIER = encode_request(MultiFetchRequest(()))
_WAIT_MS = 60_000
_IDLE_S = 5.0


def _measure(run: Run) -> Iterator[Row]:
    for count in run.sized((10, 200), (100, 1000, 5000)):
        with own_broker(run.data, properties={"log.flush.interval": 1}) as system:
            pid = system.pids()[0]
            with SyncProducer(system.host, system.port) as producer, SimpleConsumer(system.host, system.port) as one:
                producer.send(_TOPIC, b"first", 0)
                one.multifetch([])
                before = Taken.by(pid)
                sockets = [socket.create_connection((system.host, system.port)) for _ in range(count)]
                try:
                    _ask(sockets, _BARRIER)
                    _await_answers(sockets)
                    after = Taken.by(pid)
                    idle = cores_of(pid, _IDLE_S)
                    asked_ms = percentile([_timed_ms(one) for _ in range(200)], 0.99)
                    end = one.get_offsets_before(_TOPIC, 0, -1, 1)[0]
                    wait = FetchRequest(_TOPIC, 0, end, 1000, FetchWait(_WAIT_MS, 1))
                    _ask(sockets, encode_request(wait))
                    time.sleep(1 + count / 2000)
                    parked = cores_of(pid, _IDLE_S)
                    ready = Taken.by(pid)
                    producer.send(_TOPIC, b"second", 0)
                    sent_s = time.monotonic()
                    _await_answers(sockets)
                    all_s = time.monotonic() - sent_s
                    told = Taken.by(pid)
                finally:
                    for each in sockets:
                        each.close()
        yield {
            "connections": count,
            "connect and ask, broker CPU us each": (after.cpu_s - before.cpu_s) / count * 1e6,
            "memory KiB each": (after.memory_bytes - before.memory_bytes) / count / 1024,
            "idle, cores": idle,
            "another client's request p99 ms": asked_ms,
            "all waiting, cores": parked,
            "one message to all, ms": all_s * 1000,
            "CPU us each": (told.cpu_s - ready.cpu_s) / count * 1e6,
        }


def _timed_ms(consumer: SimpleConsumer) -> float:
    began_s = time.monotonic()
    consumer.multifetch([])
    return (time.monotonic() - began_s) * 1000


def _ask(sockets: Sequence[socket.socket], request: bytes) -> None:
    for each in sockets:
        each.sendall(request)


def _await_answers(sockets: Sequence[socket.socket]) -> None:
    """Wait until each has got something: answers here are smaller than what one read takes."""
    deadline_s = time.monotonic() + TIMEOUT_S
    with selectors.DefaultSelector() as selector:
        for each in sockets:
            selector.register(each, selectors.EVENT_READ)
        while selector.get_map():
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{len(selector.get_map())} connections got no answer")
            for key, _ in selector.select(1.0):
                assert isinstance(key.fileobj, socket.socket)
                if not key.fileobj.recv(65536):
                    raise ConnectionError("the broker has closed a connection")
                selector.unregister(key.fileobj)


LIMIT = Limit(
    "Connections",
    "Connections of one client process to one broker: each asks once and stays idle; then each waits at the end of the"
    " same log, and one message goes to all.",
    _measure,
)
