"""Which experiments there are, in the order of the report."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paper_benchmarks.experiments.experiment import Experiment

EXPERIMENTS = {
    "figures": "figures_4_and_5",
    "table": "ratios",
    "ablation": "ablation",
    "storage": "section_5_compact_format",
    "state": "section_5_no_delivery_state",
    "accumulation": "accumulation",
    "capacity": "capacity",
    "link": "link",
    "spark": "spark",
    "limits": "limits",
    "clients": "clients",
    "latency": "latency",
    "recovery": "recovery",
    "compression": "compression",
    "events": "events",
    "load": "load",
    "pipeline": "pipeline",
}
"""The module of each here, which has it in `EXPERIMENT`: imported when needed, as some need packages of their own."""


def experiment(name: str) -> Experiment:
    """Return the one of that name."""
    module = importlib.import_module(f"paper_benchmarks.experiments.{EXPERIMENTS[name]}")
    found: Experiment = module.EXPERIMENT
    return found
