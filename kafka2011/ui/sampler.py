"""Reads a cluster while somebody looks, and keeps the newest picture of it for all browsers.

Two threads. One waits for ZooKeeper's watches, and reads what they tell of. The other asks brokers for the ends of
logs, and has offsets read with them: a broker that hangs must not keep news of owners back.
"""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from kafka2011.admin.replicas import describe_replicas
from kafka2011.admin.snapshot.cluster_reader import ClusterReader
from kafka2011.admin.snapshot.cluster_snapshot import ClusterSnapshot
from kafka2011.admin.snapshot.log_offsets import LogOffsetsReader
from kafka2011.errors import KafkaError, as_failure
from kafka2011.outages import Outages
from kafka2011.ui.history import RebalanceHistory
from kafka2011.ui.lag import LagBook
from kafka2011.ui.picture import picture, rows_of
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.admin.replicas import BrokerReplicas
    from zk.client import ZkClient
    from zk.clock import Clock
    from zk.cluster import TopicPartition

logger = logging.getLogger(__name__)

MOST_VIEWERS = 32
BROKER_TIMEOUT_MS = 2000
_PAUSE_S = 0.1
"""Between two readings of ZooKeeper: a rebalance tells of itself many times."""
_LOOK_S = 1.0
"""Between two looks at what somebody has open."""
_SWEEP_S = (2.0, 60.0)
"""Between two looks at everything: as long as it takes to stay below this many requests a second, within limits."""
_REQUESTS_PER_S = 10
_REPLICAS_S = 10.0
"""Between two looks at who leads and who follows, which leaders are asked for."""
_AGAIN_S = 1.0
_ABSENT_S = 3.0
"""Less than this without a browser is one that goes from page to page."""


class TooManyViewersError(KafkaError):
    """As many browsers look as may."""


class Focus(NamedTuple):
    """What a browser has open: a group, a partition, or neither."""

    group: str = ""
    where: TopicPartition | None = None


class Viewer:
    """One browser that looks. `notify` is called, from any thread, when there is something new."""

    def __init__(self, focus: Focus, notify: Callable[[], object]) -> None:
        self.focus = focus
        self.notify = notify


class Published(NamedTuple):
    """The newest picture as JSON, and its number; `trouble` says why it may be old."""

    number: int
    text: str
    trouble: str


class Sampler:
    """A context manager. With `is_always_on` it reads even while nobody looks, to know afterwards what happened."""

    def __init__(self, client: ZkClient, *, is_always_on: bool = False, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._is_always_on = is_always_on
        self._lock = threading.Lock()  # of all that follows
        self._viewers: set[Viewer] = set()
        self._snapshot = ClusterSnapshot()
        self._lags = LagBook()
        self._history = RebalanceHistory()
        self._published = Published(0, "null", "")
        self._document: dict[str, Any] = {}  # what its text says
        self._has_ended = threading.Event()
        self._news = threading.Event()
        self._somebody_looks = threading.Event()
        self._must_sweep = threading.Event()
        self._client = client
        self._outages = Outages(logger)
        self._replicas_s = -_REPLICAS_S
        self._reader = ClusterReader(client, self._news.set)
        self._log_offsets = LogOffsetsReader(BROKER_TIMEOUT_MS, clock)
        self._is_first = True
        self._is_releasing = False
        self._left_s = 0.0
        self._swept_s = 0.0
        self._offsets_due: frozenset[str] | None = frozenset()
        """Of which groups offsets are to be read next; None: of all."""
        self._threads = [
            threading.Thread(target=self._run, args=(look,), name=f"ui-{name}", daemon=True)
            for name, look in (("zookeeper", self._look_at_zookeeper), ("brokers", self._look_at_brokers))
        ]

    def __enter__(self) -> Self:
        if self._is_always_on:
            self._somebody_looks.set()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        self._news.set()
        self._somebody_looks.set()
        self._must_sweep.set()
        for thread in self._threads:
            thread.join()
        self._log_offsets.close()

    def add(self, viewer: Viewer) -> None:
        """Begin to read for a browser. Raises TooManyViewersError."""
        with self._lock:
            if len(self._viewers) >= MOST_VIEWERS:
                raise TooManyViewersError(f"{MOST_VIEWERS} browsers are open already: close one")
            if not self._viewers and not self._is_always_on:
                self._is_first = self._clock.monotonic_s() - self._left_s > _ABSENT_S
                self._swept_s = 0.0
            self._viewers.add(viewer)
            self._somebody_looks.set()
            self._must_sweep.set()
            self._news.set()

    def remove(self, viewer: Viewer) -> None:
        """End to read for a browser."""
        with self._lock:
            self._viewers.discard(viewer)
            if not self._viewers and not self._is_always_on:
                self._left_s = self._clock.monotonic_s()
                self._somebody_looks.clear()

    def release_viewers(self) -> None:
        """Tell all browsers that nothing new will come, so that their requests end."""
        with self._lock:
            self._is_releasing = True
            viewers = list(self._viewers)
        for viewer in viewers:
            viewer.notify()

    @property
    def is_releasing(self) -> bool:
        """Return whether browsers were told that nothing new will come."""
        return self._is_releasing

    @property
    def published(self) -> Published:
        """The newest picture."""
        with self._lock:
            return self._published

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The cluster as it was read last."""
        with self._lock:
            return self._snapshot

    def history(self, group: str) -> dict[str, Any]:
        """Return a group's history for the page."""
        with self._lock:
            return self._history.document(group)

    @property
    def history_changes(self) -> int:
        """How often something was noted in the history."""
        with self._lock:
            return self._history.changes

    def size_of(self, topic: str) -> int:
        """Return how many bytes living brokers have of a topic, as far as they have said."""
        with self._lock:
            log_offsets = self._snapshot.log_offsets.items()
            return sum(latest - earliest for where, (earliest, latest) in log_offsets if where.topic == topic)

    # The two threads -------------------------------------------------------------------------------------------------

    def _run(self, look: Callable[[], None]) -> None:
        outages = Outages(logger)
        while not self._has_ended.is_set():
            self._somebody_looks.wait()
            if self._has_ended.is_set():
                return
            try:
                look()
                outages.over()
            except Exception as error:
                failure = as_failure(error)
                if failure is not error:  # a defect of ours or of a library's: the thread must not end with it
                    logger.exception("an unexpected error while the cluster was read")
                outages.failed("the cluster cannot be read now: %s", failure)
                self._tell(str(failure))
                self._has_ended.wait(_AGAIN_S)
                self._news.set()

    def _look_at_zookeeper(self) -> None:
        if not self._news.wait(_LOOK_S):
            return
        self._news.clear()
        with self._lock:
            due, self._offsets_due = self._offsets_due, frozenset()
        try:
            read = self._reader.read(lambda group: due is None or group in due)
        except Exception:
            with self._lock:
                self._offsets_due = None
            raise
        with self._lock:
            self._history.note(read, int(self._clock.wall_s() * 1000), is_first=self._is_first)
            if self._is_first:
                self._is_first = False
                self._must_sweep.set()
            before = self._snapshot
            self._snapshot = replace(
                read,
                brokers=self._log_offsets.noted(read.brokers),
                log_offsets=before.log_offsets,
                replicas=before.replicas,
            )
        self._tell("", are_lags_new=due is None or bool(due))
        self._has_ended.wait(_PAUSE_S)

    def _look_at_brokers(self) -> None:
        with self._lock:
            snapshot = self._snapshot
            focuses = [viewer.focus for viewer in self._viewers]
            is_sweep = self._clock.monotonic_s() - self._swept_s >= self._sweep_s()
        registered = set(snapshot.partitions())
        groups = {focus.group for focus in focuses} & snapshot.groups.keys()
        wanted = {where for name in groups for where in snapshot.groups[name].offsets}
        wanted |= {focus.where for focus in focuses if focus.where is not None}
        wanted = registered if is_sweep else wanted & registered
        log_offsets = self._log_offsets.read(snapshot.brokers, sorted(wanted))
        self._look_at_replicas()
        with self._lock:
            before = self._snapshot.log_offsets
            kept = {where: before[where] for where in before.keys() & wanted} if is_sweep else before
            self._snapshot = replace(
                self._snapshot,
                brokers=self._log_offsets.noted(self._snapshot.brokers),
                log_offsets={**kept, **log_offsets},
            )
            if is_sweep:
                self._swept_s = self._clock.monotonic_s() if snapshot.brokers else 0.0
            if is_sweep or self._offsets_due is None:
                self._offsets_due = None
            else:
                self._offsets_due |= groups
            is_news = is_sweep or bool(groups)
        if is_news:
            self._news.set()
        else:
            self._tell(self.published.trouble)
        self._must_sweep.wait(_LOOK_S)
        self._must_sweep.clear()
        if not self._somebody_looks.is_set():
            self._log_offsets.close()

    def _look_at_replicas(self) -> None:
        if self._clock.monotonic_s() - self._replicas_s < _REPLICAS_S:
            return
        self._replicas_s = self._clock.monotonic_s()
        replicas: dict[int, BrokerReplicas] = {}
        try:
            replicas, unreadable = describe_replicas(self._client)
            if unreadable:
                self._outages.failed("the replicas of some brokers are not known: %s", "; ".join(unreadable))
            else:
                self._outages.over()
        except KafkaError as error:  # all else goes on
            self._outages.failed("who leads and who follows is not known now: %s", error)
        with self._lock:
            self._snapshot = replace(self._snapshot, replicas=replicas)

    def _sweep_s(self) -> float:
        least_s, most_s = _SWEEP_S
        return min(max(least_s, self._reader.count_offsets() / _REQUESTS_PER_S), most_s)

    def _tell(self, trouble: str, *, are_lags_new: bool = False) -> None:
        """Make a new picture, and tell browsers of it if it differs from the one before."""
        with self._lock:
            by_group = rows_of(self._snapshot)
            if are_lags_new:
                self._lags.note(by_group, self._clock.monotonic_s())
            document = picture(self._snapshot, by_group, self._lags, self._history)
            if document == self._document and trouble == self._published.trouble:
                return
            self._document = document
            text = json.dumps(document, separators=(",", ":"))
            self._published = Published(self._published.number + 1, text, trouble)
            viewers = list(self._viewers)
        for viewer in viewers:
            viewer.notify()
