"""The paper's figures 4 and 5: messages a second over megabytes so far, for one producer and for one consumer.

A topic that was produced is the one that is consumed. Each started server first takes and gives some messages that do
not count: virtual machines warm up, and first connections are made.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from paper_benchmarks.clients.measure import consume, produce, steady, tenths
from paper_benchmarks.experiments import paper_curves as paper
from paper_benchmarks.experiments.experiment import Experiment
from paper_benchmarks.measuring.payloads import BATCH
from paper_benchmarks.pages.pictures import colour, image, legend_below, plots, thousands
from paper_benchmarks.pages.tables import figure, table, text, whole
from paper_benchmarks.systems.kafka2011 import KIND as OWN_KIND
from paper_benchmarks.systems.kafka2011 import OWN
from paper_benchmarks.systems.system import Flush

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from paper_benchmarks.clients.measure import Run
    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.systems.system import Kind, System


class Line(NamedTuple):
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
    count = bench.sized(toy=200, small=20_000, paper=20_000)
    sent = produce(kind, system, kind.produce[0], count, batch=BATCH)
    consume(kind, system, kind.consume[0], sent.topic, sent.landed)


def measure(bench: Bench) -> dict[str, Any]:
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
                lines += [{**facts, **line} for line in _lines(bench, kind, system, flush is Flush.ASYNCHRONOUS)]
    for other in bench.others:
        facts = {"kind": other.name, "title": other.name, "flush": "", **_about(other)}
        lines += [{**facts, **line} for line in _lines(bench, OWN_KIND, other)]
    return {"lines": lines}


def _lines(bench: Bench, kind: Kind, system: System, main: bool = True) -> Iterator[dict[str, Any]]:
    """Measure each line; in full, as long as in the paper, all of ours, and what is `main` of another system."""
    in_groups = kind.name != OWN or system.server()["zk_connect"] is not None
    readers = consume_lines(kind) if in_groups else [Line("simple", 1, "SimpleConsumer")]
    if in_groups:
        warm_up(bench, kind, system)
    for number, line in enumerate(produce_lines(kind)):
        whole_run = kind.name == OWN or (main and not number)
        usual = kind.many if line.batch > 1 or not kind.batches else kind.few
        messages = bench.sized(toy=1000, small=3 * usual, paper=10_000_000 if whole_run else 15 * usual)
        bench.say(f"{system.name}: produce {messages:,}, {line.title}")
        sent = produce(kind, system, line.client, messages, batch=line.batch)
        yield facts_of(sent, line.title)
        for reader in readers if not number else ():
            bench.say(f"{system.name}: consume {sent.landed:,}, {reader.title}")
            yield facts_of(consume(kind, system, reader.client, sent.topic, sent.landed), reader.title)


def _about(system: System) -> dict[str, Any]:
    return {"version": system.version, "settings": system.settings}


def facts_of(run: Run, title: str) -> dict[str, Any]:
    """Return what tables say of a run, and what pictures show: its curve."""
    rates = run.rates()
    first_tenth, last_tenth = tenths(rates)
    return {
        "line": title,
        "do": run.job.do,
        "client": run.job.client,
        "batch": run.job.batch,
        "messages": run.messages,
        "rate": run.rate,
        "steady_rate": steady(rates),
        "first_tenth": first_tenth,
        "last_tenth": last_tenth,
        "client_cpu_us": run.client_cpu_us,
        "server_cpu_us": run.server_cpu_us,
        "landed_s": run.landed_s,
        "curve": [(round(megabytes, 1), float(f"{rate:.4g}")) for megabytes, rate in rates],
    }


# The report ----------------------------------------------------------------------------------------------------------

COLUMNS = [
    ("system, client", lambda line: f"{line['title']}, {line['line']}"),
    ("flush", text("flush")),
    ("messages", whole("messages")),
    ("messages/s, steady", figure("steady_rate")),
    ("whole run", figure("rate")),
    ("client, CPU us", figure("client_cpu_us")),
    ("server, CPU us", figure("server_cpu_us")),
    ("all landed after s", figure("landed_s")),
]


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
    lines = [line for line in body["lines"] if line["do"] == do]
    if not lines:
        return []
    _draw(path, lines, old, axis)
    return [f"### {title}", image(path, title), table(lines, COLUMNS)]


def _draw(
    path: Path, lines: Sequence[Mapping[str, Any]], old: Mapping[str, Sequence[tuple[float, float]]], axis: Axis
) -> None:
    """Draw each flush setting by itself, and beneath it the foot of the same picture."""
    flushes = list(dict.fromkeys(line["flush"] for line in lines))
    highest = max(axis.top, *(rate for line in lines for _, rate in line["curve"]))
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


def _curve(axes: Axes, line: Mapping[str, Any]) -> None:
    own = [each.title for each in (OWN_PRODUCE if line["do"] == "produce" else OWN_CONSUME)]
    style = _STYLES[own.index(line["line"]) if line["line"] in own else "batch 1" in line["line"]]
    label, tint = f"{line['title']}, {line['line']}", colour(line["kind"])
    axes.plot(*zip(*line["curve"], strict=True), color=tint, linestyle=style, linewidth=1.1, label=label)


_BACKLOG = """\
The same runs tell what a backlog does: nobody consumes while a producer is measured, so that its last tenth is added to
nine times as much, and a consumer's first tenth is read while everything lies there. Medians of the points in each
tenth, asynchronous flush. Ours is over in seconds, so that a moment in which the machine did something else counts for
much; `accumulation` repeats it, to 20 GB."""


def _backlog(body: Mapping[str, Any]) -> list[str]:
    """Compare tenths of the first producer's line and the first consumer's of each system that has both."""
    lines: dict[str, dict[str, Any]] = defaultdict(dict)
    for line in body["lines"]:
        if line["flush"] == Flush.ASYNCHRONOUS:
            lines[line["title"]].setdefault(line["do"], line)
    rows = [
        both
        for both in lines.values()
        if len(both) == 2 and all(line[tenth] for line in both.values() for tenth in ("first_tenth", "last_tenth"))
    ]
    produced, consumed = ("produce", "last_tenth", "first_tenth"), ("consume", "first_tenth", "last_tenth")
    columns = [
        ("system", text("produce", "title")),
        ("messages", whole("produce", "messages")),
        ("produced/s to few", figure("produce", "first_tenth")),
        ("to many", figure("produce", "last_tenth")),
        ("x", lambda both: _times(both, *produced)),
        ("consumed/s of few", figure("consume", "last_tenth")),
        ("of many", figure("consume", "first_tenth")),
        ("x", lambda both: _times(both, *consumed)),
    ]
    return ["### Beside a backlog", _BACKLOG, table(rows, columns)] if rows else []


def _times(both: Mapping[str, Any], do: str, many: str, few: str) -> str:
    return f"{both[do][many] / both[do][few]:.2f}"


def _settings(body: Mapping[str, Any]) -> list[str]:
    rows = {
        (f"{line['title']} {line['version']}", line["flush"]): ", ".join(
            f"{key}={value}" for key, value in line["settings"].items()
        )
        for line in body["lines"]
    }
    columns = [
        ("system", lambda row: row[0][0]),
        ("flush", lambda row: row[0][1]),
        ("settings", lambda row: row[1] or "-"),
    ]
    return ["### Durability settings", table(rows.items(), columns)]


EXPERIMENT = Experiment("figures", "Figures 4 and 5", measure, chapter, system_by_system=True)
