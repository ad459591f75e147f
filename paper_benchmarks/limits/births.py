"""Topics that are born all the time: how soon they are registered and read, and what each costs when there are many."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka2011 import ConsumerConnector, SyncProducer
from kafka2011.consumer.topic_filter import Whitelist
from kafka2011.local_cluster import LocalCluster
from paper_benchmarks.limits.limit import Limit, Run, Taken, percentile, until
from paper_benchmarks.workers.members import Members

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paper_benchmarks.limits.limit import Row

_RATE = 20
_PROPERTIES = {"zk.connectiontimeout.ms": 60_000}


def _measure(run: Run) -> Iterator[Row]:
    total, part = (1200, 300) if run.is_full else (60, 20)
    with ExitStack() as stack:
        cluster = stack.enter_context(LocalCluster(1, properties=_PROPERTIES))
        broker = cluster.brokers[0]
        assert cluster.zookeeper is not None
        pids = {"broker": broker.process.pid, "ZooKeeper": cluster.zookeeper.pid}
        others = stack.enter_context(Members(cluster.zk_connect, "others", {".*": 1}, 1, 1))
        others.join()
        consumer = stack.enter_context(
            ConsumerConnector(
                {"zk.connect": cluster.zk_connect, "groupid": "all", "autooffset.newpartitions": "smallest"}
            )
        )
        [stream] = consumer.create_message_streams_by_filter(Whitelist(".*"), 1)
        reader = _Reader(stream)
        producer = stack.enter_context(SyncProducer(broker.host, broker.port))
        for first in range(0, total, part):
            before = {name: Taken.by(pid).cpu_s for name, pid in pids.items()}
            member_cpu_s = others.cpu_s()
            began_s = time.monotonic()
            for number in range(part):
                time.sleep(max(0.0, began_s + number / _RATE - time.monotonic()))
                producer.send(f"born-{first + number:06d}", [b"%.6f" % time.monotonic()], 0)
            wanted = first + part
            behind_s = until(partial(reader.has, wanted), f"{wanted} topics are read")
            late = reader.late_s[first:wanted]
            row: dict[str, Any] = {
                "topics": wanted,
                "read after s, p50": percentile(late, 0.5),
                "p99": percentile(late, 0.99),
                "behind at the end, s": behind_s,
            }
            for name, pid in pids.items():
                row[f"{name}, CPU ms a topic"] = (Taken.by(pid).cpu_s - before[name]) / part * 1000
            row["a member of all topics"] = (others.cpu_s() - member_cpu_s) / part * 1000
            yield row


class _Reader:
    """Reads a stream in a thread, and notes how late each message is."""

    def __init__(self, stream: Any) -> None:
        self.late_s: list[float] = []
        self._stream = stream
        threading.Thread(target=self._run, daemon=True).start()

    def has(self, messages: int) -> bool:
        """Say whether so many have come."""
        return len(self.late_s) >= messages

    def _run(self) -> None:
        for message in self._stream:
            self.late_s.append(time.monotonic() - float(message.payload))


LIMIT = Limit(
    "Topics born 20 a second",
    "The first message makes a topic; members of two groups follow all of them. Time is from that message until a"
    " member has read it; CPU time is for a topic, among as many as there are by then.",
    _measure,
)
