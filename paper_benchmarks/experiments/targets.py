"""Ratios between systems, each of two measurements of one round: what one system was slowed by, slowed the other too.

All servers run at once, and in each round every line of every system is measured once, in turn (A B C A B C ...). What
is consumed was produced in the same round.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from paper_benchmarks.experiment import Experiment
from paper_benchmarks.experiments.throughput import warm_up
from paper_benchmarks.loads import load_of
from paper_benchmarks.markdown import significant, table
from paper_benchmarks.measure import consume, produce
from paper_benchmarks.payloads import BATCH
from paper_benchmarks.samples import Spread
from paper_benchmarks.systems.kafka import OWN
from paper_benchmarks.systems.system import Flush

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from paper_benchmarks.experiment import Bench
    from paper_benchmarks.measure import Run
    from paper_benchmarks.systems.system import Kind, System


@dataclass(frozen=True, slots=True)
class Target:
    """One ratio: ours over another system's, or another line of ours; `least` and `aim` are what it should reach."""

    title: str
    ours: tuple[str, int]
    other: str
    other_line: tuple[str, int]
    least: float | None
    aim: float | None


PRODUCE_50, PRODUCE_1, CONSUME = ("produce", BATCH), ("produce", 1), ("consume", 1)
TARGETS = (
    Target("produce, batch 50, over RabbitMQ", PRODUCE_50, "rabbitmq", PRODUCE_1, 60, 100),
    Target("produce, batch 50, over confluent-kafka on its mock", PRODUCE_50, "confluent", PRODUCE_50, 1.2, 2),
    Target("produce, batch 1, over RabbitMQ", PRODUCE_1, "rabbitmq", PRODUCE_1, 9, 14),
    Target("consume, over RabbitMQ", CONSUME, "rabbitmq", CONSUME, 40, 60),
    Target("consume, over Redis XREAD", CONSUME, "redis", CONSUME, 3, None),
    Target("consume, over confluent-kafka on its mock", CONSUME, "confluent", CONSUME, None, 1),
    Target("produce, batch 50 over batch 1", PRODUCE_50, OWN, PRODUCE_1, 6, 10),
    Target("produce, batch 50, over ActiveMQ", PRODUCE_50, "activemq", PRODUCE_1, None, None),
    Target("consume, over ActiveMQ", CONSUME, "activemq", CONSUME, None, None),
    Target("produce, batch 50, over Redis XADD by 50", PRODUCE_50, "redis", PRODUCE_50, None, None),
    Target("produce, batch 50, over NATS", PRODUCE_50, "nats", PRODUCE_1, None, None),
    Target("consume, over NATS", CONSUME, "nats", CONSUME, None, None),
)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A target and what was measured of it: the spread over the rounds."""

    target: Target
    spread: Spread

    @property
    def verdict(self) -> str:
        """Say how the median stands to the target."""
        least, aim = self.target.least, self.target.aim
        if aim is not None and self.spread.median >= aim:
            return "aim reached"
        if least is not None:
            return "reached" if self.spread.median >= least else "**short of it**"
        return "-" if aim is None else "**short of the aim**"


def measure(bench: Bench) -> dict[str, Any]:
    """Measure every line once a round, asynchronous flush, steady rates."""
    rounds = bench.messages(toy=1, small=5, paper=7)
    samples: list[dict[str, Any]] = []
    with ExitStack() as stack:
        systems = [(kind, stack.enter_context(bench.start(kind, Flush.ASYNCHRONOUS))) for kind in bench.kinds]
        for kind, system in systems:
            warm_up(bench, kind, system)
        for number in range(1, rounds + 1):
            for kind, system in systems:
                bench.say(f"round {number} of {rounds}: {kind.title}")
                samples += [_sample(number, kind, run) for run in _round(bench, kind, system)]
        versions = {kind.title: system.version for kind, system in systems}
    return {"rounds": rounds, "versions": versions, "samples": samples}


def _round(bench: Bench, kind: Kind, system: System) -> Iterator[Run]:
    load = load_of(kind)
    many = bench.messages(toy=1000, small=load.many, paper=2 * load.many)
    few = bench.messages(toy=500, small=load.few, paper=2 * load.few)
    for client in _alike(kind.produce):
        if kind.batches:
            yield (filled := produce(kind, system, client, many, batch=BATCH))
        else:
            yield (filled := produce(kind, system, client, many))
        if client == kind.produce[0]:
            yield consume(kind, system, kind.consume[0], filled.topic, filled.landed)
    if kind.batches:
        yield produce(kind, system, kind.produce[0], few, batch=1)
    if "raw" in kind.consume:
        filled = produce(kind, system, kind.produce[0], many, batch=BATCH)
        yield consume(kind, system, "raw", filled.topic, filled.landed)


def _alike(clients: Sequence[str]) -> list[str]:
    """Return the usual client, and the one that sends what was encoded before."""
    return [client for client in clients if client in (clients[0], "raw")]


def _sample(number: int, kind: Kind, run: Run) -> dict[str, Any]:
    return {
        "round": number,
        "kind": kind.name,
        "title": kind.title,
        "do": run.do,
        "client": run.client,
        "batch": run.batch,
        "messages": run.messages,
        "rate": run.rate,
        "client_cpu_us": run.client_cpu_us,
        "server_cpu_us": run.server_cpu_us,
        "written_bytes": None if run.settled is None else run.settled.written_bytes,
    }


# The report ----------------------------------------------------------------------------------------------------------


def ratios(body: Mapping[str, Any]) -> list[Ratio]:
    """Return every target that was measured, each as the spread of its rounds.

    Ours is always the library's client; another system is taken by the better of its library and its socket.
    """
    found = []
    for target in TARGETS:
        rounds = range(1, body["rounds"] + 1)
        ours = [_best(body, number, OWN, *target.ours, raw=False) for number in rounds]
        others = [_best(body, number, target.other, *target.other_line, raw=target.other != OWN) for number in rounds]
        spread = Spread.of(our / other for our, other in zip(ours, others, strict=True) if our and other)
        if spread is not None:
            found.append(Ratio(target, spread))
    return found


def _best(body: Mapping[str, Any], number: int, kind: str, do: str, batch: int, *, raw: bool) -> float | None:
    rates = [
        each["rate"]
        for each in body["samples"]
        if (each["round"], each["kind"], each["do"], each["batch"]) == (number, kind, do, batch)
        and (raw or each["client"] != "raw")
    ]
    return max(rates, default=None)


def chapter(body: Mapping[str, Any], _pictures: Path) -> str:
    """Give the ratios beside their targets, then all that they are made of."""
    rows = [
        (
            ratio.target.title,
            significant(ratio.spread.median),
            f"{significant(ratio.spread.lowest)} to {significant(ratio.spread.highest)}",
            significant(ratio.target.least),
            significant(ratio.target.aim),
            ratio.verdict,
        )
        for ratio in ratios(body)
    ]
    groups: dict[tuple[str, str, str, int], list[Mapping[str, Any]]] = {}
    for sample in body["samples"]:
        groups.setdefault((sample["title"], sample["do"], sample["client"], sample["batch"]), []).append(sample)
    details = [
        (
            f"{title}, {do}, {client}, batch {batch}",
            *_three(Spread.of(each["rate"] for each in group)),
            *(_median(group, key) for key in ("client_cpu_us", "server_cpu_us")),
        )
        for (title, do, client, batch), group in groups.items()
    ]
    versions = ", ".join(f"{title} {version}" for title, version in body["versions"].items())
    return "\n\n".join(
        [
            f"Medians of the ratios of {body['rounds']} rounds. {versions}.",
            table(("ratio", "median", "rounds", "at least", "aim", ""), rows),
            table(
                ("messages/s", "lowest", "median", "highest", "client, CPU us", "server, CPU us"),
                details,
            ),
        ]
    )


def _three(spread: Spread | None) -> tuple[str | None, str | None, str | None]:
    assert spread is not None
    lowest, median, highest = (significant(value) for value in asdict(spread).values())
    return lowest, median, highest


def _median(group: Sequence[Mapping[str, Any]], key: str) -> str | None:
    spread = Spread.of(each[key] for each in group)
    return None if spread is None else significant(spread.median)


EXPERIMENT = Experiment("table", "The table of ratios", measure, chapter)
