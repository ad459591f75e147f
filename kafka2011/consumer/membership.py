"""Membership: a member's way into its group and out of it, and the threads that keep it there (paper, section 3.2).

One thread rebalances, one keeps the lease, one commits, and one may watch what the application does. Each repeats its
task until the end, whatever errors it raises.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Generic

from kafka2011.consumer.division import TryAgainError
from kafka2011.consumer.offset_committer import ContendedOffsetError
from kafka2011.consumer.owned_partition import F
from kafka2011.consumer.threads import PlainThreads
from kafka2011.errors import KafkaError
from kafka2011.outages import Outages
from zk.errors import NodeHeld, ZkError, ZkUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.config import ConsumerConfig
    from kafka2011.consumer.application_watch import ApplicationWatch
    from kafka2011.consumer.offset_committer import OffsetCommitter
    from kafka2011.consumer.rebalancer import Rebalancer
    from kafka2011.consumer.threads import RunningThread, ThreadEvent, Threads
    from zk.clock import Clock
    from zk.sessions import SessionEvents

logger = logging.getLogger(__name__)

AUDIT_INTERVAL_S = 10.0
"""How often a member checks that its owner nodes still exist: others may delete them by path."""
_THREAD_TIMEOUT_S = 10.0
_LAST_TRY_TIMEOUT_S = 60.0
_LEASE_RETRIES = 10
_LOOK_AGAIN_S = 0.1
_SHORTEST_WAIT_S = 0.01


class Membership(Generic[F]):
    """Keeps a rebalancer's member in its group, from `enter` to `leave`. `wake` is set when the group has changed.

    `is_settled` is whether the last rebalance ended well and nothing has changed since; `on_settled` is called when one
    has.
    """

    def __init__(
        self,
        consumer_id: str,
        rebalancer: Rebalancer[F],
        committer: OffsetCommitter,
        *,
        config: ConsumerConfig,
        events: SessionEvents,
        wake: ThreadEvent,
        clock: Clock,
        watch: ApplicationWatch | None = None,
        threads: Threads | None = None,
    ) -> None:
        self.rebalancer = rebalancer
        self._consumer_id = consumer_id
        self._committer = committer
        self._config = config
        self._backoff_s = config.rebalance_backoff_ms / 1000
        self._events = events
        self._wake = wake
        self._clock = clock
        self._watch = watch
        self.on_settled: Callable[[], object] = lambda: None
        self._threads = threads or PlainThreads()
        self._leaving = self._threads.new_event()
        self._has_left = self._threads.new_event()
        self._started: dict[str, RunningThread] = {}
        self._ended_well = False  # the last rebalance
        self._failed_tries = 0
        self._next_failure_s = 0.0  # attempts brought forward by events are not counted
        self._commit_outages = Outages(logger)
        self._lease_outages = Outages(logger, logging.INFO, logging.DEBUG)  # it is tried again many times a second
        self.counts: Counter[str] = Counter(failed_rebalances=0, silent_applications=0)

    def enter(self, longest_wait_s: float) -> None:
        """Become a member, and start. Waits for an older node of the same consumerid to disappear with its session.

        Raises NodeHeld when it is still there after that wait.
        """
        deadline_s = self._clock.monotonic_s() + longest_wait_s
        while True:
            try:
                self.rebalancer.enter()
                break
            except NodeHeld:
                if self._clock.monotonic_s() >= deadline_s or self._leaving.wait(_LOOK_AGAIN_S):
                    raise
        self.start()

    def start(self) -> None:
        """Start without being a member, which the first rebalance that ZooKeeper answers will make it."""
        self._start("rebalance", self.rebalance, self._wake, self._leaving, self._backoff_s)
        self._start("lease", self.renew_lease, self._has_left, self._has_left, _LOOK_AGAIN_S)
        if self._config.autocommit_enable:
            self._start("commit", self._commit, self._leaving, self._leaving, self._backoff_s)
        if self._watch is not None:
            self._start("application", self._look_at_application, self._leaving, self._leaving, self._backoff_s)

    def is_rebalancing_here(self) -> bool:
        """Say whether this is the thread that rebalances, which cannot wait for its own end."""
        rebalancing = self._started.get("rebalance")
        return rebalancing is not None and self._threads.is_this(rebalancing)

    @property
    def is_woken(self) -> bool:
        """Whether something has changed since the last rebalance began."""
        return self._wake.is_set()

    @property
    def is_settled(self) -> bool:
        """Whether the last rebalance ended well, and nothing has changed since."""
        return self._ended_well and not self.is_woken

    def begin_leave(self) -> None:
        """Begin no further attempt at a rebalance."""
        self._leaving.set()
        self._wake.set()

    def leave(self) -> None:
        """Give everything up, commit (with autocommit.enable), and leave the group; after `begin_leave`."""
        rebalancing = self._started.get("rebalance")
        if rebalancing is not None:
            rebalancing.join(_LAST_TRY_TIMEOUT_S)
            if rebalancing.is_alive():
                logger.warning("%s leaves when its session ends: its last rebalance has not ended", self._consumer_id)
                return
        deadline_s = self._clock.monotonic_s() + self._backoff_s
        while True:
            # Waits for a connection that is just being made anew: without one nothing can be committed.
            self._await_connection(deadline_s)
            try:
                self.rebalancer.leave(commit=self._config.autocommit_enable)
            except ZkUnavailable as error:
                if self._may_commit_later(deadline_s):
                    self._events.wait(_LOOK_AGAIN_S)
                    continue
                logger.warning("%s leaves without having committed everything: %s", self._consumer_id, error)
            return

    def stop(self) -> None:
        """End all threads and wait for them."""
        self._leaving.set()
        self._has_left.set()
        self._wake.set()
        deadline_s = self._clock.monotonic_s() + _THREAD_TIMEOUT_S
        for thread in self._started.values():
            thread.join(max(deadline_s - self._clock.monotonic_s(), 0))

    def commit(self) -> None:
        """Commit what was consumed of everything owned."""
        self._committer.commit(list(self.rebalancer.owned.values()))

    # The threads -------------------------------------------------------------------------------------------------

    def _start(self, name: str, turn: Callable[[], float], wake: ThreadEvent, end: ThreadEvent, retry_s: float) -> None:
        """Repeat a task until `end`; each run returns when to run next, unless `wake` brings that forward."""

        def take_turns() -> None:
            while not end.is_set():
                try:
                    wait_s = turn()
                except Exception:
                    # A bug, but a member that holds partitions and does nothing would be worse than a repeated report.
                    logger.exception("%s: an unexpected error in its %s thread", self._consumer_id, name)
                    self.counts[f"{name}_errors"] += 1
                    wait_s = retry_s
                wake.wait(wait_s)

        self._started[name] = self._threads.start(take_turns, f"{self._consumer_id} {name}")

    def rebalance(self) -> float:
        """Try to rebalance until it succeeds; then check our own nodes now and then."""
        self._wake.clear()
        self._ended_well = False
        if self._leaving.is_set():
            return 0.0
        try:
            if self.rebalancer.try_once():
                self._failed_tries = 0
                self._ended_well = True
                self.on_settled()
                return AUDIT_INTERVAL_S
            why = "another member still owns a partition"
        except (TryAgainError, ContendedOffsetError, ZkError) as error:
            why = str(error)
        except Exception as error:
            self._count_failed_try(repr(error))
            raise
        self._count_failed_try(why)
        return self._backoff_s

    def _count_failed_try(self, why: str) -> None:
        if self._clock.monotonic_s() >= self._next_failure_s:
            self._next_failure_s = self._clock.monotonic_s() + self._backoff_s
            self._failed_tries += 1
            if self._failed_tries % self._config.rebalance_retries_max == 0:
                self.counts["failed_rebalances"] += 1
                logger.warning(
                    "%s: no rebalance after %d attempts, still trying: %s", self._consumer_id, self._failed_tries, why
                )

    def renew_lease(self) -> float:
        """Keep the lease: ask ZooKeeper something as often as it requires."""
        if self.rebalancer.session is None:
            return _LOOK_AGAIN_S
        lease = self.rebalancer.session.lease
        wait_s = lease.renew_interval_s
        asked_s = self._clock.monotonic_s()
        try:
            lease.renew()
        except ZkError as error:
            self._lease_outages.failed("%s: the lease is not renewed for now: %s", self._consumer_id, error)
            wait_s /= _LEASE_RETRIES
        else:
            self._lease_outages.over()
        return max(wait_s - (self._clock.monotonic_s() - asked_s), _SHORTEST_WAIT_S)

    def _commit(self) -> float:
        try:
            self.commit()
        except KafkaError as error:
            self._commit_outages.failed("%s: offsets are not committed for now: %s", self._consumer_id, error)
        else:
            self._commit_outages.over()
        return self._config.autocommit_interval_ms / 1000

    def _look_at_application(self) -> float:
        """Take no part in the group while the application does not come back, so that others have the partitions."""
        assert self._watch is not None
        silent = self._watch.silent()
        if bool(silent) is self.rebalancer.takes_part:
            self.rebalancer.takes_part = not silent
            if silent:
                self.counts["silent_applications"] += 1
                logger.warning(
                    "%s: the application has not come back to %s for %d ms (max.poll.interval.ms): its partitions go to"
                    " others until it does (%d times so far)",
                    *(self._consumer_id, ", ".join(silent), self._config.max_poll_interval_ms),
                    self.counts["silent_applications"],
                )
            else:
                logger.info("%s: the application has come back, joining the group again", self._consumer_id)
            self._wake.set()
        return self._watch.interval_s

    def _may_commit_later(self, deadline_s: float) -> bool:
        """Say whether there is time left, and the same session may come back."""
        session = self.rebalancer.session
        is_another = session is None or self._events.session_id not in {None, session.session_id}
        return not is_another and self._clock.monotonic_s() < deadline_s

    def _await_connection(self, deadline_s: float) -> None:
        while self._events.session_id is None and (remaining_s := deadline_s - self._clock.monotonic_s()) > 0:
            self._events.wait(remaining_s)
