"""The paper's reasons, within our own system: each section measures with and without one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from paper_benchmarks.experiments import section_3_1_page_cache as page_cache
from paper_benchmarks.experiments import section_3_1_sendfile as sendfile
from paper_benchmarks.experiments import section_5_batching as batching
from paper_benchmarks.experiments import section_5_no_acknowledgement as acknowledgement
from paper_benchmarks.experiments.experiment import Experiment
from paper_benchmarks.experiments.figures_4_and_5 import warm_up
from paper_benchmarks.systems.kafka2011 import KIND, KafkaBroker
from paper_benchmarks.systems.system import Flush

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from paper_benchmarks.experiments.experiment import Bench

SECTIONS = {
    "acknowledgement": ("No acknowledgement", acknowledgement),
    "batching": ("Batching", batching),
    "sendfile": ("sendfile", sendfile),
    "page_cache": ("The page cache", page_cache),
}
"""In the order in which they are measured: the last one restarts the broker."""


def measure(bench: Bench) -> dict[str, Any]:
    """Measure every section against one broker of ours, whatever kinds were asked for."""
    with bench.start(KIND, Flush.ASYNCHRONOUS) as system:
        broker = cast("KafkaBroker", system)
        warm_up(bench, KIND, broker)
        return {name: section.measure(bench, broker) for name, (_, section) in SECTIONS.items()}


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Write the chapters of all sections."""
    return "\n\n".join(
        f"### {title}\n\n{section.chapter(body[name], pictures)}" for name, (title, section) in SECTIONS.items()
    )


EXPERIMENT = Experiment("ablation", "Why: each reason, with and without", measure, chapter)
