"""`kafka2011 monitor`."""

from __future__ import annotations

import logging
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafka2011.admin.groups import describe_groups
from kafka2011.admin.snapshot.cluster_reader import ClusterReader
from kafka2011.admin.snapshot.lag_history import LagHistory
from kafka2011.cli.audit import audit_now, tiers_option
from kafka2011.cli.monitor_metrics import MONITOR_METRICS, PollCounts, audit_samples, group_samples, poll_samples
from kafka2011.cli.options import examples, zookeeper_option
from kafka2011.cli.pipelines import pipeline_option, read_pipeline
from kafka2011.cli.session import open_session
from kafka2011.cli.shown_metrics import metrics_address_option, show_metrics
from kafka2011.cli.stopping import stop_signals
from kafka2011.consumer.known import nobody
from kafka2011.errors import KafkaError
from kafka2011.outages import Outages
from zk.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.metrics.metric import Samples
    from zk.client import ZkClient

logger = logging.getLogger(__name__)

_PATIENCE = 3
"""After how many intervals without a look that succeeded it says that it is not well."""


@click.command(
    "monitor",
    epilog=examples(
        "kafka2011 monitor",
        "kafka2011 monitor --tiers producer,mirror,warehouse --state audit.json",
        "kafka2011 monitor --pipeline pipeline.toml --state audit.json",
    ),
)
@zookeeper_option
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    default=9670,
    show_default=True,
    help="The port of metrics and health; 0 picks a free one.",
)
@metrics_address_option
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=1),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="The time between two samples of the groups.",
)
@click.option(
    "--max-partitions",
    type=click.IntRange(min=0),
    default=2000,
    show_default=True,
    help="With more partitions of groups than this, metrics by partition are left out.",
)
@tiers_option("Also run an audit of these tiers, in order.")
@pipeline_option("Also run an audit of the pipeline in this file, in place of --tiers.")
@click.option(
    "--state",
    "state_path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The file with the audit's position, so that it does not read all reports again. Needs --tiers or --pipeline.",
)
@click.option(
    "--audit-interval",
    "audit_interval_s",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="The time between two audits.",
)
def command(
    zk_connect: str,
    metrics_port: int,
    metrics_host: str,
    interval_s: float,
    max_partitions: int,
    tiers: tuple[str, ...] | None,
    pipeline_path: Path | None,
    state_path: Path | None,
    audit_interval_s: float,
) -> None:
    """Serve Prometheus the lag of all groups and the verdict of an audit, until Ctrl-C.

    It serves the lag in bytes and approximate seconds, and owners and members of every group, including groups of 0.7
    clients. With --tiers or --pipeline it also serves gaps, unknowns and the watermark of an audit. See
    docs/reference/metrics.md.
    """
    audit = _audit_of(tiers, pipeline_path, state_path, zk_connect)
    with open_session(zk_connect) as client, stop_signals() as stop:
        polls = [_Poll(_GroupMetrics(client, max_partitions), "groups", interval_s)]
        if audit is not None:
            polls.append(_Poll(partial(audit, client), "audit", audit_interval_s))

        def take() -> Samples:
            samples = dict(poll_samples({poll.at: poll.counts for poll in polls}))
            for poll in polls:
                samples |= poll.samples
            return samples

        def obstacle() -> str | None:
            return next((poll.obstacle for poll in polls if poll.obstacle is not None), None)

        threads = [threading.Thread(target=poll.run, args=(stop,), name=poll.at) for poll in polls]
        with show_metrics(metrics_host, metrics_port, MONITOR_METRICS, take, obstacle):
            for thread in threads:
                thread.start()
            try:
                stop.wait()
            finally:
                stop.set()
                for thread in threads:
                    thread.join()


def _audit_of(
    tiers: tuple[str, ...] | None, pipeline_path: Path | None, state_path: Path | None, zk_connect: str
) -> Callable[[ZkClient], Samples] | None:
    """Return what audits once, if anything is to be audited. Raises UsageError, PipelineError, MissingExtraError."""
    if tiers is not None and pipeline_path is not None:
        raise click.UsageError("--tiers and --pipeline exclude one another: the file names the tiers")
    if tiers is None and pipeline_path is None:
        if state_path is not None:
            raise click.UsageError("--state needs --tiers or --pipeline")
        return None
    import kafka2011.audit.run  # noqa: F401  # a missing extra is told now, and not by the thread

    pipeline = read_pipeline(pipeline_path)
    return lambda client: audit_samples(audit_now(client, tiers, state_path, pipeline, zk_connect).verdict)


class _Poll:
    """Polls something again and again, and keeps what it read last; after a failure nothing is shown of it."""

    def __init__(self, take: Callable[[], Samples], at: str, interval_s: float) -> None:
        self._take = take
        self.at = at
        self._interval_s = interval_s
        self._outages = Outages(logger)
        self._began_s = time.monotonic()
        self._ended_s: float | None = None
        self.samples: Samples = {}
        self.counts = PollCounts(0, 0, None)

    def run(self, stop: threading.Event) -> None:
        """Poll until the event."""
        while not stop.is_set():
            began_s = time.monotonic()
            self._poll()
            stop.wait(max(0.0, self._interval_s - (time.monotonic() - began_s)))

    def _poll(self) -> None:
        polls, failed, at_s = self.counts
        try:
            self.samples = self._take()
        except KafkaError as error:
            self.samples = {}
            self.counts = PollCounts(polls + 1, failed + 1, at_s)
            self._outages.failed("cannot look at the %s for now: %s", self.at, error)
        except Exception:
            self.samples = {}
            self.counts = PollCounts(polls + 1, failed + 1, at_s)
            logger.exception("an unexpected error while checking the %s", self.at)
        else:
            self.counts = PollCounts(polls + 1, failed, time.time())
            self._ended_s = time.monotonic()
            self._outages.over()

    @property
    def obstacle(self) -> str | None:
        """Why it is not well: no poll has succeeded for a while."""
        silent_s = time.monotonic() - (self._began_s if self._ended_s is None else self._ended_s)
        if silent_s <= _PATIENCE * self._interval_s:
            return None
        return f"no look at the {self.at} has succeeded for {silent_s:.0f} s"


class _GroupMetrics:
    """Reads all groups of a cluster, of ZooKeeper only what has changed, and remembers how they moved."""

    def __init__(self, client: ZkClient, max_partitions: int) -> None:
        self._reader = ClusterReader(client, nobody)
        self._max_partitions = max_partitions
        self._history = LagHistory()

    def __call__(self) -> Samples:
        """Return the metrics. Raises KafkaError."""
        snapshot = describe_groups(self._reader)
        now_s = SYSTEM_CLOCK.monotonic_s()
        partitions = {
            name: self._history.paced(name, snapshot.group_partitions(name), now_s) for name in snapshot.groups
        }
        self._history.forget_others({(name, row.where) for name, rows in partitions.items() for row in rows})
        members = {name: len(group.members) for name, group in snapshot.groups.items()}
        return group_samples(members, partitions, self._max_partitions)
