"""Ratios between systems, each of two measurements of one round: what one system was slowed by, slowed the other too.

All servers run at once, and in each round every line of every system is measured once, in turn (A B C A B C ...). What
is consumed was produced in the same round.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from paper_benchmarks.clients.measure import consume, produce
from paper_benchmarks.experiments.experiment import Experiment
from paper_benchmarks.experiments.figures_4_and_5 import warm_up
from paper_benchmarks.measuring.payloads import BATCH
from paper_benchmarks.measuring.spread import Spread, figures
from paper_benchmarks.pages.tables import cost_columns, figure, significant, spread_columns, table
from paper_benchmarks.systems.kafka2011 import OWN
from paper_benchmarks.systems.system import Flush

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.measuring.spread import Sample
    from paper_benchmarks.systems.system import Kind, System


class Line(NamedTuple):
    """What is measured: a client of a kind of system that produces or consumes in batches."""

    kind: str
    do: str
    client: str
    batch: int


@dataclass(frozen=True, slots=True)
class Target:
    """One ratio: ours over another system's, or another line of ours; `least` and `aim` are what it should reach."""

    title: str
    ours: tuple[str, int]
    other: str
    other_line: tuple[str, int]
    least: float | None
    aim: float | None

    def verdict(self, median: float) -> str:
        """Say how a median stands to the target."""
        if self.aim is not None and median >= self.aim:
            return "aim reached"
        if self.least is not None:
            return "reached" if median >= self.least else "**short of it**"
        return "-" if self.aim is None else "**short of the aim**"


BATCHING = "produce, batch 50 over batch 1"
PRODUCE_50, PRODUCE_1, CONSUME = ("produce", BATCH), ("produce", 1), ("consume", 1)
TARGETS = (
    Target("produce, batch 50, over RabbitMQ", PRODUCE_50, "rabbitmq", PRODUCE_1, 60, 100),
    Target("produce, batch 50, over confluent-kafka on its mock", PRODUCE_50, "confluent", PRODUCE_50, 1.2, 2),
    Target("produce, batch 1, over RabbitMQ", PRODUCE_1, "rabbitmq", PRODUCE_1, 9, 14),
    Target("consume, over RabbitMQ", CONSUME, "rabbitmq", CONSUME, 40, 60),
    Target("consume, over Redis XREAD", CONSUME, "redis", CONSUME, 3, None),
    Target("consume, over confluent-kafka on its mock", CONSUME, "confluent", CONSUME, None, 1),
    Target(BATCHING, PRODUCE_50, OWN, PRODUCE_1, 6, 10),
    Target("produce, batch 50, over ActiveMQ", PRODUCE_50, "activemq", PRODUCE_1, None, None),
    Target("consume, over ActiveMQ", CONSUME, "activemq", CONSUME, None, None),
    Target("produce, batch 50, over Redis XADD by 50", PRODUCE_50, "redis", PRODUCE_50, None, None),
    Target("produce, batch 50, over NATS", PRODUCE_50, "nats", PRODUCE_1, None, None),
    Target("consume, over NATS", CONSUME, "nats", CONSUME, None, None),
)


def measure(bench: Bench) -> dict[str, Any]:
    """Measure every line once a round, asynchronous flush."""
    rounds = bench.sized(toy=1, small=5, paper=7)
    with ExitStack() as stack:
        systems = {kind: stack.enter_context(bench.start(kind, Flush.ASYNCHRONOUS)) for kind in bench.kinds}
        for kind, system in systems.items():
            warm_up(bench, kind, system)
        found = bench.in_turn(systems, lambda kind: dict(_round(bench, kind, systems[kind])), rounds)
        versions = {kind.title: system.version for kind, system in systems.items()}
    samples = {line: [each[line] for each in several] for several in found.values() for line in several[0]}
    titles = {kind.name: kind.title for kind in systems}
    lines = [{"title": titles[line.kind], **line._asdict(), **figures(several)} for line, several in samples.items()]
    return {"rounds": rounds, "versions": versions, "ratios": ratios(samples), "lines": lines}


def _round(bench: Bench, kind: Kind, system: System) -> Iterator[tuple[Line, Sample]]:
    many = bench.sized(toy=1000, small=kind.many, paper=2 * kind.many)
    few = bench.sized(toy=500, small=kind.few, paper=2 * kind.few)
    batch = BATCH if kind.batches else 1
    for client in kind.produce:
        if client in (kind.produce[0], "raw"):  # the usual one, and the one that sends what was encoded before
            filled = produce(kind, system, client, many, batch=batch)
            yield Line(kind.name, "produce", client, batch), filled
        if client == kind.produce[0]:
            read = consume(kind, system, kind.consume[0], filled.topic, filled.landed)
            yield Line(kind.name, "consume", kind.consume[0], 1), read
    if kind.batches:
        yield Line(kind.name, "produce", kind.produce[0], 1), produce(kind, system, kind.produce[0], few, batch=1)
    if "raw" in kind.consume:
        filled = produce(kind, system, kind.produce[0], many, batch=BATCH)
        yield Line(kind.name, "consume", "raw", 1), consume(kind, system, "raw", filled.topic, filled.landed)


def ratios(samples: Mapping[Line, Sequence[Sample]]) -> dict[str, Spread]:
    """Return every target that was measured, by its title, each as the spread of its rounds.

    Ours is always the library's client; another system is taken by the better of its library and its socket.
    """
    found = {}
    for target in TARGETS:
        ours = _best(samples, OWN, *target.ours, raw=False)
        others = _best(samples, target.other, *target.other_line, raw=target.other != OWN)
        if ours and others:
            found[target.title] = Spread.of(our / other for our, other in zip(ours, others, strict=True))
    return found


def _best(samples: Mapping[Line, Sequence[Sample]], kind: str, do: str, batch: int, *, raw: bool) -> list[float]:
    """Return the best rate of each round."""
    several = [
        [each.rate for each in rounds]
        for line, rounds in samples.items()
        if (line.kind, line.do, line.batch) == (kind, do, batch) and (raw or line.client != "raw")
    ]
    return [max(rates) for rates in zip(*several, strict=True)]


def chapter(body: Mapping[str, Any], _pictures: Path) -> str:
    """Give the ratios beside their targets, then all that they are made of."""
    rows = [(each, Spread(*body["ratios"][each.title])) for each in TARGETS if each.title in body["ratios"]]
    versions = ", ".join(f"{title} {version}" for title, version in body["versions"].items())
    return "\n\n".join(
        [
            f"Medians of the ratios of {body['rounds']} rounds. {versions}.",
            table(
                rows,
                [
                    ("ratio", lambda row: row[0].title),
                    ("median", figure(1, 1)),
                    ("rounds", lambda row: f"{significant(row[1].lowest)} to {significant(row[1].highest)}"),
                    ("at least", lambda row: significant(row[0].least)),
                    ("aim", lambda row: significant(row[0].aim)),
                    ("", lambda row: row[0].verdict(row[1].median)),
                ],
            ),
            table(
                body["lines"],
                [
                    ("system, line", lambda row: f"{row['title']}, {row['do']}, {row['client']}, batch {row['batch']}"),
                    *spread_columns("messages/s", "rate"),
                    *cost_columns("server"),
                ],
            ),
        ]
    )


EXPERIMENT = Experiment("table", "The table of ratios", measure, chapter)
