"""No acknowledgement: what it costs to have the broker prove each send, at once or later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from paper_benchmarks.markdown import significant, table
from paper_benchmarks.measure import Run, produce
from paper_benchmarks.payloads import BATCH
from paper_benchmarks.pictures import bars, colour, image, picture
from paper_benchmarks.rounds import figures_of, in_turn, median
from paper_benchmarks.systems.kafka import KIND, OWN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from paper_benchmarks.experiment import Bench
    from paper_benchmarks.systems.kafka import KafkaBroker


class Way(NamedTuple):
    """One way to send: with which client, how many messages at once, and whether each send waits for an answer."""

    client: str
    batch: int
    waits: bool = False


WAYS = {
    "batch 1, unconfirmed": Way("sync", 1),
    "batch 1, waited for one by one": Way("waited", 1, waits=True),
    "batch 50, unconfirmed": Way("sync", BATCH),
    "batch 50, waited for one by one": Way("waited", BATCH, waits=True),
    "Producer, async, unconfirmed": Way("async", 1),
    "Producer, async, confirmed by barrier": Way("async-confirmed", 1),
}
_PAIRS = (
    ("batch 1, unconfirmed", "batch 1, waited for one by one"),
    ("batch 50, unconfirmed", "batch 50, waited for one by one"),
    ("Producer, async, unconfirmed", "Producer, async, confirmed by barrier"),
)

TEXT = """\
The paper's first reason for figure 4 (section 5): the producer waits for no acknowledgement, and sends as fast as the
broker can handle.

The protocol has no answer to a produce, so what is waited for is an empty multifetch behind the sets, which the broker
answers only when it has appended them. *Waited for one by one* sends a message (or a batch) and waits for the answer
before the next one; *confirmed by barrier* sends on, and asks now and then. Longer bars are better; in each pair of
bars the darker one is without proof: SyncProducer, which cannot ask, beside a Producer that waits, and Producer beside
itself."""


def measure(bench: Bench, broker: KafkaBroker) -> dict[str, Any]:
    """Send in every way, in turn."""
    messages = bench.messages(toy=500, small=200_000, paper=1_000_000)

    def once(line: str) -> Run:
        way = WAYS[line]
        return produce(KIND, broker, way.client, messages // (10 if way.waits else 1), batch=way.batch)

    return {"samples": in_turn(bench, list(WAYS), once)}


def slower(body: Mapping[str, Any]) -> dict[str, float]:
    """Return how many times as fast the same is without proof, by the line that has the proof; of medians."""
    figures = figures_of(body["samples"])
    return {proven: figures[plain].rate.median / figures[proven].rate.median for plain, proven in _PAIRS}


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw the rates, and put them into a table."""
    figures, ratios = figures_of(body["samples"]), slower(body)
    path = pictures / "ablation-acknowledgement.svg"
    with picture(path, width=7.5, height=3) as axes:
        colours = ["#9fc5b5" if name in ratios else colour(OWN) for name in figures]
        bars(axes, {name: each.rate.median for name, each in figures.items()}, colours, "messages/s, median of rounds")
    rows = [
        (
            name,
            *map(significant, (each.rate.lowest, each.rate.median, each.rate.highest)),
            significant(each.client_cpu_us.median),
            significant(median(each.server_cpu_us)),
            None if name not in ratios else f"{ratios[name]:.1f}",
        )
        for name, each in figures.items()
    ]
    columns = ("sent", "messages/s, lowest", "median", "highest", "client, CPU us", "broker, CPU us", "x without proof")
    return "\n\n".join([TEXT, image(path, "Rates with and without acknowledgement"), table(columns, rows)])
