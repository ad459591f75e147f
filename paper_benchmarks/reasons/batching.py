"""Batching: what a message costs by how many of them go in one set."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from paper_benchmarks.experiment import Size
from paper_benchmarks.markdown import significant, table
from paper_benchmarks.measure import Run, produce
from paper_benchmarks.pictures import colour, image, plots, thousands
from paper_benchmarks.rounds import Figures, figures_of, in_turn, median
from paper_benchmarks.systems.kafka import KIND, OWN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from paper_benchmarks.experiment import Bench
    from paper_benchmarks.systems.kafka import KafkaBroker

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
    messages = bench.messages(toy=1000, small=200_000, paper=2_000_000)

    def once(size: str) -> Run:
        return produce(KIND, broker, "sync", messages, batch=int(size))

    sizes = _TOY_SIZES if bench.size is Size.TOY else SIZES
    return {"samples": in_turn(bench, [str(size) for size in sizes], once)}


def by_size(body: Mapping[str, Any]) -> dict[int, Figures]:
    """Return the figures by how many messages were in a set."""
    return {int(size): figures for size, figures in figures_of(body["samples"]).items()}


def gain(body: Mapping[str, Any], size: int = 50) -> float:
    """Return how many times as fast sets of so many are as single messages; of medians."""
    figures = by_size(body)
    return figures[size].rate.median / figures[1].rate.median


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw rate and CPU time over the size of sets, and put them into a table."""
    figures = by_size(body)
    sizes = list(figures)
    path = pictures / "ablation-batching.svg"
    with plots(path, 2, width=9, height=3.4) as [rates, costs]:
        rates.plot(sizes, [figures[size].rate.median for size in sizes], marker="o", color=colour(OWN))
        rates.fill_between(
            sizes,
            [figures[size].rate.lowest for size in sizes],
            [figures[size].rate.highest for size in sizes],
            color=colour(OWN),
            alpha=0.15,
            linewidth=0,
        )
        rates.set_ylabel("messages/s")
        thousands(rates)
        costs.plot(sizes, [figures[size].client_cpu_us.median for size in sizes], marker="o", label="client")
        broker = [median(figures[size].server_cpu_us) for size in sizes]
        costs.plot(sizes, [math.nan if each is None else each for each in broker], "s--", label="broker")
        costs.set_ylabel("CPU us a message")
        costs.set_ylim(bottom=0)
        costs.legend()
        for axes in (rates, costs):
            axes.set_xscale("log")
            axes.set_xticks(sizes, [str(size) for size in sizes])
            axes.minorticks_off()
            axes.set_xlabel("messages in a set")
    rows = [
        (
            size,
            *map(significant, (each.rate.lowest, each.rate.median, each.rate.highest)),
            f"{gain(body, size):.1f}",
            significant(each.client_cpu_us.median),
            significant(median(each.server_cpu_us)),
        )
        for size, each in figures.items()
    ]
    columns = (
        "messages in a set",
        "messages/s, lowest",
        "median",
        "highest",
        "x single",
        "client, CPU us",
        "broker, CPU us",
    )
    return "\n\n".join([TEXT, image(path, "Rate and CPU time by the size of sets"), table(columns, rows)])
