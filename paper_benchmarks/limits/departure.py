"""A broker that goes, and comes back: what everybody reads who follows all topics."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kafka2011.local_cluster import LocalCluster
from paper_benchmarks.limits.limit import Limit, Run
from paper_benchmarks.limits.members import GROUP, Look, make_topics
from paper_benchmarks.workers.members import Members
from zk.connecting import connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paper_benchmarks.limits.limit import Row

_BROKERS = 4
_PROPERTIES = {"zk.sessiontimeout.ms": 4000, "zk.connectiontimeout.ms": 60_000}


def _measure(run: Run) -> Iterator[Row]:
    sizes = ((5, 50), (10, 100), (10, 200)) if run.is_full else ((2, 10), (5, 20))
    for members, topics in sizes:
        with ExitStack() as stack:
            cluster = stack.enter_context(LocalCluster(_BROKERS, properties=_PROPERTIES))
            client = stack.enter_context(connect(cluster.zk_connect, 10_000))
            names = [f"topic-{number:04d}" for number in range(topics)]
            make_topics(cluster, names)
            several = stack.enter_context(Members(cluster.zk_connect, GROUP, dict.fromkeys(names, 1), members, 25))
            several.join()
            look = Look(cluster, client, several)
            run.say(f"{members} members, {topics} topics on {_BROKERS} brokers")
            look.settle(min(members, _BROKERS), _BROKERS * topics, names)
            look.row(members, topics, "joined")
            cluster.brokers[1].stop()
            time.sleep(2)
            yield _row(topics, look.row(members, (_BROKERS - 1) * topics, "a broker goes"))
            cluster.brokers[1].start()
            time.sleep(2)
            yield _row(topics, look.row(members, _BROKERS * topics, "it comes back"))


def _row(topics: int, row: Row) -> Row:
    return {"topics": topics, **{name: value for name, value in row.items() if name != "settled after s"}}


LIMIT = Limit(
    "A broker that goes and comes",
    "Topics of one partition on each of four brokers; every member subscribes to all. A broker is stopped in order, and"
    " started again.",
    _measure,
)
