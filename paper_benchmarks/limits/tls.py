"""What a fetch by TLS costs, beside a plain one by sendfile, and the same bytes by reads and sends."""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kafka2011 import SimpleConsumer, SyncProducer
from kafka2011.certificates import Authority
from kafka2011.local_cluster import LocalBroker
from paper_benchmarks.limits.limit import Limit, Run, Taken
from paper_benchmarks.systems.local_server import own_directory
from paper_benchmarks.workers.sockets import COPY, send_file
from zk.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paper_benchmarks.limits.limit import Row

_TOPIC = "views"
_FETCH_BYTES = 1 << 20
_PAYLOADS = [b"-" * 990] * 1000
_PLAIN, _TLS, _COPY = "plain, by sendfile", "over TLS", "reads and sends alone"


def _measure(run: Run) -> Iterator[Row]:
    megabytes, rounds = (300, 7) if run.is_full else (20, 1)
    with ExitStack() as stack:
        directory = stack.enter_context(own_directory(run.data))
        authority = Authority(directory / "authority")
        issued = authority.issue("broker", ["127.0.0.1"])
        security = directory / "security.toml"
        security.write_text(f'[brokers]\ntls = true\nca = "{authority.ca}"\n', encoding="utf-8")
        tls_port = free_port("127.0.0.1")
        properties = {
            "enable.zookeeper": "false",
            "log.flush.interval": "1",
            "tls.port": str(tls_port),
            "tls.certificate": str(issued.certificate),
            "tls.key": str(issued.key),
        }
        broker = stack.enter_context(LocalBroker(1, directory, properties))
        with SyncProducer(broker.host, broker.port) as producer, SimpleConsumer(broker.host, broker.port) as one:
            for _ in range(megabytes):
                producer.send(_TOPIC, _PAYLOADS, 0)
            one.multifetch([])
        [path] = broker.log_dir.glob(f"{_TOPIC}-0/*.kafka")
        size = path.stat().st_size
        costs: dict[str, list[float]] = {_PLAIN: [], _TLS: [], _COPY: []}
        for number in range(rounds):
            run.say(f"round {number + 1} of {rounds}")
            for way, port, file in ((_PLAIN, broker.port, ""), (_TLS, tls_port, str(security))):
                before = Taken.by(broker.process.pid).cpu_s
                _read(broker.host, port, file, size)
                costs[way].append((Taken.by(broker.process.pid).cpu_s - before) / size * 1e9)
            costs[_COPY].append(send_file(path, COPY, 1, _FETCH_BYTES).cpu_s / size * 1e9)
    for way, found in costs.items():
        shares = [copied / each for copied, each in zip(costs[_COPY], found, strict=True)]
        yield {
            "fetches of 1 MiB": way,
            "CPU s a GB": statistics.median(found),
            "lowest": min(found),
            "highest": max(found),
            "reads and sends would take, %": 100 * statistics.median(shares),
        }


def _read(host: str, port: int, security: str, size: int) -> None:
    with SimpleConsumer(host, port, security=security) as consumer:
        offset = 0
        while offset < size:
            data = consumer.fetch(_TOPIC, 0, offset, _FETCH_BYTES).data
            if not data:
                raise ValueError(f"{_TOPIC}-0 ends at {offset}, not at {size}")
            offset += len(data)


LIMIT = Limit(
    "TLS",
    "CPU time of the broker for a log that is read from its beginning, in turn; for comparison that of a program which"
    " only reads the same file and sends it.",
    _measure,
)
