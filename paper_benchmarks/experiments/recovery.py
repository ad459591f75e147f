"""How long a broker needs from its start until it serves, by the size of what it must check, and after a clean stop."""

from __future__ import annotations

import statistics
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka2011 import SimpleConsumer, SyncProducer
from paper_benchmarks.clients.measure import new_topic
from paper_benchmarks.experiments.experiment import Experiment
from paper_benchmarks.measuring.accounting import check_landed
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import BATCH, STORED_BYTES, batches
from paper_benchmarks.measuring.usage import process_cpu_s
from paper_benchmarks.pages.pictures import colour, image, picture
from paper_benchmarks.pages.tables import figure, significant, spread_of, table, text
from paper_benchmarks.systems.kafka2011 import OWN, own_broker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kafka2011.local_cluster import LocalBroker
    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.systems.kafka2011 import KafkaBroker

NEVER_FLUSHED = {
    "log.flush.interval": 2**31 - 1,
    "log.default.flush.interval.ms": 3_600_000,
    "log.file.size": 2**31 - 1,
    "zk.sessiontimeout.ms": 2000,
}
"""One segment, of which nothing was synced when the broker is killed. The session's end is not what is measured."""
_TIMEOUT_S = 300.0
_POLL_S = 0.002
_LISTENING = b" listens on "


def measure(bench: Bench) -> dict[str, Any]:
    """Start a broker again over logs of several sizes: once killed, and once stopped in order, in each round."""
    sizes_mb = bench.sized(toy=(0, 1), small=(0, 10, 50, 200), paper=(0, 100, 500, 1000, 2000))
    found: list[dict[str, Any]] = []
    with own_broker(bench.data, properties=NEVER_FLUSHED) as system:
        topic, messages = new_topic(), 0
        for size_mb in sizes_mb:
            messages += _append(system, topic, int(size_mb * 1e6 / STORED_BYTES) - messages)
            bench.say(f"{size_mb} MB")
            once = partial(_restart, system, topic, messages)
            starts = bench.in_turn(("killed", "stopped"), once, bench.sized(toy=1, small=3, paper=3), f"{size_mb} MB")
            found += [line(size_mb, stop, samples) for stop, samples in starts.items()]
    return {"lines": found}


def line(mb: float, stop: str, starts: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Return medians by size and by how the broker ended, and how far the time until it served was spread."""
    others = {name: statistics.median(each[name] for each in starts) for name in ("registered_s", "cpu_s")}
    return {"mb": mb, "stop": stop, "serves_s": [each["serves_s"] for each in starts], **others}


def _append(system: KafkaBroker, topic: str, messages: int) -> int:
    """Append about so many messages; return how many."""
    lists = max(messages // BATCH, 1 if messages >= 0 else 0)
    with SyncProducer(system.host, system.port) as producer:
        sends = batches(min(lists, 100) * BATCH)
        for index in range(lists):
            producer.send(topic, sends[index % len(sends)], 0)
    return lists * BATCH


def _restart(system: KafkaBroker, topic: str, messages: int, stop: str) -> dict[str, float]:
    """Every message must be there again. The broker has one segment to check, or none after it was stopped in order."""
    broker = system.broker
    assert broker is not None
    _await_handled(broker, topic, messages * STORED_BYTES)
    if stop == "killed":
        broker.kill()
    else:
        broker.stop()
    began_s = time.monotonic()
    broker.launch()
    await_answer(broker, topic)
    serves_s, cpu_s = time.monotonic() - began_s, process_cpu_s(broker.process.pid)
    broker.wait_ready(_TIMEOUT_S)
    registered_s = time.monotonic() - began_s
    with SimpleConsumer(broker.host, broker.port) as consumer:
        check_landed(consumer, topic, messages)
    return {"serves_s": serves_s, "registered_s": registered_s, "cpu_s": cpu_s}


def _await_handled(broker: LocalBroker, topic: str, size_bytes: int) -> None:
    """Wait until the file has all bytes that were sent: nobody can read them before they are flushed."""
    deadline_s = time.monotonic() + _TIMEOUT_S
    directory = broker.log_dir / f"{topic}-0"
    while (found := sum(path.stat().st_size for path in directory.glob("*.kafka"))) != size_bytes:
        if found > size_bytes or time.monotonic() > deadline_s:
            raise BenchmarkError(f"{directory} has {found} bytes: {size_bytes} were sent")
        time.sleep(_POLL_S)


def await_answer(broker: LocalBroker, topic: str) -> None:
    """Wait until it says that it listens, then for its answer.

    To connect to a free port of this machine again and again may end in a connection of the socket to itself.
    """
    deadline_s = time.monotonic() + _TIMEOUT_S
    while _LISTENING not in broker.output():
        if time.monotonic() > deadline_s or not broker.running:
            raise BenchmarkError(f"{broker!r} does not listen: {broker.output()[-2000:].decode(errors='replace')}")
        time.sleep(_POLL_S)
    with SimpleConsumer(broker.host, broker.port) as consumer:
        consumer.fetch(topic, 0, 0)


# The report ----------------------------------------------------------------------------------------------------------

HOW_TO_READ = """\
How to read it: from the start of the process until a fetch is answered. Nothing of the log's one segment was synced
before the kill -9, so all of it is read back from the disk and its CRCs are checked; older segments would not be. What
an empty log takes is the start of Python and the broker. After a clean stop the size should not matter. A killed broker
serves before it is registered: its old znode goes with the session (2 s here, 6 s as shipped)."""


def checked_mb_per_s(lines: Sequence[Mapping[str, Any]], mb: float, stop: str) -> float | None:
    """Return the rate at which a log was checked, beyond what the start of an empty one takes; None if that is 0."""
    serves_s = {line["mb"]: statistics.median(line["serves_s"]) for line in lines if line["stop"] == stop}
    smallest = min(serves_s)
    beyond_s = serves_s[mb] - serves_s[smallest]
    return float((mb - smallest) / beyond_s) if beyond_s > 0 else None


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw the time until it serves over the size, and put all into a table."""
    lines = body["lines"]
    with picture(pictures / "recovery.svg", height=3.4) as axes:
        for stop, style in (("killed", "-o"), ("stopped", "--o")):
            points = [(line["mb"], statistics.median(line["serves_s"])) for line in lines if line["stop"] == stop]
            axes.plot(*zip(*points, strict=True), style, color=colour(OWN), label=stop, markersize=4)
        axes.set_xlabel("log, MB")
        axes.set_ylabel("serves after s")
        axes.set_ylim(bottom=0)
        axes.legend()

    def checked(line: Mapping[str, Any]) -> str | None:
        return significant(checked_mb_per_s(lines, line["mb"], "killed")) if line["stop"] == "killed" else None

    columns = [
        ("log, MB", text("mb")),
        ("was", text("stop")),
        ("serves after s", spread_of("serves_s")),
        ("CPU s", figure("cpu_s")),
        ("registered after s", figure("registered_s")),
        ("MB/s beyond an empty log", checked),
    ]
    return "\n\n".join([HOW_TO_READ, image(pictures / "recovery.svg", "Recovery"), table(lines, columns)])


EXPERIMENT = Experiment(
    "recovery",
    "Starting again",
    "whoever runs brokers: how long one is away after a crash, by the size of its last segment",
    measure,
    chapter,
)
