"""Which experiments there are, in the order of the report."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paper_benchmarks.experiment import Experiment

EXPERIMENTS = {
    "figures": "paper_benchmarks.experiments.throughput:FIGURES",
    "producer": "paper_benchmarks.experiments.throughput:PRODUCER",
    "consumer": "paper_benchmarks.experiments.throughput:CONSUMER",
    "table": "paper_benchmarks.experiments.targets:EXPERIMENT",
    "ablation": "paper_benchmarks.experiments.ablation:ABLATION",
    "storage": "paper_benchmarks.experiments.storage:STORAGE",
    "state": "paper_benchmarks.experiments.state:STATE",
    "accumulation": "paper_benchmarks.experiments.accumulation:ACCUMULATION",
    "capacity": "paper_benchmarks.experiments.capacity:CAPACITY",
    "link": "paper_benchmarks.experiments.link:EXPERIMENT",
    "spark": "paper_benchmarks.experiments.spark:EXPERIMENT",
    "limits": "paper_benchmarks.experiments.limits:LIMITS",
    "latency": "paper_benchmarks.experiments.latency:LATENCY",
    "growth": "paper_benchmarks.experiments.growth:GROWTH",
    "fanout": "paper_benchmarks.experiments.fanout:FANOUT",
    "rebalance": "paper_benchmarks.experiments.rebalance:REBALANCE",
    "recovery": "paper_benchmarks.experiments.recovery:RECOVERY",
    "compression": "paper_benchmarks.experiments.compression:COMPRESSION",
    "pipeline": "paper_benchmarks.experiments.pipeline:EXPERIMENT",
}
"""Where each one is: imported when it is needed, as some need packages that others do without."""

COVERED = {"figures": ("producer", "consumer")}
"""What one experiment measures along with others, which the report then leaves out."""


def experiment(name: str) -> Experiment:
    """Return the one of that name."""
    module, _, variable = EXPERIMENTS[name].partition(":")
    found: Experiment = getattr(importlib.import_module(module), variable)
    return found
