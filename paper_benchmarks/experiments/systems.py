"""All systems side by side: every line of each, once in each round, and the floors of our own paths beside them.

All servers run at once. In a round one system after the other produces to new topics by each of its clients, and has
them read; then comes the next round. Figures 4 and 5 of the paper are drawn from the same runs.
"""

from __future__ import annotations

import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paper_benchmarks.clients.measure import Run, consume, produce
from paper_benchmarks.experiments import floors
from paper_benchmarks.experiments.experiment import Experiment
from paper_benchmarks.measuring.machine import touch_memory
from paper_benchmarks.measuring.samples import Spread
from paper_benchmarks.pages.tables import significant, spread_of, table, text
from paper_benchmarks.systems.kafka2011 import OWN
from paper_benchmarks.systems.system import Way

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.systems.system import Kind, System

FLOORS = "floors"
_TIMES = {"toy": 0.001, "small": 1.0, "paper": 6.0}
_WARM_SHARE = 0.2


def measure(bench: Bench) -> dict[str, Any]:
    """Measure every line of every kind once a round."""
    times = bench.sized(toy=_TIMES["toy"], small=_TIMES["small"], paper=_TIMES["paper"])
    kinds = {kind.name: kind for kind in bench.kinds}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-floors-", dir=bench.data)))
        systems = {name: stack.enter_context(bench.start(kind)) for name, kind in kinds.items()}
        for name, kind in kinds.items():
            bench.say(f"{kind.title}: warm up")
            warm_up(kind, systems[name], times * _WARM_SHARE)

        def once(name: str) -> dict[str, Any]:
            if name == FLOORS:
                touch_memory()
                return floors.measure_parts(directory, bench.sized(toy=2, small=100, paper=500))
            return dict(_round(kinds[name], systems[name], times))

        found = bench.in_turn([FLOORS, *kinds], once)
        about = {name: {"version": each.version, "settings": dict(each.settings)} for name, each in systems.items()}
    parts = found.pop(FLOORS)
    return {
        "rounds": len(parts),
        "floors": {part: [each[part] for each in parts] for part in floors.PARTS},
        "systems": {name: {"title": kind.title, **about[name]} for name, kind in kinds.items()},
        "lines": [line for name, kind in kinds.items() for line in _lines(kind, found[name])],
    }


def warm_up(kind: Kind, system: System, times: float) -> None:
    """Have a server take and give some messages that do not count."""
    usual, reader = kind.producers()[0], next(iter(kind.consumers()), None)
    sent = produce(kind, system, usual.client, max(int(usual.messages * times), 100), batch=usual.batch)
    if reader is not None:
        consume(kind, system, reader.client, sent.topic, sent.landed)


def _round(kind: Kind, system: System, times: float) -> Iterator[tuple[str, dict[str, Any]]]:
    """Measure each line of a kind; what the usual producer sent is read, where nothing else was read from it."""
    topics: list[tuple[str, int]] = []
    for line in kind.producers():
        sent = produce(kind, system, line.client, max(int(line.messages * times), 100), batch=line.batch)
        topics.append((sent.topic, sent.landed))
        yield str(line), _facts(sent)
    for number, line in enumerate(kind.consumers()):
        topic, landed = topics[number if kind.emptied else 0]
        yield f"{line} read", _facts(consume(kind, system, line.client, topic, landed))


def _facts(run: Run) -> dict[str, Any]:
    return {
        "messages": run.amount,
        "rate": run.rate,
        "client_cpu_us": run.client_cpu_us,
        "server_cpu_us": run.server_cpu_us,
        "curve": run.curve(),
    }


def _lines(kind: Kind, rounds: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for line in kind.lines:
        found = [each[str(line) if line.do == "produce" else f"{line} read"] for each in rounds]
        yield {
            "kind": kind.name,
            "title": kind.title,
            "line": str(line),
            **{key: getattr(line, key) for key in ("way", "do", "client", "batch")},
            **{key: [each[key] for each in found] for key in ("rate", "client_cpu_us", "server_cpu_us")},
            "messages": found[0]["messages"],
            "curve": _curve([each["curve"] for each in found]),
        }


def _curve(several: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float, float, float]]:
    """Return megabytes so far, and the lowest, the middle and the highest rate of all rounds at each point."""
    points = min(len(each) for each in several)
    found = []
    for number in range(points):
        rates = [each[number][1] for each in several]
        megabytes = statistics.median(each[number][0] for each in several)
        found.append((megabytes, min(rates), statistics.median(rates), max(rates)))
    return found


# The report ----------------------------------------------------------------------------------------------------------

TEXT = """\
Messages of 200 bytes, one producer or one consumer, one topic of one partition, everything over loopback. All servers
run at once, and each line is measured once in each of {rounds} rounds; the figures are the median and, in brackets, the
lowest and the highest. A rate is that of the whole run, until the server has handled the last message or the client has
read it. CPU time is user and system, of all threads, for a message. Every message is counted.

*Floor* is what the bytes of a message cost at least, from the parts below, which are measured in the same rounds: for a
producer a copy, a CRC, send(2) and its share of a system call; for a broker that takes them recv(2), CRC and write(2);
for one that gives them sendfile(2); for a consumer recv(2) and CRC. *x* is how many times that ours costs."""


def floor_of(body: Mapping[str, Any], line: Mapping[str, Any]) -> tuple[float, float]:
    """Return the floors of client and server for a line: medians."""
    parts = {name: statistics.median(values) for name, values in body["floors"].items()}
    is_bytes = line["way"] in {Way.SEND_BYTES, Way.READ_BYTES}
    return floors.floors(parts, line["do"], line["batch"], is_bytes=is_bytes)


def chapter(body: Mapping[str, Any], _pictures: Path) -> str:
    """Put every line, our floors, and what they are made of into tables."""
    columns = [
        ("system, client", lambda line: f"{line['title']}, {line['line']}"),
        ("messages", lambda line: f"{line['messages']:,.0f}"),
        ("messages/s", spread_of("rate", whole=True)),
        ("client, CPU us", spread_of("client_cpu_us")),
        ("server, CPU us", spread_of("server_cpu_us")),
    ]
    parts = [TEXT.format(rounds=body["rounds"])]
    for way in dict.fromkeys(line["way"] for line in body["lines"]):
        lines = [line for line in body["lines"] if line["way"] == way]
        parts += [f"### {way.capitalize()}", table(lines, columns)]
    return "\n\n".join([*parts, "### Our paths and their floors", _floors(body), *_settings(body)])


def _floors(body: Mapping[str, Any]) -> str:
    rows = []
    for line in body["lines"]:
        if line["kind"].startswith(OWN):
            for side, floor in zip(("client", "server"), floor_of(body, line), strict=True):
                if us := line[f"{side}_cpu_us"]:
                    rows.append((line, side, floor, Spread.of(us)))
    ours = table(
        rows,
        [
            ("path", lambda row: f"{row[0]['title']}, {row[0]['way']}, {row[0]['line']}"),
            ("of", lambda row: "client" if row[1] == "client" else "broker"),
            ("CPU us", lambda row: significant(row[3].median)),
            ("floor", lambda row: significant(row[2])),
            ("x", lambda row: f"{row[3].median / row[2]:.1f}"),
        ],
    )
    made_of = table(
        [{"part": part, "us": body["floors"][part], "what": what} for part, what in floors.PARTS.items()],
        [("part", text("part")), ("CPU us", spread_of("us")), ("what is measured", text("what"))],
    )
    return f"{ours}\n\n{made_of}"


def _settings(body: Mapping[str, Any]) -> list[str]:
    rows = [
        (f"{each['title']} {each['version']}", ", ".join(f"{key}={value}" for key, value in each["settings"].items()))
        for each in body["systems"].values()
    ]
    return ["### Settings that bear on durability", table(rows, [("system", text(0)), ("settings", text(1))])]


EXPERIMENT = Experiment(
    "systems",
    "All systems side by side",
    "whoever chooses a system, or reads the paper: figures 4 and 5 again, and what a message costs in each",
    measure,
    chapter,
)
