"""The paper's figures 4 and 5: messages a second over megabytes so far, for one producer and for one consumer.

A topic that was produced is the one that is consumed. Each started server first takes and gives some messages that do
not count: virtual machines warm up, and first connections are made.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from paper_benchmarks import paper
from paper_benchmarks.experiment import Experiment
from paper_benchmarks.loads import load_of
from paper_benchmarks.markdown import significant, table
from paper_benchmarks.measure import consume, curve, produce
from paper_benchmarks.payloads import BATCH
from paper_benchmarks.pictures import colour, image, legend_below, plots, thousands
from paper_benchmarks.systems.kafka import KIND as OWN_KIND
from paper_benchmarks.systems.kafka import OWN
from paper_benchmarks.systems.system import Flush

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from paper_benchmarks.experiment import Bench
    from paper_benchmarks.measure import Run
    from paper_benchmarks.systems.system import Kind, System


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a picture: which client of a kind, and how many messages it takes at once."""

    client: str
    batch: int
    title: str


OWN_PRODUCE = (
    Line("sync", BATCH, "SyncProducer, batch 50"),
    Line("sync", 1, "SyncProducer, batch 1"),
    Line("sync-magic-0", BATCH, "SyncProducer, batch 50, magic 0 (the paper's 9 bytes)"),
    Line("async", 1, "Producer as it ships, a message a send"),
)
OWN_CONSUME = (
    Line("batches", 1, "a stream, batches()"),
    Line("stream", 1, "a stream, message by message"),
)


def produce_lines(kind: Kind) -> Sequence[Line]:
    """Return what is measured of a kind's producers; what the first one sent is then consumed."""
    if kind.name == OWN:
        return OWN_PRODUCE
    if not kind.batches:
        return [Line(kind.produce[0], 1, f"{kind.produce[0]}, one by one")]
    return [Line(kind.produce[0], BATCH, f"{kind.produce[0]}, batch 50"), Line(kind.produce[0], 1, "batch 1")]


def consume_lines(kind: Kind) -> Sequence[Line]:
    """Return what is measured of a kind's consumers."""
    return OWN_CONSUME if kind.name == OWN else [Line(kind.consume[0], 1, kind.consume[0])]


def warm_up(bench: Bench, kind: Kind, system: System) -> None:
    """Have a server take and give some messages that do not count."""
    count = bench.messages(toy=200, small=20_000, paper=20_000)
    sent = produce(kind, system, kind.produce[0], count, batch=BATCH)
    consume(kind, system, kind.consume[0], sent.topic, sent.landed)


def measure(bench: Bench, *, producers: bool, consumers: bool) -> dict[str, Any]:
    """Measure every kind with each of its flush settings, and others' brokers by our clients."""
    lines: list[dict[str, Any]] = []
    for kind in bench.kinds:
        settings: list[Mapping[str, str]] = []
        for flush in Flush:
            with bench.start(kind, flush) as system:
                if system.settings in settings:
                    continue  # it ships that way
                settings.append(system.settings)
                facts = {"kind": kind.name, "title": kind.title, "flush": str(flush), **_about(system)}
                lines += [
                    {**facts, **line}
                    for line in _lines(
                        bench, kind, system, producers=producers, consumers=consumers, main=flush is Flush.ASYNCHRONOUS
                    )
                ]
    for other in bench.others:
        facts = {"kind": other.name, "title": other.name, "flush": "", **_about(other)}
        lines += [
            {**facts, **line} for line in _lines(bench, OWN_KIND, other, producers=producers, consumers=consumers)
        ]
    return {"lines": lines}


def _lines(
    bench: Bench, kind: Kind, system: System, *, producers: bool, consumers: bool, main: bool = True
) -> Iterator[dict[str, Any]]:
    """Measure each line; in full, as long as in the paper, all of ours, and what is `main` of another system."""
    load = load_of(kind)
    in_groups = kind.name != OWN or system.server()["zk_connect"] is not None
    readers = consume_lines(kind) if in_groups else [Line("simple", 1, "SimpleConsumer")]
    if in_groups:
        warm_up(bench, kind, system)
    for number, line in enumerate(produce_lines(kind)):
        if number and not producers:
            break
        whole = kind.name == OWN or (main and not number)
        usual = load.many if line.batch > 1 or not kind.batches else load.few
        messages = bench.messages(toy=1000, small=3 * usual, paper=10_000_000 if whole else 15 * usual)
        bench.say(f"{system.name}: produce {messages:,}, {line.title}")
        sent = produce(kind, system, line.client, messages, batch=line.batch)
        if producers:
            yield _facts(sent, line)
        if number or not consumers:
            continue
        for reader in readers:
            bench.say(f"{system.name}: consume {sent.landed:,}, {reader.title}")
            yield _facts(consume(kind, system, reader.client, sent.topic, sent.landed), reader)


def _about(system: System) -> dict[str, Any]:
    return {"version": system.version, "settings": system.settings}


def _facts(run: Run, line: Line) -> dict[str, Any]:
    return {"line": line.title, "run": run}


# The report ----------------------------------------------------------------------------------------------------------

COLUMNS = (
    "system, client",
    "flush",
    "messages",
    "messages/s, steady",
    "whole run",
    "client, CPU us",
    "server, CPU us",
    "all landed after s",
)


class Axis(NamedTuple):
    """Where the paper's y axis ends, and how far the foot of a picture reaches."""

    top: float
    foot: float


_FIGURE_4 = Axis(paper.FIGURE_4_TOP, 60_000)
_FIGURE_5 = Axis(paper.FIGURE_5_TOP, 100_000)
_STYLES = ("-", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw both figures, as far as they were measured, and put their medians into a table."""
    return "\n\n".join(
        [
            *_figure(body, pictures / "figure-4.svg", "produce", "Figure 4: producer", paper.FIGURE_4, _FIGURE_4),
            *_figure(body, pictures / "figure-5.svg", "consume", "Figure 5: consumer", paper.FIGURE_5, _FIGURE_5),
            *_backlog(body),
            *_settings(body),
        ]
    )


def _figure(
    body: Mapping[str, Any],
    path: Path,
    do: str,
    title: str,
    old: Mapping[str, Sequence[tuple[float, float]]],
    axis: Axis,
) -> list[str]:
    lines = [line for line in body["lines"] if line["run"]["do"] == do]
    if not lines:
        return []
    _draw(path, lines, old, axis)
    rows = [
        (
            f"{line['title']}, {line['line']}",
            line["flush"],
            f"{line['run']['messages']:,}",
            significant(line["run"]["steady_rate"]),
            significant(line["run"]["rate"]),
            significant(line["run"]["client_cpu_us"]),
            significant(line["run"]["server_cpu_us"]),
            significant(line["run"]["landed_s"]),
        )
        for line in lines
    ]
    return [f"### {title}", image(path, title), table(COLUMNS, rows)]


def _draw(
    path: Path, lines: Sequence[Mapping[str, Any]], old: Mapping[str, Sequence[tuple[float, float]]], axis: Axis
) -> None:
    """Draw each flush setting by itself, and beneath it the foot of the same picture."""
    flushes = list(dict.fromkeys(line["flush"] for line in lines))
    highest = max(axis.top, *(rate for line in lines for _, rate in _rates(line)))
    lowest = min(points[-1][1] for points in old.values())
    with plots(path, len(flushes), rows=2, width=10, height=8.5) as axes:
        for number, each in enumerate(axes):
            flush = flushes[number % len(flushes)]
            is_foot = number >= len(flushes)
            for name, points in old.items():
                each.plot(*zip(*points, strict=True), color="#bbbbbb", linestyle="--", linewidth=1, label="the paper's")
                if (points[-1][1] < axis.foot) == is_foot:
                    side = "top" if points[-1][1] == lowest else "bottom"
                    each.annotate(f"{name}, 2011", points[-1], color="#888888", fontsize=7, ha="right", va=side)
            for line in lines:
                if line["flush"] == flush:
                    _curve(each, line)
            each.set_title(f"{flush or 'other brokers'}{', the foot of it' * is_foot}")
            each.set_xlabel("MB of payloads so far")
            each.set_xlim(left=0)
            thousands(each)
            each.set_ylim(0, axis.foot if is_foot else highest * 1.05)
            if number % len(flushes) == 0:
                each.set_ylabel("messages/s")
        legend_below(axes)


def _rates(line: Mapping[str, Any]) -> list[tuple[float, float]]:
    return curve(line["run"]["points"], line["run"]["payload_bytes"])


def _curve(axes: Axes, line: Mapping[str, Any]) -> None:
    own = [each.title for each in OWN_PRODUCE if line["run"]["do"] == "produce"] + [each.title for each in OWN_CONSUME]
    style = (
        _STYLES[own.index(line["line"]) % len(_STYLES)] if line["line"] in own else _STYLES["batch 1" in line["line"]]
    )
    label = f"{line['title']}, {line['line']}"
    axes.plot(*zip(*_rates(line), strict=True), color=colour(line["kind"]), linestyle=style, linewidth=1.1, label=label)
    _mark(axes, line)


def _mark(axes: Axes, line: Mapping[str, Any]) -> None:
    """Mark at the foot what is known to have happened meanwhile."""
    run = line["run"]
    for mark in run["marks"]:
        messages = mark["messages"]
        if messages is None:
            messages = next((point[0] for point in run["points"] if point[1] >= mark["at_s"]), None)
        if messages is not None and messages <= run["messages"]:
            at = messages * run["payload_bytes"] / 1e6
            axes.plot([at], [0], marker="|", markersize=8, color=colour(line["kind"]), clip_on=False)


_BACKLOG = """\
The same runs tell what a backlog does: nobody consumes while a producer is measured, so that its last tenth is added to
nine times as much, and a consumer's first tenth is read while everything lies there. Medians of the points in each
tenth, asynchronous flush. Ours is over in seconds, so that a moment in which the machine did something else counts for
much; `accumulation` repeats it, to 20 GB."""


def _backlog(body: Mapping[str, Any]) -> list[str]:
    """Compare tenths of the first producer's line and the first consumer's of each system that has both."""
    lines: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for line in body["lines"]:
        if line["flush"] == Flush.ASYNCHRONOUS:
            lines[line["title"]].setdefault(line["run"]["do"], line)
    rows = []
    for title, both in lines.items():
        if len(both) == 2 and all(rate for line in both.values() for rate in tenths(line)):
            few, many = tenths(both["produce"])
            all_left, few_left = tenths(both["consume"])
            rows.append(
                (
                    title,
                    f"{both['produce']['run']['messages']:,}",
                    significant(few),
                    significant(many),
                    f"{many / few:.2f}",
                    significant(few_left),
                    significant(all_left),
                    f"{all_left / few_left:.2f}",
                )
            )
    columns = ("system", "messages", "produced/s to few", "to many", "x", "consumed/s of few", "of many", "x")
    return ["### Beside a backlog", _BACKLOG, table(columns, rows)] if rows else []


def tenths(line: Mapping[str, Any]) -> tuple[float, float]:
    """Return the median rates of the first and the last tenth of a run; 0 for one without a point."""
    rates = _rates(line)
    tenth = rates[-1][0] / 10
    first = [rate for megabytes, rate in rates if megabytes <= tenth]
    last = [rate for megabytes, rate in rates if megabytes > 9 * tenth]
    return (statistics.median(first) if first else 0.0), (statistics.median(last) if last else 0.0)


def _settings(body: Mapping[str, Any]) -> list[str]:
    rows = {
        (f"{line['title']} {line['version']}", line["flush"]): ", ".join(
            f"{key}={value}" for key, value in line["settings"].items()
        )
        for line in body["lines"]
    }
    return [
        "### Durability settings",
        table(("system", "flush", "settings"), [(*key, value or "-") for key, value in rows.items()]),
    ]


def _experiment(name: str, title: str, *, producers: bool, consumers: bool) -> Experiment:
    measured = partial(measure, producers=producers, consumers=consumers)
    return Experiment(name, title, measured, chapter, system_by_system=True)


FIGURES = _experiment("figures", "Figures 4 and 5", producers=True, consumers=True)
PRODUCER = _experiment("producer", "Figure 4", producers=True, consumers=False)
CONSUMER = _experiment("consumer", "Figure 5", producers=False, consumers=True)
