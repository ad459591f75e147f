"""Which experiments there are, in the order of the report."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paper_benchmarks.experiments.experiment import Experiment

EXPERIMENTS = (
    "systems",
    "reasons",
    "backlog",
    "latency",
    "recovery",
    "replication",
    "events",
    "spark",
    "load",
    "load_cost",
    "pipeline",
)
"""Each is a module here, which has it in `EXPERIMENT`: imported when needed, as some need packages of their own."""


def experiment(name: str) -> Experiment:
    """Return the one of that name."""
    module = importlib.import_module(f"paper_benchmarks.experiments.{name}")
    found: Experiment = module.EXPERIMENT
    return found
