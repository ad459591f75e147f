"""No delivery state: what every server writes while it is consumed, and what processes it is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from paper_benchmarks.clients.measure import consume, produce
from paper_benchmarks.experiments.experiment import Experiment
from paper_benchmarks.experiments.figures_4_and_5 import warm_up
from paper_benchmarks.measuring.payloads import BATCH
from paper_benchmarks.measuring.usage import usage_of
from paper_benchmarks.pages.pictures import bars, colour, image, plots
from paper_benchmarks.pages.tables import table, text, whole
from paper_benchmarks.systems.kafka2011 import OWN, KafkaBroker
from paper_benchmarks.systems.system import Flush

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from paper_benchmarks.experiments.experiment import Bench
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
    messages = bench.sized(toy=1000, small=200_000, paper=2_000_000)
    rest_s = bench.sized(toy=0, small=5, paper=10)
    sent = produce(kind, system, kind.produce[0], messages, batch=BATCH)
    bench.say(f"{kind.title}: {2 * rest_s} s at rest")
    time.sleep(rest_s)  # for what is still to be written of the messages themselves
    at_rest = _written(system)
    time.sleep(rest_s)
    begin, zookeeper = _written(system), _zookeeper_written(system)
    bench.say(f"{kind.title}: consume {sent.landed:,}")
    run = consume(kind, system, kind.consume[0], sent.topic, sent.landed)
    time.sleep(rest_s)  # for what is written of it later
    zookeeper_end, usage = _zookeeper_written(system), run.server
    assert usage is not None
    return {
        "rest_s": rest_s,
        "rest_bytes": begin - at_rest,
        "consume_bytes": _written(system) - begin,
        "zookeeper_bytes": None if zookeeper is None or zookeeper_end is None else zookeeper_end - zookeeper,
        "messages": run.messages,
        "processes": usage.processes,
        "threads": usage.threads,
        "memory_bytes": usage.memory_bytes,
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


def written_for_each(line: Mapping[str, Any]) -> float:
    """Return how many bytes a server wrote for a message; what it writes at rest is told beside, and not taken off."""
    return float(line["consume_bytes"] / line["messages"])


TEXT = """\
The paper's second reason for figure 5 (section 5): both rivals keep the delivery state of every message, and one of
ActiveMQ's threads was busy writing it, while there was no disk write on the Kafka broker. Section 3.1 has consumers
keep what they have consumed.

Each topic is written, left alone, and read once. On the left the bytes that the server's processes wrote for the disk
until {rest} s after the last message, for each message (`write_bytes` of `/proc/PID/io`, which counts nothing on a
tmpfs); then the threads and the memory of all its processes at the end. Shorter is better everywhere."""


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw bytes, threads and memory, and put them into a table."""
    lines = body["lines"]
    path = pictures / "state.svg"
    colours = [colour(line["kind"]) for line in lines]
    with plots(path, 3, width=10, height=1.2 + 0.35 * len(lines)) as [written, threads, memory]:
        values = {line["title"]: written_for_each(line) for line in lines}
        bars(written, values, colours, "bytes written for each message read", digits=1)
        bars(threads, {line["title"]: line["threads"] for line in lines}, colours, "threads")
        bars(memory, {line["title"]: line["memory_bytes"] / 1e6 for line in lines}, colours, "MB of memory")
        for axes in (threads, memory):
            axes.set_yticklabels([])
    columns = [
        ("system", text("title")),
        ("messages read", whole("messages")),
        ("bytes written meanwhile", whole("consume_bytes")),
        ("for each", lambda line: f"{written_for_each(line):,.2f}"),
        ("at rest before", whole("rest_bytes")),
        ("processes", text("processes")),
        ("threads", text("threads")),
        ("memory, MB", lambda line: f"{line['memory_bytes'] / 1e6:,.0f}"),
    ]
    return "\n\n".join(
        [
            TEXT.format(rest=max((line["rest_s"] for line in lines), default=0)),
            *(_verdict(line) for line in lines if line["kind"] == OWN),
            image(path, "What servers write while they are read"),
            table(lines, columns),
        ]
    )


def _verdict(line: Mapping[str, Any]) -> str:
    wrote = f"{line['consume_bytes']:,} bytes" if line["consume_bytes"] else "nothing"
    text = f"Our broker wrote {wrote} while {line['messages']:,} messages were read from it."
    if line["zookeeper_bytes"] is not None:
        text += (
            " The state is the consumers': ZooKeeper, which keeps their offsets (one for each partition, every 10 s)"
            f" and the registries of their group, wrote {line['zookeeper_bytes']:,} bytes in that time."
        )
    return text


EXPERIMENT = Experiment("state", "Why: no delivery state on the broker", measure, chapter)
