"""Run `paper_benchmarks` with brokers that flush sooner, shorter ZooKeeper sessions, and less memory to touch.

The figures of toy runs mean nothing, so a test need not wait as long as a measurement does.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from kafka2011.local_cluster import LocalCluster
from paper_benchmarks.__main__ import main
from paper_benchmarks.measuring import machine
from paper_benchmarks.systems import kafka2011

if TYPE_CHECKING:
    from collections.abc import Mapping

SESSION = {"zk.sessiontimeout.ms": 2000}
FLUSHED_SOON = {"log.default.flush.interval.ms": 50, "log.default.flush.scheduler.interval.ms": 25}
TOUCHED_BYTES = 1_000_000
"""Touching two gigabytes can take a minute on a virtual machine that has returned them to its host."""


def quick_cluster(brokers: int, *, properties: Mapping[str, object], **more: Any) -> LocalCluster:
    """Return a cluster whose brokers lose their ZooKeeper sessions soon after they die."""
    return LocalCluster(brokers, properties={**properties, **SESSION}, **more)


if __name__ == "__main__":
    vars(kafka2011)["LocalCluster"] = quick_cluster
    vars(machine)["_TOUCHED_BYTES"] = TOUCHED_BYTES
    kafka2011.ASYNCHRONOUS.update(FLUSHED_SOON)
    kafka2011.QUICK_COUNT.update(FLUSHED_SOON)
    sys.exit(main())
