"""What many brokers and messages need: a model, and a small cluster beside it. CAPACITY.md is written from both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paper_benchmarks import results_file
from paper_benchmarks.capacity import page
from paper_benchmarks.capacity.costs import read_costs
from paper_benchmarks.capacity.registries import Registries
from paper_benchmarks.capacity.simulation import simulate
from paper_benchmarks.experiment import Experiment
from paper_benchmarks.pictures import image

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from paper_benchmarks.capacity.simulation import Simulation
    from paper_benchmarks.experiment import Bench

PAGE = "CAPACITY.md"


def measure(bench: Bench) -> Mapping[str, Any]:
    """Count what a small cluster asks of ZooKeeper."""
    seconds = bench.messages(toy=5, small=30, paper=120)
    members = bench.messages(toy=2, small=4, paper=6)
    registries = Registries(brokers=2, topics=2, partitions=4, members=members, topics_of_group=2, commit_interval_s=1)
    found: Simulation = simulate(registries, seconds, bench.say)
    return {
        "registries": found.registries,
        "seconds": found.seconds,
        "zk_cpu_us": found.zk_cpu_us,
        "checks": found.checks,
    }


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Write CAPACITY.md from this and the other results there are; the chapter is the comparison."""
    results = pictures.parent
    text = page.page(body, read_costs(results), pictures)
    output = results_file.beside(results) / PAGE
    output.write_text(text + "\n", encoding="utf-8")
    heading, *rest = page.comparison(body)
    picture = image(pictures / page.PICTURE, "Brokers by messages a day, and watches by brokers")
    return "\n\n".join([f"[{PAGE}]({PAGE}) says what a thousand brokers need.", picture, f"#{heading}", *rest])


CAPACITY = Experiment("capacity", "Capacity", measure, chapter)
