"""Full load for long: memory and open files of all parts, which must stay as they are."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kafka2011.local_cluster import LocalCluster
from paper_benchmarks.limits.limit import Limit, Run, Taken
from paper_benchmarks.measuring.worker import ROOT
from paper_benchmarks.workers.members import Members

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paper_benchmarks.limits.limit import Row

_TOPIC = "views"
_PROPERTIES = {
    "num.partitions": 4,
    "log.file.size": 50_000_000,
    "log.retention.size": 100_000_000,
    "log.cleanup.interval.mins": 0.1,
}
_LOOK_S = 2.0
_PRODUCE = """\
import os, sys, itertools
from kafka2011 import Producer
payloads = [os.urandom(200) for _ in range(1000)]
with Producer({"zk.connect": sys.argv[1], "producer.type": "async", "confirm": True, "queue.time": 50}) as producer:
    for number in itertools.count():
        producer.send("views", payloads[number % 1000], key=str(number))
"""


def _measure(run: Run) -> Iterator[Row]:
    with ExitStack() as stack:
        live, offline = (stack.enter_context(LocalCluster(1, directory=None, properties=_PROPERTIES)) for _ in range(2))
        reading = stack.enter_context(Members(live.zk_connect, "readers", {_TOPIC: 1}, 1, 1))
        mirror = [sys.executable, "-m", "kafka2011", "mirror", "--from", live.zk_connect, "--to", offline.zk_connect]
        programs = {
            "producer": [sys.executable, "-c", _PRODUCE, live.zk_connect],
            "mirror": [*mirror, "--whitelist", _TOPIC, "--group", "mirror"],
        }
        pids = {"broker": live.brokers[0].process.pid, "broker of the mirror": offline.brokers[0].process.pid}
        for name, command in programs.items():
            process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)  # noqa: S603 (ours)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            pids[name] = process.pid
        reading.join()
        pids["consumer"] = reading.pids()[0]
        looks: dict[str, list[Taken]] = {name: [] for name in pids}
        ends_s = time.monotonic() + run.minutes * 60
        while time.monotonic() < ends_s:
            time.sleep(_LOOK_S)
            for name, pid in pids.items():
                looks[name].append(Taken.by(pid))
    for name, several in looks.items():
        fifth = max(len(several) // 5, 1)
        second, last = several[fifth : 2 * fifth] or several, several[-fifth:]
        yield {
            "process": name,
            "cores": several[-1].cores_since(several[0]),
            "memory MiB, second fifth": statistics.median(each.memory_bytes for each in second) / 2**20,
            "last fifth": statistics.median(each.memory_bytes for each in last) / 2**20,
            "open files, second fifth": int(statistics.median(each.files for each in second)),
            "last fifth of them": int(statistics.median(each.files for each in last)),
            "minutes": run.minutes,
        }


LIMIT = Limit(
    "Full load for long",
    "A producer that confirms, as fast as it goes; a group's member; a mirror into another cluster. Brokers roll at 50"
    " MB and keep 100 MB of each of four partitions. Medians of looks every 2 s.",
    _measure,
)
