"""Accumulation: how fast every system takes and gives messages as more and more of them are left in it."""

from __future__ import annotations

import math
import shutil
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil
from matplotlib.ticker import EngFormatter, NullLocator, PercentFormatter

from paper_benchmarks.clients.measure import Run, consume, new_topic, produce
from paper_benchmarks.experiments.experiment import Experiment, Size
from paper_benchmarks.experiments.figures_4_and_5 import warm_up
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import BATCH
from paper_benchmarks.measuring.spread import Spread
from paper_benchmarks.pages.pictures import colour, image, plots
from paper_benchmarks.pages.tables import figure, table, text, whole
from paper_benchmarks.systems.kafka2011 import OWN
from paper_benchmarks.systems.system import Flush

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.systems.system import Kind, System


@dataclass(frozen=True, slots=True)
class Plan:
    """At which backlogs is measured, how many messages each time, and how often."""

    backlogs: tuple[int, ...]
    messages: int
    times: int


_MILLION = 1_000_000
PLANS = {
    Size.TOY: Plan((0, 1000, 2000), 200, 1),
    Size.SMALL: Plan((0, _MILLION // 10, _MILLION // 4, _MILLION // 2, _MILLION), 20_000, 3),
    Size.PAPER: Plan(tuple(each * _MILLION for each in (0, 1, 2, 4, 6, 8, 10)), 100_000, 3),
}
OWN_PLANS = {
    Size.TOY: PLANS[Size.TOY],
    Size.SMALL: Plan(tuple(each * _MILLION // 2 for each in (0, 2, 5, 10, 20)), 200_000, 3),
    Size.PAPER: Plan(tuple(each * _MILLION for each in (0, 1, 2, 4, 6, 8, 10, 30, 60, 96)), 300_000, 3),
}
"""Ours is faster, so that it needs more messages for as long a time; 96 million are 20 GB."""
_FILL_BATCH = 500
_STORED_BYTES = 220  # of one of our messages, and a little more: what of the disk is planned for
_COUNT_INTERVAL_S = 0.5
_COUNT_TIMEOUT_S = 60.0


def measure(bench: Bench) -> dict[str, Any]:
    """Fill one topic of every kind in steps, and measure at each."""
    lines = [line for kind in bench.kinds if (line := _line(bench, kind)) is not None]
    return {"memory_bytes": psutil.virtual_memory().total, "lines": lines}


def _line(bench: Bench, kind: Kind) -> dict[str, Any] | None:
    """Measure a kind, unless it stores nothing. One that gives up on the way gives what it has: that is a finding."""
    plan = (OWN_PLANS if kind.name == OWN else PLANS)[bench.size]
    room = shutil.disk_usage(bench.data).free
    backlogs = [each for each in plan.backlogs if each * _STORED_BYTES < room or kind.name != OWN]
    steps: list[dict[str, Any]] = []
    stopped = None if len(backlogs) == len(plan.backlogs) else f"the disk has room for {room / 1e9:,.0f} GB more"
    with bench.start(kind, Flush.ASYNCHRONOUS) as system:
        if system.stored_bytes() is None:
            return None
        try:
            warm_up(bench, kind, system)
            for step in _steps(bench, kind, system, plan, backlogs):
                steps.append(step)  # noqa: PERF402 (what there is when it gives up)
        except BenchmarkError as error:
            if kind.name == OWN:
                raise
            stopped = str(error)
    return {"kind": kind.name, "title": kind.title, "stopped": stopped, "steps": steps}


def _steps(bench: Bench, kind: Kind, system: System, plan: Plan, backlogs: list[int]) -> Iterator[dict[str, Any]]:
    topic, present = new_topic(), 0
    for backlog in backlogs:
        both: list[tuple[int, Run, Run]] = []
        for _ in range(plan.times):
            present = _fill(bench, kind, system, topic, present, backlog)
            bench.say(f"{kind.title}: produce and consume {plan.messages:,} beside {present:,}")
            sent = produce(kind, system, kind.produce[0], plan.messages, batch=BATCH, topic=topic, present=present)
            both.append((present, sent, consume(kind, system, kind.consume[0], topic, plan.messages, part=True)))
            present = _count(system, topic)
        yield step_of(both)


def step_of(both: Sequence[tuple[int, Run, Run]]) -> dict[str, Any]:
    """Return what a document keeps of one step, given backlog, producer and consumer of each time."""
    return {
        "backlog": statistics.median(backlog for backlog, _, _ in both),
        "stored_bytes": statistics.median(read.stored_bytes or 0 for _, _, read in both),
        "produce": Spread.of(sent.rate for _, sent, _ in both),
        "consume": Spread.of(read.rate for _, _, read in both),
    }


def _fill(bench: Bench, kind: Kind, system: System, topic: str, present: int, backlog: int) -> int:
    """Have a topic hold at least so many messages; return how many it holds."""
    if (missing := backlog - present) <= 0:
        return present
    bench.say(f"{kind.title}: fill up to {backlog:,}")
    client = "raw" if kind.name == OWN else kind.produce[0]
    batch = _FILL_BATCH if kind.name == OWN else BATCH
    missing += -missing % batch
    return produce(kind, system, client, missing, batch=batch, topic=topic, present=present).landed


def _count(system: System, topic: str) -> int:
    """Wait until the number of messages stands still: what a consumer had and did not handle may come back."""
    deadline_s = time.monotonic() + _COUNT_TIMEOUT_S
    count = system.count(topic)
    while True:
        time.sleep(_COUNT_INTERVAL_S)
        if (now := system.count(topic)) == count:
            return count
        if time.monotonic() >= deadline_s:
            raise BenchmarkError(f"{topic}: {now} messages, and still not as many as before")
        count = now


# The report ----------------------------------------------------------------------------------------------------------


def shares(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every step of every system, with its rates also as multiples of that system's first ones; of medians."""
    return [
        {
            **line,
            **step,
            "produce_share": step["produce"][1] / line["steps"][0]["produce"][1],
            "consume_share": step["consume"][1] / line["steps"][0]["consume"][1],
        }
        for line in body["lines"]
        for step in line["steps"]
    ]


TEXT = """\
The paper (section 2): most messaging systems assume that messages are consumed almost at once, so that few are left in
them, and slow down badly when they accumulate, as they do for consumers that load periodically. Section 3.1 says that
Kafka's performance stays linear in the size of the data, up to many terabytes.

A topic is filled in steps and not drained. At each, some more messages are produced (batch 50), and the oldest ones are
consumed; where that removes them, as many are added again. Every rate is the median of several, as a multiple of the
system's own first one, beside a topic with nearly nothing in it. A line that stays at 100% does not mind what has
accumulated; a line that falls does; one that ends early gave up there. Our topic is filled by a socket that sends sets
encoded before; this machine has {memory:.0f} GB of memory, and the oldest messages, which each step reads again, may
stay in the page cache."""


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw relative rates over the backlog, and put rates into a table."""
    found = shares(body)
    path = pictures / "accumulation.svg"
    with plots(path, 2, width=10, height=4) as both:
        for axes, do in zip(both, ("produce", "consume"), strict=True):
            for line in body["lines"]:
                several = [each for each in found if each["title"] == line["title"]]
                axes.plot(
                    [each["backlog"] for each in several],
                    [each[f"{do}_share"] for each in several],
                    marker="o",
                    markersize=3.5,
                    color=colour(line["kind"]),
                    label=line["title"],
                )
            _arrange(axes, do, [each["backlog"] for each in found])
        both[1].legend(loc="upper left", bbox_to_anchor=(1.01, 1))
    columns = [
        ("system", text("title")),
        ("backlog, messages", whole("backlog")),
        ("GB on disk", figure("stored_bytes", unit=1e9)),
        ("produced/s", figure("produce", 1)),
        ("x first", whole("produce_share", digits=2)),
        ("consumed/s", figure("consume", 1)),
        ("x first", whole("consume_share", digits=2)),
    ]
    ends = [f"{line['title']} ends early: {line['stopped']}." for line in body["lines"] if line["stopped"]]
    return "\n\n".join(
        [
            TEXT.format(memory=body["memory_bytes"] / 1e9),
            image(path, "Rates as messages accumulate"),
            *ends,
            table(found, columns),
        ]
    )


def _arrange(axes: Any, do: str, backlogs: list[float]) -> None:
    """Have the backlog on a logarithmic axis that has a place for 0, too."""
    least = min((each for each in backlogs if each), default=1.0)
    first = math.ceil(math.log10(least))
    last = max(math.floor(math.log10(max(backlogs, default=1.0) or 1.0)), first)
    axes.set_xscale("symlog", linthresh=10**first, linscale=1)
    axes.set_xticks([0, *(10**power for power in range(first, last + 1))])
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.axhline(1, color="#999999", linewidth=0.8, linestyle="--")
    axes.set_xlabel("messages left in the topic")
    axes.set_ylabel(f"{do}d messages/s, of those at the first step")


EXPERIMENT = Experiment("accumulation", "Accumulation", measure, chapter, system_by_system=True)
