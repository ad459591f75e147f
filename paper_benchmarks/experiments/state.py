"""No delivery state: what every server writes while it is consumed, and what processes it is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from paper_benchmarks.experiment import Experiment
from paper_benchmarks.experiments.throughput import warm_up
from paper_benchmarks.markdown import number, table
from paper_benchmarks.measure import consume, produce
from paper_benchmarks.payloads import BATCH
from paper_benchmarks.pictures import bars, colour, image, plots
from paper_benchmarks.systems.kafka import OWN, KafkaBroker
from paper_benchmarks.systems.system import Flush
from paper_benchmarks.systems.usage import usage_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from paper_benchmarks.experiment import Bench
    from paper_benchmarks.systems.system import Kind, System


def measure(bench: Bench) -> dict[str, Any]:
    """Have every kind's topic read, and compare what its processes write with what they write at rest."""
    lines = []
    for kind in bench.kinds:
        with bench.start(kind, Flush.ASYNCHRONOUS) as system:
            if system.pids():
                warm_up(bench, kind, system)
                lines.append({"kind": kind.name, "title": kind.title, **_line(bench, kind, system)})
    return {"lines": lines}


def _line(bench: Bench, kind: Kind, system: System) -> dict[str, Any]:
    messages = bench.messages(toy=1000, small=200_000, paper=2_000_000)
    rest_s = bench.messages(toy=0, small=5, paper=10)
    sent = produce(kind, system, kind.produce[0], messages, batch=BATCH)
    bench.say(f"{kind.title}: {2 * rest_s} s at rest")
    time.sleep(rest_s)  # for what is still to be written of the messages themselves
    at_rest = _written(system)
    time.sleep(rest_s)
    begin, zookeeper = _written(system), _zookeeper_written(system)
    bench.say(f"{kind.title}: consume {sent.landed:,}")
    run = consume(kind, system, kind.consume[0], sent.topic, sent.landed)
    time.sleep(rest_s)  # for what is written of it later
    zookeeper_end = _zookeeper_written(system)
    return {
        "rest_s": rest_s,
        "rest_bytes": begin - at_rest,
        "consume_bytes": _written(system) - begin,
        "zookeeper_bytes": None if zookeeper is None or zookeeper_end is None else zookeeper_end - zookeeper,
        "run": run,
    }


def _written(system: System) -> int:
    usage = system.usage()
    assert usage is not None
    return usage.written_bytes


def _zookeeper_written(system: System) -> int | None:
    """Return what the keeper of our consumers' offsets has written."""
    if isinstance(system, KafkaBroker) and system.zookeeper_pid is not None:
        return usage_of([system.zookeeper_pid]).written_bytes
    return None


# The report ----------------------------------------------------------------------------------------------------------


class Footprint(NamedTuple):
    """What a server wrote for messages that were read, and what it is."""

    messages: int
    written_bytes: int
    rest_bytes: int
    written_for_each: float
    processes: int
    threads: int
    memory_bytes: int


def footprints(body: Mapping[str, Any]) -> dict[str, Footprint]:
    """Return that of every system. What it writes at rest is told beside, and not taken off."""
    found = {}
    for line in body["lines"]:
        run, written = line["run"], line["consume_bytes"]
        server = run["server"]
        found[line["title"]] = Footprint(
            run["messages"],
            written,
            line["rest_bytes"],
            written / run["messages"],
            server["processes"],
            server["threads"],
            server["memory_bytes"],
        )
    return found


TEXT = """\
The paper's second reason for figure 5 (section 5): both rivals keep the delivery state of every message, and one of
ActiveMQ's threads was busy writing it, while there was no disk write on the Kafka broker. Section 3.1 has consumers
keep what they have consumed.

Each topic is written, left alone, and read once. On the left the bytes that the server's processes wrote for the disk
until {rest} s after the last message, for each message (`write_bytes` of `/proc/PID/io`, which counts nothing on a
tmpfs); then the threads and the memory of all its processes at the end. Shorter is better everywhere."""


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw bytes, threads and memory, and put them into a table."""
    found = footprints(body)
    path = pictures / "state.svg"
    colours = [colour(line["kind"]) for line in body["lines"]]
    with plots(path, 3, width=10, height=1.2 + 0.35 * len(found)) as [written, threads, memory]:
        values = {title: each.written_for_each for title, each in found.items()}
        bars(written, values, colours, "bytes written for each message read", digits=1)
        bars(threads, {title: float(each.threads) for title, each in found.items()}, colours, "threads")
        bars(memory, {title: each.memory_bytes / 1e6 for title, each in found.items()}, colours, "MB of memory")
        for axes in (threads, memory):
            axes.set_yticklabels([])
    rows = [
        (
            title,
            number(each.messages),
            number(each.written_bytes),
            number(each.written_for_each, 2),
            number(each.rest_bytes),
            each.processes,
            each.threads,
            number(each.memory_bytes / 1e6),
        )
        for title, each in found.items()
    ]
    columns = (
        "system",
        "messages read",
        "bytes written meanwhile",
        "for each",
        "at rest before",
        "processes",
        "threads",
        "memory, MB",
    )
    rest_s = max((line["rest_s"] for line in body["lines"]), default=0)
    return "\n\n".join(
        [
            TEXT.format(rest=rest_s),
            *(_verdict(line) for line in body["lines"] if line["kind"] == OWN),
            image(path, "What servers write while they are read"),
            table(columns, rows),
        ]
    )


def _verdict(line: Mapping[str, Any]) -> str:
    wrote = f"{line['consume_bytes']:,} bytes" if line["consume_bytes"] else "nothing"
    text = f"Our broker wrote {wrote} while {line['run']['messages']:,} messages were read from it."
    if line["zookeeper_bytes"] is not None:
        text += (
            " The state is the consumers': ZooKeeper, which keeps their offsets (one for each partition, every 10 s)"
            f" and the registries of their group, wrote {line['zookeeper_bytes']:,} bytes in that time."
        )
    return text


STATE = Experiment("state", "Why: no delivery state on the broker", measure, chapter)
