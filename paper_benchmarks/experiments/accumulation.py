"""Accumulation: how fast every system takes and gives messages as more and more of them are left in it."""

from __future__ import annotations

import math
import shutil
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil
from matplotlib.ticker import EngFormatter, NullLocator, PercentFormatter

from paper_benchmarks.errors import BenchmarkError
from paper_benchmarks.experiment import Experiment, Size
from paper_benchmarks.experiments.throughput import warm_up
from paper_benchmarks.markdown import number, significant, table
from paper_benchmarks.measure import Run, consume, new_topic, produce
from paper_benchmarks.payloads import BATCH
from paper_benchmarks.pictures import colour, image, plots
from paper_benchmarks.systems.kafka import OWN
from paper_benchmarks.systems.system import Flush

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from paper_benchmarks.experiment import Bench
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
    samples: list[dict[str, Any]] = []
    stopped = None if len(backlogs) == len(plan.backlogs) else f"the disk has room for {room / 1e9:,.0f} GB more"
    with bench.start(kind, Flush.ASYNCHRONOUS) as system:
        if system.stored_bytes() is None:
            return None
        try:
            warm_up(bench, kind, system)
            for sample in _samples(bench, kind, system, plan, backlogs):
                samples.append(sample)  # noqa: PERF402 (what there is when it gives up)
        except BenchmarkError as error:
            if kind.name == OWN:
                raise
            stopped = str(error)
    return {"kind": kind.name, "title": kind.title, "stopped": stopped, "samples": samples}


def _samples(bench: Bench, kind: Kind, system: System, plan: Plan, backlogs: list[int]) -> Iterator[dict[str, Any]]:
    topic, present = new_topic(), 0
    for step, backlog in enumerate(backlogs):
        for _ in range(plan.times):
            present = _fill(bench, kind, system, topic, present, backlog)
            bench.say(f"{kind.title}: produce and consume {plan.messages:,} beside {present:,}")
            sent = produce(kind, system, kind.produce[0], plan.messages, batch=BATCH, topic=topic, present=present)
            yield _sample(step, present, sent)
            read = consume(kind, system, kind.consume[0], topic, plan.messages, part=True)
            yield _sample(step, sent.landed, read)
            present = _count(system, topic)


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


def _sample(step: int, backlog: int, run: Run) -> dict[str, Any]:
    return {
        "step": step,
        "do": run.do,
        "backlog": backlog,
        "stored_bytes": run.stored_bytes,
        "rate": run.rate,
        "client_cpu_us": run.client_cpu_us,
        "server_cpu_us": run.server_cpu_us,
    }


# The report ----------------------------------------------------------------------------------------------------------


class Point(NamedTuple):
    """Medians at one step: the backlog in messages, bytes on disk, and rates, also as multiples of the first ones."""

    backlog: float
    stored_bytes: float
    produce: float
    consume: float
    produce_share: float
    consume_share: float


def points(body: Mapping[str, Any]) -> dict[str, list[Point]]:
    """Return the steps of each system that both was filled and read at."""
    return {line["title"]: _points(line["samples"]) for line in body["lines"]}


def _points(samples: list[Mapping[str, Any]]) -> list[Point]:
    steps: dict[int, dict[str, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        steps[sample["step"]][sample["do"]].append(sample)
    found: list[Point] = []
    for _, both in sorted(steps.items()):
        if len(both) < 2:
            continue  # it gave up in between
        sent, read = _median(both["produce"], "rate"), _median(both["consume"], "rate")
        found.append(
            Point(
                _median(both["produce"], "backlog"),
                _median(both["consume"], "stored_bytes"),
                sent,
                read,
                sent / (found[0].produce if found else sent),
                read / (found[0].consume if found else read),
            )
        )
    return found


def _median(samples: list[Mapping[str, Any]], key: str) -> float:
    return statistics.median(sample[key] or 0 for sample in samples)


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
    found = points(body)
    path = pictures / "accumulation.svg"
    kinds = {line["title"]: line["kind"] for line in body["lines"]}
    with plots(path, 2, width=10, height=4) as both:
        for axes, do in zip(both, ("produce", "consume"), strict=True):
            for title, several in found.items():
                axes.plot(
                    [each.backlog for each in several],
                    [getattr(each, f"{do}_share") for each in several],
                    marker="o",
                    markersize=3.5,
                    color=colour(kinds[title]),
                    label=title,
                )
            _arrange(axes, do, [each.backlog for several in found.values() for each in several])
        both[1].legend(loc="upper left", bbox_to_anchor=(1.01, 1))
    rows = [
        (
            title,
            number(each.backlog),
            significant(each.stored_bytes / 1e9),
            significant(each.produce),
            f"{each.produce_share:.2f}",
            significant(each.consume),
            f"{each.consume_share:.2f}",
        )
        for title, several in found.items()
        for each in several
    ]
    columns = ("system", "backlog, messages", "GB on disk", "produced/s", "x first", "consumed/s", "x first")
    ends = [f"{line['title']} ends early: {line['stopped']}." for line in body["lines"] if line["stopped"]]
    return "\n\n".join(
        [
            TEXT.format(memory=body["memory_bytes"] / 1e9),
            image(path, "Rates as messages accumulate"),
            *ends,
            table(columns, rows),
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


ACCUMULATION = Experiment("accumulation", "Accumulation", measure, chapter, system_by_system=True)
