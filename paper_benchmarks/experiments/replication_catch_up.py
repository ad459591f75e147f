"""A replica that comes back with an empty disk: how fast it has all again, and what a reader at the end notices."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from paper_benchmarks.clients.measure import produce
from paper_benchmarks.experiments.latency import deliver, percentile_ms
from paper_benchmarks.measuring.payloads import STORED_BYTES
from paper_benchmarks.measuring.samples import ratio
from paper_benchmarks.pages.tables import brackets, spread_of, table, text
from paper_benchmarks.systems.kafka2011 import KIND, own_broker
from paper_benchmarks.systems.replicas import await_that, replicas_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.systems.kafka2011 import KafkaBroker
    from paper_benchmarks.systems.replicas import Replicas

DISK, CATCH_UP = "a file, written and fsynced", "a replica catches up"
IN_SYNC, ALONE, UNLIMITED, LIMITED = (
    "its follower in sync",
    "no follower",
    "one catches up, no limit",
    "one catches up, replica.max.bytes.per.second",
)
_STEP_BYTES = 8 * 2**20
"""What a follower gets at once, and brings to its disk before it asks for more."""
_FILL_BATCH = 500
_LIMIT_BYTES_PER_S = 20_000_000
_TAIL_RATE = 1000
_BACKOFF_MS = 10
_FLUSHED_SOON = {
    "log.flush.interval": 2**31 - 1,
    "log.default.flush.interval.ms": 10,
    "log.default.flush.scheduler.interval.ms": 10,
}


def measure_catch_up(bench: Bench, zk_connect: str) -> dict[str, Any]:
    """Have a replica catch up as fast as it can, and the disk alone; then beside a reader, with and without a limit."""
    size_bytes = bench.sized(toy=1, small=700, paper=4000) * 1_000_000
    seconds = bench.sized(toy=0.2, small=2.0, paper=10.0)
    limited_bytes = min(size_bytes, int(_LIMIT_BYTES_PER_S * (seconds + 2)))
    rounds = bench.sized(toy=1, small=3, paper=7)
    with ExitStack() as stack:
        free = _Copies(bench, stack, f"{zk_connect}/catch-up", size_bytes, {})
        limit = {"replica.max.bytes.per.second": _LIMIT_BYTES_PER_S}
        limited = _Copies(bench, stack, f"{zk_connect}/limited", limited_bytes, limit)
        copying = {DISK: lambda: _write(bench.data, size_bytes), CATCH_UP: free.catch_up}
        rates = bench.in_turn(copying, lambda line: copying[line](), rounds, name="catch up")
        tails = {
            IN_SYNC: lambda: free.tail_beside_all(seconds),
            ALONE: lambda: free.tail_alone(seconds),
            UNLIMITED: lambda: free.tail_beside_one_that_catches_up(seconds),
            LIMITED: lambda: limited.tail_beside_one_that_catches_up(seconds),
        }
        found = bench.in_turn(tails, lambda line: tails[line](), rounds, name="tail")
    return {
        "bytes": size_bytes,
        "limit_bytes_per_s": _LIMIT_BYTES_PER_S,
        "mb_per_s": rates,
        "tails": [
            {"line": line, **{key: [each[key] for each in several] for key in several[0]}}
            for line, several in found.items()
        ],
    }


class _Copies:
    """A broker of two replicas whose topic has so many bytes, and a follower that loses its disk again and again."""

    def __init__(
        self, bench: Bench, stack: ExitStack, zk_connect: str, size_bytes: int, properties: Mapping[str, object]
    ) -> None:
        self.system: KafkaBroker = stack.enter_context(
            own_broker(bench.data, zk_connect=zk_connect, properties={**_FLUSHED_SOON, **properties}, replicas=2)
        )
        self._replicas: Replicas = stack.enter_context(replicas_of(self.system))
        [self._follower] = self.system.followers
        self._replicas.take_away(self._follower)
        messages = max(size_bytes // STORED_BYTES // _FILL_BATCH, 1) * _FILL_BATCH
        bench.say(f"fill a topic with {messages:,} messages")
        sent = produce(KIND, self.system, "raw", messages, batch=_FILL_BATCH)
        self._topic, self._size_bytes = sent.topic, sent.landed * STORED_BYTES

    def catch_up(self) -> float:
        """Return the MB/s from the first byte to the last that a new follower got."""
        self._follower.launch()
        began_s = await_that(lambda: self._copied_bytes() > 0, "the first bytes at the follower")
        before = self._copied_bytes()
        ended_s = await_that(lambda: self._copied_bytes() >= self._size_bytes, "all bytes at the follower")
        self._replicas.await_in_sync(2)
        self._replicas.take_away(self._follower)
        return (self._size_bytes - before) / 1e6 / (ended_s - began_s)

    def tail_alone(self, seconds: float) -> dict[str, float]:
        """Measure how long messages take to a reader at the end."""
        return _figures(deliver(self.system, _TAIL_RATE, seconds, _BACKOFF_MS))

    def tail_beside_all(self, seconds: float) -> dict[str, float]:
        """Measure the same while the follower is in sync."""
        self._replicas.restart(self._follower)
        found = self.tail_alone(seconds)
        self._replicas.take_away(self._follower)
        return found

    def tail_beside_one_that_catches_up(self, seconds: float) -> dict[str, float]:
        """Measure the same while the follower begins anew."""
        delivered = deliver(self.system, _TAIL_RATE, seconds, _BACKOFF_MS, begin=self._follower.launch)
        copied_mb = self._copied_bytes() / 1e6
        self._replicas.take_away(self._follower)
        return {**_figures(delivered), "copied_mb": copied_mb}

    def _copied_bytes(self) -> int:
        directory = self._follower.log_dir / f"{self._topic}-0"
        return sum(path.stat().st_size for path in directory.glob("*.kafka"))


def _figures(delivered: Mapping[str, Any]) -> dict[str, float]:
    return {"p50_ms": percentile_ms(delivered, 0.5), "p99_ms": percentile_ms(delivered, 0.99), "copied_mb": 0.0}


def _write(directory: Path, size_bytes: int) -> float:
    """Return the MB/s that the disk takes of one process that does nothing else, in the steps of a follower."""
    step = os.urandom(_STEP_BYTES)
    with tempfile.NamedTemporaryFile(prefix="kafka2011-bench-", dir=directory) as file:
        began_s, written = time.monotonic(), 0
        while written < size_bytes:
            written += os.write(file.fileno(), step[: size_bytes - written])
            os.fsync(file.fileno())
        return size_bytes / 1e6 / (time.monotonic() - began_s)


# The report ----------------------------------------------------------------------------------------------------------

TEXT = """\
A follower whose log.dir was removed is started beside a leader with {size:.0f} MB: MB/s from the first byte in its
files to the last. It brings each {step} MiB to disk before it asks for more; beside it a process writes as much to a
file, in such steps."""
TAIL = """\
{rate:,} messages a second, flushed every 10 ms, go to another topic, and a reader at its end takes them: from when a
message was due until it was handed out. Meanwhile the follower is in sync, is away, or begins with an empty disk at the
same moment, with its start; *copied* is what it got in that time. The limit is {limit:.0f} MB/s."""


def chapters_of_catch_up(body: Mapping[str, Any]) -> list[str]:
    """Return text and tables."""
    rates = body["mb_per_s"]
    rows = [{"line": line, "mb_per_s": found} for line, found in rates.items()]
    share = ratio(rates[CATCH_UP], rates[DISK])
    columns = [
        ("", text("line")),
        ("MB/s", spread_of("mb_per_s")),
        ("x the disk", lambda row: brackets(share) if row["line"] == CATCH_UP else None),
    ]
    tails = [
        ("beside", text("line")),
        ("p50, ms", spread_of("p50_ms")),
        ("p99, ms", spread_of("p99_ms")),
        ("copied, MB", lambda row: spread_of("copied_mb")(row) if any(row["copied_mb"]) else None),
    ]
    return [
        TEXT.format(size=body["bytes"] / 1e6, step=_STEP_BYTES // 2**20),
        table(rows, columns),
        TAIL.format(rate=_TAIL_RATE, limit=body["limit_bytes_per_s"] / 1e6),
        table(body["tails"], tails),
    ]
