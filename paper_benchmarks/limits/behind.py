"""Very many consumers that read what memory has no room for, beside one at the tail."""

from __future__ import annotations

import random
import selectors
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from kafka2011 import SyncProducer
from kafka2011.wire.protocol import FetchRequest, encode_request
from paper_benchmarks.experiments.latency import deliver, percentile_ms
from paper_benchmarks.limits.limit import Limit, Run
from paper_benchmarks.measuring.cgroup import memory_limit
from paper_benchmarks.systems.kafka2011 import own_broker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paper_benchmarks.limits.limit import Row

_TOPIC = "old"
_FETCH_BYTES = 200_000
_MESSAGES = [b"-" * 990] * 1000
_TAIL = {
    "log.flush.interval": 2**31 - 1,
    "log.default.flush.interval.ms": 10,
    "log.default.flush.scheduler.interval.ms": 10,
    "log.file.size": 100_000_000,
}
_RATE = 500
_PAUSE_S = 1.0


def _measure(run: Run) -> Iterator[Row]:
    size_bytes = 3_000_000_000 if run.is_full else 50_000_000
    limit_bytes = 300 * 2**20
    with own_broker(run.data, properties=_TAIL) as system, memory_limit(system.pids(), limit_bytes):
        with SyncProducer(system.host, system.port) as producer:
            for _ in range(size_bytes // 1_000_000):
                producer.send(_TOPIC, _MESSAGES, 0)
        for consumers in (0, *run.sized((10,), (10, 100, 1000))):
            with _Readers(system.host, system.port, consumers, size_bytes) as readers:
                time.sleep(1.0)
                before, read_bytes = system.usage(), readers.read_bytes
                delivered: dict[str, Any] = deliver(system, _RATE, 20.0 if run.is_full else 1.0, 10)
                after = system.usage()
                assert before is not None
                assert after is not None
                yield {
                    "consumers behind": consumers,
                    "tail p50 ms": percentile_ms(delivered, 0.5),
                    "p99 ms": percentile_ms(delivered, 0.99),
                    "they read MB/s": (readers.read_bytes - read_bytes) / 1e6 / delivered["elapsed_s"],
                    "of the disk MB/s": after.since(before).read_bytes / 1e6 / delivered["elapsed_s"],
                    "broker, cores": after.since(before).cpu_s / delivered["elapsed_s"],
                }
        assert system.broker is not None
        system.broker.stop()


class _Readers:
    """Connections that each fetch from another place of the log once a second."""

    def __init__(self, host: str, port: int, count: int, size_bytes: int) -> None:
        self.read_bytes = 0
        self._sockets = [socket.create_connection((host, port)) for _ in range(count)]
        self._size_bytes = size_bytes - _FETCH_BYTES
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> _Readers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        for each in self._sockets:
            each.close()

    def _run(self) -> None:
        chance = random.Random(1)  # noqa: S311 (places of a log)
        buffer = bytearray(1 << 20)
        left: dict[socket.socket, int] = {}
        due_s = {each: time.monotonic() + chance.random() * _PAUSE_S for each in self._sockets}
        with selectors.DefaultSelector() as selector:
            for each in self._sockets:
                selector.register(each, selectors.EVENT_READ)
            while not self._stopped.is_set():
                now_s = time.monotonic()
                for each, at_s in list(due_s.items()):
                    if at_s <= now_s:
                        offset = chance.randrange(0, self._size_bytes)
                        each.sendall(encode_request(FetchRequest(_TOPIC, 0, offset, _FETCH_BYTES)))
                        del due_s[each]
                        left[each] = 0
                for key, _ in selector.select(0.02):
                    each = key.fileobj  # type: ignore[assignment]
                    got = each.recv_into(buffer)
                    if not left[each]:  # the length stands in front, and comes whole
                        left[each] = 4 + int.from_bytes(buffer[:4])
                    self.read_bytes += got
                    left[each] -= got
                    if not left[each]:
                        due_s[each] = time.monotonic() + _PAUSE_S


LIMIT = Limit(
    "Consumers behind what memory holds",
    "A log of 3 GB, and a broker whose memory, the pages of its files included, is held to 300 MiB. So many consumers"
    " fetch 200 KB once a second each, from places at random. Beside them, 500 messages a second go to another topic,"
    " flushed every 10 ms, and a reader at its end takes them.",
    _measure,
)
