"""No acknowledgement: what it costs to have the broker prove each send, at once or later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from paper_benchmarks.clients.measure import produce
from paper_benchmarks.measuring.payloads import BATCH
from paper_benchmarks.measuring.spread import figures
from paper_benchmarks.pages.pictures import bars, colour, image, picture
from paper_benchmarks.pages.tables import cost_columns, spread_columns, table, text
from paper_benchmarks.systems.kafka2011 import KIND, OWN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from paper_benchmarks.clients.measure import Run
    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.systems.kafka2011 import KafkaBroker


class Way(NamedTuple):
    """One way to send: with which client, how many messages at once, and beside which way without proof."""

    client: str
    batch: int
    plain: str = ""


WAYS = {
    "batch 1, unconfirmed": Way("sync", 1),
    "batch 1, waited for one by one": Way("waited", 1, "batch 1, unconfirmed"),
    "batch 50, unconfirmed": Way("sync", BATCH),
    "batch 50, waited for one by one": Way("waited", BATCH, "batch 50, unconfirmed"),
    "Producer, async, unconfirmed": Way("async", 1),
    "Producer, async, confirmed by barrier": Way("async-confirmed", 1, "Producer, async, unconfirmed"),
}

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
    messages = bench.sized(toy=500, small=200_000, paper=1_000_000)

    def once(line: str) -> Run:
        way = WAYS[line]
        return produce(KIND, broker, way.client, messages // (10 if way.client == "waited" else 1), batch=way.batch)

    return {line: figures(samples) for line, samples in bench.in_turn(WAYS, once).items()}


def slower(body: Mapping[str, Any]) -> dict[str, float]:
    """Return how many times as fast the same is without proof, by the line that has the proof; of medians."""
    return {line: body[way.plain]["rate"][1] / body[line]["rate"][1] for line, way in WAYS.items() if way.plain}


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw the rates, and put them into a table."""
    ratios = slower(body)
    path = pictures / "ablation-acknowledgement.svg"
    with picture(path, width=7.5, height=3) as axes:
        colours = ["#9fc5b5" if name in ratios else colour(OWN) for name in body]
        bars(axes, {name: each["rate"][1] for name, each in body.items()}, colours, "messages/s, median of rounds")
    rows = [{"line": line, **found, "ratio": ratios.get(line)} for line, found in body.items()]
    columns = [
        ("sent", text("line")),
        *spread_columns("messages/s", "rate"),
        *cost_columns("broker"),
        ("x without proof", lambda row: row["ratio"] and f"{row['ratio']:.1f}"),
    ]
    return "\n\n".join([TEXT, image(path, "Rates with and without acknowledgement"), table(rows, columns)])
