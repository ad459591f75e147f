"""Which experiments there are, in the order of the report."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from paper_benchmarks.experiments.experiment import Size

if TYPE_CHECKING:
    from paper_benchmarks.experiments.experiment import Experiment

EXPERIMENTS = (
    "systems",
    "sweep",
    "beside",
    "reasons",
    "backlog",
    "latency",
    "recovery",
    "replication",
    "events",
    "spark",
    "load",
    "load_cost",
    "foreign_schemas",
    "pipeline",
)
"""Each is a module here, which has it in `EXPERIMENT`: imported when needed, as some need packages of their own."""


BURSTS = "bursts"
"""The document of `systems` at size small: runs of a fixed number of messages, many of them shorter than a second."""


def document_of(name: str, size: Size) -> str:
    """Return the name of the document that an experiment writes."""
    return BURSTS if name == "systems" and size is Size.SMALL else name


def experiment(name: str) -> Experiment:
    """Return the one of that name."""
    module = importlib.import_module(f"paper_benchmarks.experiments.{name}")
    found: Experiment = module.EXPERIMENT
    return found
