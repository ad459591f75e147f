"""What replicas cost and what they give: rates, takeovers, and one that comes back with an empty disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paper_benchmarks.experiments import replication_rates, replication_takeover
from paper_benchmarks.experiments.experiment import Experiment
from paper_benchmarks.experiments.replication_catch_up import chapters_of_catch_up, measure_catch_up
from paper_benchmarks.experiments.replication_rates import measure_rates, rows_of_rates
from paper_benchmarks.experiments.replication_takeover import measure_takeovers, rows_of_takeovers
from zk.local_zookeeper import LocalZooKeeper

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from paper_benchmarks.experiments.experiment import Bench


def measure(bench: Bench) -> dict[str, Any]:
    """Measure all three, one after the other."""
    with LocalZooKeeper() as zookeeper:
        return {
            "rates": measure_rates(bench, zookeeper.connect_string),
            "takeovers": measure_takeovers(bench, zookeeper.connect_string),
            "catch_up": measure_catch_up(bench, zookeeper.connect_string),
        }


def chapter(body: Mapping[str, Any], _pictures: Path) -> str:
    """Put all of it into tables."""
    return "\n\n".join(
        [
            "### Sends, by followers",
            replication_rates.TEXT,
            rows_of_rates(body["rates"]),
            "### A takeover",
            replication_takeover.TEXT,
            rows_of_takeovers(body["takeovers"]),
            "### Catching up",
            *chapters_of_catch_up(body["catch_up"]),
        ]
    )


EXPERIMENT = Experiment(
    "replication",
    "Replicas",
    "whoever keeps a copy on another disk: what it costs, and what it gives",
    measure,
    chapter,
)
