"""Run `paper_benchmarks` with brokers that flush sooner and whose ZooKeeper sessions are shorter.

The figures of toy runs mean nothing, so a test need not wait as long as a measurement does.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from kafka2011.local_cluster import LocalCluster
from paper_benchmarks.__main__ import main
from paper_benchmarks.systems import kafka2011

if TYPE_CHECKING:
    from collections.abc import Mapping

SESSION = {"zk.sessiontimeout.ms": 2000}
FLUSHED_SOON = {"log.default.flush.interval.ms": 50, "log.default.flush.scheduler.interval.ms": 25}


def quick_cluster(brokers: int, *, properties: Mapping[str, object], **more: Any) -> LocalCluster:
    """Return a cluster whose brokers lose their ZooKeeper sessions soon after they die."""
    return LocalCluster(brokers, properties={**properties, **SESSION}, **more)


if __name__ == "__main__":
    vars(kafka2011)["LocalCluster"] = quick_cluster
    kafka2011.ASYNCHRONOUS.update(FLUSHED_SOON)
    kafka2011.QUICK_COUNT.update(FLUSHED_SOON)
    sys.exit(main())
