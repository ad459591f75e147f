"""All systems side by side: every line of each, once in each round, and the floors of our own paths beside them.

Size paper is made of long runs: each producer has a server of its own, as shipped or tuned, which consumers of its
topic use after it. Size small is made of bursts against servers as shipped, which all run at once. Figures 4 and 5 of
the paper are drawn from either.
"""

from __future__ import annotations

import statistics
import tempfile
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from paper_benchmarks.clients.job import Job
from paper_benchmarks.clients.measure import Run, Span, consume, new_topic, points_of, produce, sustain
from paper_benchmarks.experiments import floors
from paper_benchmarks.experiments.experiment import LEAST_S, Experiment, Size
from paper_benchmarks.measuring.machine import touch_memory
from paper_benchmarks.measuring.payloads import PAYLOAD_BYTES
from paper_benchmarks.measuring.samples import Spread
from paper_benchmarks.pages.tables import significant, spread_of, table, text
from paper_benchmarks.systems import tuned
from paper_benchmarks.systems.kafka2011 import OWN
from paper_benchmarks.systems.system import BYTES_ALONE, Way

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.systems.system import Kind, Line, System

FLOORS = "floors"
SHIPPED, TUNED = "as shipped", "tuned"
LEAST_BYTES = 2_000_000_000
MOST_TIMES, _WARM_TIMES = 3.0, 0.2
"""Of the least time: how long a line runs at most, and warms up."""
_AROUND_S = 8.0
"""What a line takes besides: a server, processes, counting."""
_TIMES = {"toy": 0.001, "small": 1.0}
_WARM_SHARE = 0.2
_FEW_ROUNDS = 1
_QUEUES = ("rabbitmq", "activemq", "redis", "nats")
"""They do something else than a log of messages: one long run of each line shows whether its bursts hold."""


@dataclass(frozen=True, slots=True)
class Session:
    """A server, one line that produces, and the lines that consume what it has sent, as shipped or tuned each."""

    kind: Kind
    variant: str
    producer: Line
    readers: tuple[tuple[Line, str], ...]

    def __str__(self) -> str:
        return f"{self.kind.name}, {self.variant}: {self.producer}"


class Settings(NamedTuple):
    """Those of a client and of a server, beside what ships."""

    of_client: Mapping[str, object]
    of_server: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Extent:
    """How much a line does: `times` the messages of its kind's bursts, or as long as a span says."""

    times: float = 1.0
    span: Span | None = None

    def messages(self, usual: int, long: int) -> int:
        """Return the least messages of a line that has so many in a burst, and in a long run."""
        if self.span is None or not self.span.warm_s:
            return max(int(usual * self.times), 100)
        return max(int(long * self.span.least_s / LEAST_S), 100)


def extent_of(bench: Bench) -> Extent:
    """Return that of a size: bursts, or runs of at least 10 s and 2 GB, or 30 s where that takes longer."""
    if bench.size is Size.PAPER:
        least_s = bench.seconds
        return Extent(span=Span(least_s, least_s * MOST_TIMES, least_s * _WARM_TIMES))
    return Extent(_TIMES[bench.size], Span(0.05, 0.5) if bench.size is Size.TOY else None)


def sessions(kinds: Sequence[Kind], *, with_tuned: bool) -> list[Session]:
    """Return what is measured, in order; the tuned ones only where tuning changes something."""
    return [session for kind in kinds for session in _sessions(kind, with_tuned=with_tuned)]


def _sessions(kind: Kind, *, with_tuned: bool) -> Iterator[Session]:
    consumers, filler = kind.consumers(), filler_of(kind)
    for number, line in enumerate(kind.producers()):
        if kind.emptied:
            readers = tuple((reader, SHIPPED) for reader in consumers[number : number + 1])
        elif line is filler:
            readers = tuple(
                (reader, variant) for reader in consumers for variant in _variants(kind, reader, with_tuned)
            )
        else:
            readers = ()
        for variant in _variants(kind, line, with_tuned):
            yield Session(kind, variant, line, readers if variant == SHIPPED else ())


def _variants(kind: Kind, line: Line, with_tuned: bool) -> list[str]:
    is_tuned = with_tuned and any(tuned.tuned(kind.name, line.do, line.client))
    return [SHIPPED, TUNED] if is_tuned else [SHIPPED]


def settings_of(kind: Kind, line: Line, variant: str) -> Settings:
    """Return what a line is measured with."""
    return Settings(*(tuned.tuned(kind.name, line.do, line.client) if variant == TUNED else ({}, {})))


def filler_of(kind: Kind) -> Line:
    """Return the line that fills the topic for consumers."""
    return next((line for line in kind.producers() if line.client == kind.filler), kind.producers()[0])


def measure(bench: Bench) -> dict[str, Any]:
    """Measure every line of every kind once a round; in long runs the queues have fewer rounds."""
    extent, is_long = extent_of(bench), bench.size is Size.PAPER
    planned = sessions(bench.kinds, with_tuned=is_long)
    few = [each for each in planned if is_long and each.kind.name in _QUEUES]
    most = [each for each in planned if each not in few]
    if is_long:
        bench.say(_estimate(extent, [(most, bench.rounds or 5), (few, bench.rounds or _FEW_ROUNDS)]))
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-floors-", dir=bench.data)))
        server = _each(bench) if is_long else _at_once(bench, stack, extent)

        def once(session: Session | str) -> dict[str, Any]:
            if isinstance(session, str):
                touch_memory()
                return floors.measure_parts(directory, bench.sized(toy=2, small=100, paper=500))
            with server(session) as system:
                lines = dict(_lines_of(session, system, extent))
            return {"version": system.version, "settings": dict(system.settings), "lines": lines}

        found: dict[Any, list[dict[str, Any]]] = bench.in_turn([FLOORS, *most], once)
        if few:
            found |= bench.in_turn(few, once, _FEW_ROUNDS, "queues")
    parts = found.pop(FLOORS)
    about = {each.kind.name: (each.kind, samples[0]) for each, samples in reversed(found.items())}
    return {
        "rounds": len(parts),
        "floors": {part: [each[part] for each in parts] for part in floors.PARTS},
        "systems": {
            name: {"title": kind.title, "version": first["version"], "settings": first["settings"]}
            for name, (kind, first) in about.items()
        },
        "lines": [line for each, samples in found.items() for line in _lines(each, samples)],
    }


def _estimate(extent: Extent, parts: Sequence[tuple[Sequence[Session], int]]) -> str:
    span = extent.span
    assert span is not None
    a_line_s = span.warm_s + 1.2 * span.least_s + _AROUND_S
    lines = [(sum(1 + len(each.readers) for each in found), rounds) for found, rounds in parts if found]
    minutes = sum(count * rounds for count, rounds in lines) * a_line_s / 60
    what = " and ".join(f"{count} lines in {rounds} rounds" for count, rounds in lines)
    return f"{what}, {span.least_s:g} to {span.most_s:g} s each: about {minutes:.0f} minutes"


def _each(bench: Bench) -> Callable[[Session], AbstractContextManager[System]]:
    """Return what starts a server for a session, so that its data goes before the next one's comes."""

    def server(session: Session) -> AbstractContextManager[System]:
        touch_memory()
        return bench.start(session.kind, settings_of(session.kind, session.producer, session.variant).of_server)

    return server


def _at_once(bench: Bench, stack: ExitStack, extent: Extent) -> Callable[[Session], AbstractContextManager[System]]:
    """Start a server of every kind, warm all up, and return what finds that of a session."""
    systems = {kind.name: stack.enter_context(bench.start(kind)) for kind in bench.kinds}
    for kind in bench.kinds:
        bench.say(f"{kind.title}: warm up")
        warm_up(kind, systems[kind.name], extent.times * _WARM_SHARE)
    return lambda session: nullcontext(systems[session.kind.name])


def warm_up(kind: Kind, system: System, times: float) -> None:
    """Have a server take and give some messages that do not count."""
    usual, reader = kind.producers()[0], next(iter(kind.consumers()), None)
    sent = produce(kind, system, usual.client, max(int(usual.messages * times), 100), batch=usual.batch)
    if reader is not None:
        consume(kind, system, reader.client, sent.topic, sent.landed)


def _lines_of(session: Session, system: System, extent: Extent) -> Iterator[tuple[str, dict[str, Any]]]:
    kind, line = session.kind, session.producer
    long = kind.topic_messages if session.readers and not kind.emptied else LEAST_BYTES // PAYLOAD_BYTES
    sent = produce_line(kind, system, line, settings_of(kind, line, session.variant), extent, long)
    yield _name(line, session.variant), _facts(sent)
    for reader, variant in session.readers:
        run = consume_line(kind, system, reader, settings_of(kind, reader, variant), sent, extent)
        yield _name(reader, variant), _facts(run)


def _name(line: Line, variant: str) -> str:
    return f"{line.do} {line}, {variant}"


def produce_line(
    kind: Kind,
    system: System,
    line: Line,
    settings: Settings,
    extent: Extent,
    long: int = LEAST_BYTES // PAYLOAD_BYTES,
) -> Run:
    """Send to a new topic; `long` is the least messages of a long run of 10 s."""
    messages = extent.messages(line.messages, long)
    messages = max(messages - messages % line.batch, line.batch)
    job = Job(
        do=line.do,
        client=line.client,
        topic=new_topic(),
        messages=messages,
        every=points_of(min(messages, line.messages), line.batch),
        batch=line.batch,
        settings=settings.of_client,
        server=system.server(),
    )
    return sustain(kind, system, job, _span(extent, line))


def consume_line(kind: Kind, system: System, line: Line, settings: Settings, sent: Run, extent: Extent) -> Run:
    """Read a topic, again and again in a long run; only once where a client or a queue knows no other way."""
    span, is_once = _span(extent, line), kind.emptied or line.once
    messages = extent.messages(sent.landed, LEAST_BYTES // PAYLOAD_BYTES)
    if is_once or extent.span is None:
        messages = sent.landed
        span = Span(0.0, span.most_s, 0.0 if kind.emptied else span.warm_s)
    job = Job(
        do=line.do,
        client=line.client,
        topic=sent.topic,
        messages=messages,
        every=points_of(min(messages, line.messages), 1),
        present=0 if is_once else sent.landed,
        settings=settings.of_client,
        server=system.server(),
    )
    return sustain(kind, system, job, span)


def _span(extent: Extent, line: Line) -> Span:
    span = extent.span or Span()
    return Span(span.least_s, span.most_s) if line.tool else span


def _facts(run: Run) -> dict[str, Any]:
    return {
        "messages": run.amount,
        "seconds": run.wall_s,
        "rate": run.rate,
        "client_cpu_us": run.client_cpu_us,
        "server_cpu_us": run.server_cpu_us,
        "curve": run.curve(),
    }


def _lines(session: Session, rounds: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    kind = session.kind
    for line, variant in ((session.producer, session.variant), *session.readers):
        found = [each["lines"][_name(line, variant)] for each in rounds]
        settings = {key: value for part in settings_of(kind, line, variant) for key, value in part.items()}
        yield {
            "kind": kind.name,
            "title": kind.title,
            "line": str(line),
            "variant": variant,
            "set": settings,
            **{key: getattr(line, key) for key in ("way", "do", "client", "batch")},
            **{key: [each[key] for each in found] for key in ("rate", "client_cpu_us", "server_cpu_us", "seconds")},
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
Messages of 200 bytes, one producer or one consumer, one topic of one partition, everything over loopback. Each line is
measured once in each of {rounds} rounds; the figures are the median and, in brackets, the lowest and the highest. A
rate is that of the whole run, until the server has handled the last message or the client has read it. CPU time is user
and system, of all threads, for a message. Every message is counted.

*Confirmed* means that the client knows of every message that the server has appended it. On one broker it says nothing
of the disk: ours as shipped flushes every 500 messages, tuned once a second; Kafka 4 flushes nothing. With two replicas
a confirmed message of ours was fsynced by both, and one of Kafka's by neither.

*Floor* is what the bytes of a message cost at least, from the parts below, which are measured in the same rounds: for a
producer a copy, a CRC, send(2) and its share of a system call; for a broker that takes them recv(2), CRC and write(2);
for one that gives them sendfile(2); for a consumer recv(2) and CRC. *x* is how many times that ours costs."""


def floor_of(body: Mapping[str, Any], line: Mapping[str, Any]) -> tuple[float, float]:
    """Return the floors of client and server for a line: medians."""
    parts = {name: statistics.median(values) for name, values in body["floors"].items()}
    return floors.floors(parts, line["do"], line["batch"], is_bytes=line["way"] in BYTES_ALONE)


def chapter(body: Mapping[str, Any], _pictures: Path) -> str:
    """Put every line, our floors, and what they are made of into tables."""
    columns = [
        ("system, client", lambda line: f"{line['title']}, {line['line']}"),
        ("settings", text("variant")),
        ("s", lambda line: significant(statistics.median(line["seconds"])) if "seconds" in line else None),
        ("messages", lambda line: f"{line['messages']:,.0f}"),
        ("messages/s", spread_of("rate", whole=True)),
        ("client, CPU us", spread_of("client_cpu_us")),
        ("server, CPU us", spread_of("server_cpu_us")),
    ]
    parts = [TEXT.format(rounds=body["rounds"])]
    for way in Way:
        if lines := [line for line in body["lines"] if line["way"] == way]:
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
            ("path", lambda row: f"{row[0]['title']}, {row[0]['way']}, {row[0]['line']}, {row[0]['variant']}"),
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
    known = {each["kind"] for each in body["lines"] if each["variant"] == TUNED}
    return [
        "### Settings that bear on durability",
        "As shipped.",
        table(rows, [("system", text(0)), ("settings", text(1))]),
        *([] if not known else ["### Tuned settings", TUNED_TEXT, table(_tuned(known), _TUNED_COLUMNS)]),
    ]


TUNED_TEXT = """\
What *tuned* means: the table in `paper_benchmarks/systems/tuned.py`, whose values are those that were quickest in a
sweep (`python -m paper_benchmarks sweep`). Nothing else is set, and nothing is compressed."""
_TUNED_COLUMNS = [
    ("system", text(0)),
    ("of", text(1)),
    ("setting", text(2)),
    ("as shipped", text(3)),
    ("tuned", text(4)),
    ("why", text(5)),
]


def _tuned(kinds: Collection[str]) -> list[tuple[object, ...]]:
    return [
        (
            each.kind,
            ", ".join(each.clients) + " (server)" * each.of_server,
            each.key,
            each.tried[0],
            each.value,
            each.why,
        )
        for several in tuned.SETTINGS.values()
        for each in several
        if each.kind in kinds and each.value != each.tried[0]
    ]


EXPERIMENT = Experiment(
    "systems",
    "All systems side by side",
    "whoever chooses a system, or reads the paper: figures 4 and 5 again, and what a message costs in each",
    measure,
    chapter,
)
