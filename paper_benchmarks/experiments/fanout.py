"""Several groups read one topic at once: each gets every message, and the broker keeps nothing about any of them."""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from paper_benchmarks.drivers.job import Job
from paper_benchmarks.experiment import Experiment, Size
from paper_benchmarks.markdown import significant, table
from paper_benchmarks.measure import consume, produce
from paper_benchmarks.payloads import BATCH, PAYLOAD_BYTES
from paper_benchmarks.pictures import colour, image, plots
from paper_benchmarks.systems.kafka import KIND, OWN
from paper_benchmarks.systems.system import Flush
from paper_benchmarks.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from paper_benchmarks.experiment import Bench
    from paper_benchmarks.systems.system import System

_STORED_BYTES = PAYLOAD_BYTES + 10


def measure(bench: Bench) -> dict[str, Any]:
    """Have each number of groups read the same topic, once in each round."""
    groups = (1, 3) if bench.size == Size.TOY else (1, 5, 10)
    rounds = bench.messages(toy=1, small=3, paper=5)
    messages = bench.messages(toy=10_000, small=200_000, paper=2_000_000)
    found = []
    with bench.start(KIND, Flush.ASYNCHRONOUS) as system:
        filled = produce(KIND, system, "sync", messages, batch=BATCH)
        consume(KIND, system, "batches", filled.topic, filled.landed)
        for number in range(1, rounds + 1):
            for count in groups:
                bench.say(f"round {number} of {rounds}: {count} groups")
                found.append({"round": number, **_read_at_once(system, filled.topic, filled.landed, count)})
    return {"messages": filled.landed, "samples": found}


def _read_at_once(system: System, topic: str, messages: int, groups: int) -> dict[str, Any]:
    """Each group has one member in a process of its own, which fails unless it gets just the messages there are."""
    job = Job(
        do="consume", client="batches", topic=topic, messages=messages, every=messages, server=system.server()
    ).facts()
    with ExitStack() as stack:
        readers = [stack.enter_context(Worker(KIND.driver, job)) for _ in range(groups)]
        before = system.usage()
        for reader in readers:
            reader.go()
        results = [reader.result() for reader in readers]
        after = system.usage()
    assert before is not None
    assert after is not None
    used = after.since(before)
    return {
        "groups": groups,
        "copies": groups * messages,
        "wall_s": max(result["wall_s"] for result in results),
        "client_cpu_s": sum(result["cpu_s"] for result in results),
        "broker_cpu_s": used.cpu_s,
        "written_bytes": used.written_bytes,
    }


# The report ----------------------------------------------------------------------------------------------------------

HOW_TO_READ = """\
How to read it: all groups begin at once, and the time is that of the last one to end. A copy is one message handed out
to one group. What a copy costs the broker should not grow with the number of groups: it reads the same pages of the
page cache, and has no list of who got what. With more readers than cores, MB/s is what the machine can decode."""
COLUMNS = (
    "groups",
    "copies of a message",
    "copies/s",
    "MB/s out",
    "broker, CPU us a copy",
    "reader, CPU us a copy",
    "broker wrote, bytes",
)


def figures(body: Mapping[str, Any]) -> list[dict[str, float]]:
    """Return the medians of all rounds for each number of groups."""
    found = []
    for groups in sorted({sample["groups"] for sample in body["samples"]}):
        samples = [sample for sample in body["samples"] if sample["groups"] == groups]
        rate = statistics.median(sample["copies"] / sample["wall_s"] for sample in samples)
        found.append(
            {
                "groups": groups,
                "copies": samples[0]["copies"] / body["messages"],
                "copies_per_s": rate,
                "mb_per_s": rate * _STORED_BYTES / 1e6,
                "broker_cpu_us": _median_us(samples, "broker_cpu_s"),
                "client_cpu_us": _median_us(samples, "client_cpu_s"),
                "written_bytes": max(sample["written_bytes"] for sample in samples),
            }
        )
    return found


def _median_us(samples: Sequence[Mapping[str, Any]], name: str) -> float:
    return statistics.median(float(sample[name] / sample["copies"] * 1e6) for sample in samples)


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw rate and cost of a copy over the number of groups, and put all into a table."""
    found = figures(body)
    with plots(pictures / "fanout.svg", 2, width=8, height=3) as [rate, cost]:
        names = [str(each["groups"]) for each in found]
        for axes, key, label in ((rate, "mb_per_s", "MB/s out"), (cost, "broker_cpu_us", "broker, CPU us a copy")):
            axes.bar_label(axes.bar(names, [each[key] for each in found], color=colour(OWN)), fmt="%.3g")
            axes.set_xlabel("groups")
            axes.set_ylabel(label)
            axes.margins(y=0.12)
            axes.grid(visible=False, axis="x")
    rows = [
        (
            each["groups"],
            significant(each["copies"]),
            significant(each["copies_per_s"]),
            significant(each["mb_per_s"]),
            significant(each["broker_cpu_us"]),
            significant(each["client_cpu_us"]),
            significant(each["written_bytes"]),
        )
        for each in found
    ]
    return "\n\n".join([HOW_TO_READ, image(pictures / "fanout.svg", "Fan-out"), table(COLUMNS, rows)])


FANOUT = Experiment("fanout", "Fan-out: several groups read one topic", measure, chapter)
