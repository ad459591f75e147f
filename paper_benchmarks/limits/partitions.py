"""Very many partitions of one broker: what the same messages cost when they are spread over them."""

from __future__ import annotations

import os
import secrets
import threading
import time
from typing import TYPE_CHECKING

from kafka2011 import ConsumerConnector, SyncProducer
from paper_benchmarks.limits.limit import Limit, Run, Taken, cores_of, until
from paper_benchmarks.measuring.usage import process_cpu_s
from paper_benchmarks.systems.kafka2011 import own_broker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from paper_benchmarks.limits.limit import Row

_TOPIC = "views"
_BATCH = 20
_TRICKLE_S = 10.0
_TRICKLE_RATE = 100


def _measure(run: Run) -> Iterator[Row]:
    for count in run.sized((1, 100), (1, 1000, 10_000)):
        with own_broker(run.data, properties={"num.partitions": count}) as system:
            assert system.directory is not None
            yield _with(
                system.directory, system.host, system.port, str(system.zk_connect), system.pids()[0], count, run
            )


def _with(logs: Path, host: str, port: int, zk_connect: str, pid: int, partitions: int, run: Run) -> Row:
    messages = 400_000 if run.is_full else 20_000
    payloads = [os.urandom(200) for _ in range(_BATCH)]
    with SyncProducer(host, port) as producer:
        for partition in range(partitions):  # made first: that is not what is measured
            producer.send(_TOPIC, payloads[:1], partition)
        until(lambda: len(list(logs.glob(f"{_TOPIC}-*"))) >= partitions, f"{partitions} logs are made")
        producer.close()
        time.sleep(7)
        idle = cores_of(pid, 10.0 if run.is_full else 2.0)
        before = Taken.by(pid)
        for number in range(messages // _BATCH):
            producer.send(_TOPIC, payloads, number % partitions)
        producer.close()
        time.sleep(7)  # until all is flushed: by the timer at the latest
        produced = Taken.by(pid)
        wanted = messages + partitions
        with ConsumerConnector(
            {"zk.connect": zk_connect, "groupid": secrets.token_hex(4), "autocommit.enable": False}
        ) as consumer:
            [stream] = consumer.create_message_streams({_TOPIC: 1})[_TOPIC]
            taken = _Taking(stream)
            own_s = process_cpu_s(os.getpid())
            until(lambda: taken.messages >= wanted, f"{wanted} messages are read")
            consumed = Taken.by(pid)
            read_own_s = process_cpu_s(os.getpid()) - own_s
            time.sleep(2)
            quiet = Taken.by(pid)
            quiet_own_s = process_cpu_s(os.getpid())
            sent = _trickle(producer, payloads[0], partitions)
            until(lambda: taken.messages >= wanted + sent, f"{wanted + sent} messages are read")
            trickled = Taken.by(pid)
            trickle_own_s = process_cpu_s(os.getpid()) - quiet_own_s
        consumer.shutdown()
    return {
        "partitions": partitions,
        "memory MiB": quiet.memory_bytes / 2**20,
        "open files": quiet.files,
        "idle, cores": idle,
        "produce, broker CPU us": (produced.cpu_s - before.cpu_s) / messages * 1e6,
        "consume, broker CPU us": (consumed.cpu_s - produced.cpu_s) / wanted * 1e6,
        "consume, client CPU us": read_own_s / wanted * 1e6,
        "100 a second, broker cores": trickled.cores_since(quiet),
        "100 a second, client cores": trickle_own_s / (trickled.at_s - quiet.at_s),
    }


class _Taking:
    """Reads a stream in a thread."""

    def __init__(self, stream: object) -> None:
        self.messages = 0
        self._stream = stream
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        for batch in self._stream.batches(1000):  # type: ignore[attr-defined]
            self.messages += len(batch)


def _trickle(producer: SyncProducer, payload: bytes, partitions: int) -> int:
    """Send so many messages a second, each to another partition; return how many."""
    began_s = time.monotonic()
    for number in range(int(_TRICKLE_S * _TRICKLE_RATE)):
        time.sleep(max(0.0, began_s + number / _TRICKLE_RATE - time.monotonic()))
        producer.send(_TOPIC, [payload], number * 7919 % partitions)
    producer.close()
    return int(_TRICKLE_S * _TRICKLE_RATE)


LIMIT = Limit(
    "Partitions of a broker",
    "One topic of so many partitions on one broker. The same 400,000 messages of 200 bytes in sets of 20, spread over"
    " all of them, and one member that reads all; then 100 messages a second, each to another partition.",
    _measure,
)
