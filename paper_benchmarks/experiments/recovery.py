"""How long a broker needs from its start until it serves, by the size of what it must check, and after a clean stop."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

from kafka2011 import SimpleConsumer, SyncProducer
from paper_benchmarks.accounting import check_landed
from paper_benchmarks.errors import BenchmarkError
from paper_benchmarks.experiment import Experiment, Size
from paper_benchmarks.markdown import significant, table
from paper_benchmarks.measure import new_topic
from paper_benchmarks.payloads import BATCH, PAYLOAD_BYTES, batches
from paper_benchmarks.pictures import colour, image, picture
from paper_benchmarks.systems.kafka import OWN, own_broker
from paper_benchmarks.systems.usage import process_cpu_s

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kafka2011.local import LocalBroker
    from paper_benchmarks.experiment import Bench
    from paper_benchmarks.systems.kafka import KafkaBroker

NEVER_FLUSHED = {
    "log.flush.interval": 2**31 - 1,
    "log.default.flush.interval.ms": 3_600_000,
    "log.file.size": 2**31 - 1,
    "zk.sessiontimeout.ms": 2000,
}
"""One segment, of which nothing was synced when the broker is killed. The session's end is not what is measured."""
_STORED_BYTES = PAYLOAD_BYTES + 10
_TIMEOUT_S = 300.0
_POLL_S = 0.002
_LISTENING = b" listens on "


def measure(bench: Bench) -> dict[str, Any]:
    """Start a broker again over logs of several sizes: once killed, and once stopped in order, in each round."""
    sizes_mb = {Size.TOY: (0, 1), Size.SMALL: (0, 10, 50, 200), Size.PAPER: (0, 100, 500, 1000, 2000)}[bench.size]
    rounds = bench.messages(toy=1, small=3, paper=3)
    found = []
    with own_broker(bench.data, properties=NEVER_FLUSHED) as system:
        topic, messages = new_topic(), 0
        for size_mb in sizes_mb:
            messages += _append(system, topic, int(size_mb * 1e6 / _STORED_BYTES) - messages)
            for number in range(1, rounds + 1):
                for stop in ("killed", "stopped"):
                    bench.say(f"{size_mb} MB, {stop}, round {number} of {rounds}")
                    found.append({"mb": size_mb, "stop": stop, **_restart(system, topic, messages, stop)})
    return {"samples": found}


def _append(system: KafkaBroker, topic: str, messages: int) -> int:
    """Append about so many messages; return how many."""
    lists = max(messages // BATCH, 1 if messages >= 0 else 0)
    with SyncProducer(system.host, system.port) as producer:
        sends = batches(min(lists, 100) * BATCH)
        for index in range(lists):
            producer.send(topic, sends[index % len(sends)], 0)
    return lists * BATCH


def _restart(system: KafkaBroker, topic: str, messages: int, stop: str) -> dict[str, Any]:
    """Every message must be there again. The broker has one segment to check, or none after it was stopped in order."""
    broker = system.broker
    assert broker is not None
    _await_handled(broker, topic, messages * _STORED_BYTES)
    if stop == "killed":
        broker.kill()
    else:
        broker.stop()
    began_s = time.monotonic()
    broker.launch()
    _await_answer(broker, topic)
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


def _await_answer(broker: LocalBroker, topic: str) -> None:
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
COLUMNS = ("log, MB", "was", "serves after s", "CPU s", "registered after s", "MB/s beyond an empty log")


def figures(body: Mapping[str, Any]) -> dict[tuple[float, str], dict[str, float]]:
    """Return medians by size and by how the broker ended."""
    keys = {(sample["mb"], sample["stop"]) for sample in body["samples"]}
    return {
        key: {
            name: statistics.median(sample[name] for sample in body["samples"] if (sample["mb"], sample["stop"]) == key)
            for name in ("serves_s", "registered_s", "cpu_s")
        }
        for key in sorted(keys)
    }


def checked_mb_per_s(found: Mapping[tuple[float, str], Mapping[str, float]], mb: float, stop: str) -> float | None:
    """Return the rate at which a log was checked, beyond what the start of an empty one takes; None if that is 0."""
    smallest = min(size for size, _ in found)
    beyond_s = found[mb, stop]["serves_s"] - found[smallest, stop]["serves_s"]
    return (mb - smallest) / beyond_s if beyond_s > 0 else None


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw the time until it serves over the size, and put all into a table."""
    found = figures(body)
    with picture(pictures / "recovery.svg", height=3.4) as axes:
        for stop, style in (("killed", "-o"), ("stopped", "--o")):
            points = [(mb, each["serves_s"]) for (mb, how), each in found.items() if how == stop]
            axes.plot(*zip(*points, strict=True), style, color=colour(OWN), label=stop, markersize=4)
        axes.set_xlabel("log, MB")
        axes.set_ylabel("serves after s")
        axes.set_ylim(bottom=0)
        axes.legend()
    rows = [
        (
            f"{mb:g}",
            stop,
            significant(each["serves_s"]),
            significant(each["cpu_s"]),
            significant(each["registered_s"]),
            significant(checked_mb_per_s(found, mb, stop)) if stop == "killed" else None,
        )
        for (mb, stop), each in found.items()
    ]
    return "\n\n".join([HOW_TO_READ, image(pictures / "recovery.svg", "Recovery"), table(COLUMNS, rows)])


RECOVERY = Experiment("recovery", "Recovery", measure, chapter)
