"""Starts over very many logs, and over very much data, after a clean stop and after none."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kafka2011 import MessageSet
from kafka2011.local_cluster import LocalBroker
from kafka2011.log.log_directory import CLEAN_SHUTDOWN_MARK
from kafka2011.log.segment import segment_path
from paper_benchmarks.limits.limit import TIMEOUT_S, Limit, Run, Taken, until
from zk.local_zookeeper import LocalZooKeeper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paper_benchmarks.limits.limit import Row

_LISTENING = b" listens on "
_SEGMENT_BYTES = 100_000_000
_LOGS = 10
_SMALL = bytes(MessageSet([b"-" * 190]))
_LAST = bytes(MessageSet([b"-" * 190] * 50_000))


def _measure(run: Run) -> Iterator[Row]:
    for logs in run.sized((10, 200), (100, 1000, 10_000)):
        yield from _both(run, f"{logs:,} logs of a message", partial(_many, count=logs))
    for gigabytes in run.sized((1,), (1, 10, 50)):
        yield from _both(run, f"{gigabytes} GB in 10 logs", partial(_large, gigabytes=gigabytes))


def _both(run: Run, what: str, make: Callable[[Path], object]) -> Iterator[Row]:
    for is_clean in (True, False):
        with (
            tempfile.TemporaryDirectory(prefix="kafka2011-limits-", dir=run.data) as name,
            LocalZooKeeper() as zookeeper,
        ):
            directory = Path(name)
            logs = directory / "logs"
            logs.mkdir()
            make(logs)
            if is_clean:
                (logs / CLEAN_SHUTDOWN_MARK).touch()
            properties = {"zk.connect": zookeeper.connect_string, "zk.connectiontimeout.ms": "60000"}
            broker = LocalBroker(1, directory, properties)
            yield {"log.dir": what, "stopped": "in order" if is_clean else "killed", **_start(broker)}


def _start(broker: LocalBroker) -> Row:
    began_s = time.monotonic()
    broker.launch()
    try:
        listens_s = until(lambda: _LISTENING in broker.output() or not broker.running, "the broker listens")
        listening = Taken.by(broker.process.pid)
        broker.wait_ready(TIMEOUT_S)
        registered_s = time.monotonic() - began_s
        ready = Taken.by(broker.process.pid)
        began_s = time.monotonic()
        broker.stop()
        return {
            "listens after s": listens_s,
            "CPU s": listening.cpu_s,
            "asked of files, MB": listening.asked_bytes / 1e6,
            "registered after s": registered_s,
            "CPU s then": ready.cpu_s,
            "memory MiB": ready.memory_bytes / 2**20,
            "stops within s": time.monotonic() - began_s,
        }
    finally:
        broker.stop()


def _many(logs: Path, count: int) -> None:
    for number in range(count):
        directory = logs / f"topic-{number:05d}-0"
        directory.mkdir()
        segment_path(directory, 0).write_bytes(_SMALL)


def _large(logs: Path, gigabytes: int) -> None:
    """Make ten logs whose older segments are holes: only who reads them would notice."""
    for number in range(_LOGS):
        directory = logs / f"topic-{number}-0"
        directory.mkdir()
        offset = 0
        for _ in range(max(1, round(gigabytes * 1e9 / _LOGS / _SEGMENT_BYTES))):
            with segment_path(directory, offset).open("wb") as segment:
                segment.truncate(_SEGMENT_BYTES)
            offset += _SEGMENT_BYTES
        segment_path(directory, offset).write_bytes(_LAST)


LIMIT = Limit(
    "Starts",
    "A broker starts over a log.dir that was made for it, after a stop in order and after a kill. The large logs are"
    " holes on the disk but for their last segments, of 10 MB each: what was asked of files shows what was read.",
    _measure,
)
