"""Batching: what a message costs by how many of them go in one set."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from paper_benchmarks.clients.measure import produce
from paper_benchmarks.measuring.spread import figures
from paper_benchmarks.pages.pictures import colour, image, plots, thousands
from paper_benchmarks.pages.tables import cost_columns, spread_columns, table, text
from paper_benchmarks.systems.kafka2011 import KIND, OWN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.systems.kafka2011 import KafkaBroker

SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_TOY_SIZES = (1, 50, 500)

TEXT = """\
The paper's last reason for figure 4 (section 5): batches of 50 spread the cost of a request over many messages, which
improved the throughput by almost an order of magnitude.

One SyncProducer, unconfirmed, by how many messages of 200 bytes go in one set. On the left, messages a second, higher
is better; on the right, what a message costs the client and the broker in CPU time, lower is better: it depends less on
what else runs. Both x axes are logarithmic. Whatever their size, the broker checks and appends sets together when
several of them came in one piece."""


def measure(bench: Bench, broker: KafkaBroker) -> dict[str, Any]:
    """Send sets of every size, in turn."""
    messages = bench.sized(toy=1000, small=200_000, paper=2_000_000)
    sizes = bench.sized(toy=_TOY_SIZES, small=SIZES, paper=SIZES)
    found = bench.in_turn(sizes, lambda size: produce(KIND, broker, "sync", messages, batch=size))
    return {str(size): figures(samples) for size, samples in found.items()}


def gain(body: Mapping[str, Any], size: str = "50") -> float:
    """Return how many times as fast sets of so many are as single messages; of medians."""
    return float(body[size]["rate"][1] / body["1"]["rate"][1])


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw rate and CPU time over the size of sets, and put them into a table."""
    sizes = [int(size) for size in body]
    path = pictures / "ablation-batching.svg"
    with plots(path, 2, width=9, height=3.4) as [rates, costs]:
        lowest, medians, highest = zip(*(found["rate"] for found in body.values()), strict=True)
        rates.plot(sizes, medians, marker="o", color=colour(OWN))
        rates.fill_between(sizes, lowest, highest, color=colour(OWN), alpha=0.15, linewidth=0)
        rates.set_ylabel("messages/s")
        thousands(rates)
        for key, style, label in (("client_cpu_us", "o-", "client"), ("server_cpu_us", "s--", "broker")):
            costs.plot(sizes, [each[key][1] if each[key] else math.nan for each in body.values()], style, label=label)
        costs.set_ylabel("CPU us a message")
        costs.set_ylim(bottom=0)
        costs.legend()
        for axes in (rates, costs):
            axes.set_xscale("log")
            axes.set_xticks(sizes, list(body))
            axes.minorticks_off()
            axes.set_xlabel("messages in a set")
    rows = [{"size": size, **found} for size, found in body.items()]
    columns = [
        ("messages in a set", text("size")),
        *spread_columns("messages/s", "rate"),
        ("x single", lambda row: f"{gain(body, row['size']):.1f}"),
        *cost_columns("broker"),
    ]
    return "\n\n".join([TEXT, image(path, "Rate and CPU time by the size of sets"), table(rows, columns)])
