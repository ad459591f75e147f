"""`kafka2011 mirror`."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from kafka2011.cli.options import (
    consumer_property_option,
    examples,
    producer_property_option,
    read_zk_connect,
    refuse_properties,
    skip_refused_option,
)
from kafka2011.cli.output import counted
from kafka2011.cli.sections import SectionedCommand, config_option
from kafka2011.cli.shown_metrics import metrics_address_option, metrics_port_option, show_metrics
from kafka2011.cli.stopping import stop_signals
from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

    from kafka2011.audit.counter import AuditCounter
    from kafka2011.consumer.topic_filter import TopicFilter
    from kafka2011.mirror.mirror import SourceReport
    from kafka2011.mirror.schema_copy import SchemaCopy

logger = logging.getLogger(__name__)

_LOOK_S = 0.2
_BEGIN_AGAIN_S = 1.0
MB = 1_000_000


@click.command(
    "mirror",
    cls=SectionedCommand,
    epilog=examples(
        "kafka2011 mirror --from live:2181 --to offline:2181 --whitelist 'views|clicks' --group mirror",
        "kafka2011 mirror --from east:2181 --from west:2181 --to offline:2181 --blacklist 'test.*' --group mirror",
        "kafka2011 mirror --config /etc/kafka2011/mirror.toml",
    ),
)
@click.option(
    "--from",
    "sources",
    multiple=True,
    required=True,
    type=read_zk_connect,
    metavar="HOST:PORT",
    help="ZooKeeper's servers of a cluster to copy from; may be given many times.",
)
@click.option(
    "--to",
    "target",
    required=True,
    type=read_zk_connect,
    metavar="HOST:PORT",
    help="ZooKeeper's servers of the cluster to copy into.",
)
@click.option("--whitelist", metavar="REGEX", help="Copy all topics whose whole name matches, including later ones.")
@click.option("--blacklist", metavar="REGEX", help="Copy all topics except those whose whole name matches.")
@click.option(
    "--group", required=True, help="The consumer group in every source. Mirrors of one group share the partitions."
)
@click.option(
    "--num-streams",
    "streams",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Threads that read each source.",
)
@skip_refused_option
@click.option(
    "--window-mb",
    type=click.IntRange(1, 100_000),
    default=64,
    show_default=True,
    help="The most that may be sent and not confirmed, in MB. One broker may use as much of it as it leaves free.",
)
@click.option(
    "--report-interval",
    "interval_s",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="The time between two lines of rates and lag.",
)
@click.option(
    "--audit",
    "tier",
    metavar="TIER",
    help="Count the events that the target has confirmed as this tier of `kafka2011 audit`; reports go to the target.",
)
@click.option(
    "--schemas",
    "has_schemas",
    is_flag=True,
    help="Also register the topics' schemas at the target, before their first events.",
)
@metrics_port_option
@metrics_address_option
@consumer_property_option
@producer_property_option
@config_option
def command(
    sources: tuple[str, ...],
    target: str,
    whitelist: str | None,
    blacklist: str | None,
    group: str,
    streams: int,
    skip_refused: bool,
    window_mb: int,
    interval_s: float,
    tier: str | None,
    has_schemas: bool,
    metrics_port: int | None,
    metrics_host: str,
    consumer_properties: tuple[str, ...],
    producer_properties: tuple[str, ...],
) -> None:
    """Copy topics of one or more clusters into another, continuously, until Ctrl-C.

    Compressed sets pass unopened. Offsets are committed every autocommit.interval.ms, once the target has confirmed.
    Nothing is lost if a process is killed, but sets that were sent and not committed arrive twice. The lag is what the
    group has not committed.
    """
    if (whitelist is None) == (blacklist is None):
        raise click.UsageError("give one of --whitelist and --blacklist")
    from kafka2011.consumer.topic_filter import Blacklist, Whitelist
    from kafka2011.metrics.tiers import MIRROR_METRICS, mirror_samples
    from kafka2011.mirror import source as of_consumers
    from kafka2011.mirror import target as of_producer
    from kafka2011.mirror.mirror import Mirror

    refuse_properties(consumer_properties, {"zk.connect": "--from", "groupid": "--group"}, fixed=of_consumers.CHOSEN)
    refuse_properties(producer_properties, {"zk.connect": "--to"}, fixed=of_producer.CHOSEN)
    topic_filter = Whitelist(whitelist) if whitelist is not None else Blacklist(blacklist or "")
    with stop_signals() as stop, ExitStack() as stack:
        counters = {source: stack.enter_context(_counter(tier, target, source)) for source in sources} if tier else {}
        copy = stack.enter_context(_schema_copy(target, stop)) if has_schemas else None

        def on_topic(source: str, topic: str) -> None:
            if source in counters:
                _begin_copying_reports(counters[source], source, topic_filter, stop)
            if copy is not None:
                copy.on_topic(source, topic)

        mirror = stack.enter_context(
            Mirror(
                [of_consumers.source_config(source, group, consumer_properties, os.environ) for source in sources],
                of_producer.target_config(target, producer_properties, os.environ),
                topic_filter,
                streams=streams,
                skip_refused=skip_refused,
                window_bytes=window_mb * MB,
                counters=counters,
                on_topic=on_topic,
            )
        )
        stack.enter_context(
            show_metrics(
                metrics_host,
                metrics_port,
                MIRROR_METRICS,
                lambda: mirror_samples(mirror.counts(), target),
                lambda: mirror.obstacle,
            )
        )
        waited_s = 0.0
        while not stop.is_set():
            mirror.wait(_LOOK_S)
            waited_s += _LOOK_S
            if waited_s >= interval_s:
                waited_s = 0.0
                for report in mirror.report():
                    _show(_line(report))
        mirror.close()
        for source in sources:
            _show(f"{source}: copied {copied(mirror.counts()[source])}")
    mirror.check_all_copied()


def _counter(tier: str, target: str, source: str) -> AuditCounter:
    """Return a counter of what comes from one source: partitions of others have the same names."""
    from kafka2011.audit.ends_lookup import ClusterEndsLookup
    from kafka2011.audit.publishing import open_counter

    return open_counter(tier, target, cluster=source, ends_lookup=ClusterEndsLookup(source))


def _begin_copying_reports(
    counter: AuditCounter, source: str, topic_filter: TopicFilter, stop: threading.Event
) -> None:
    """Say that reports of a source are copied from now on, before anything of it is; tried until that is confirmed."""
    from kafka2011.audit.ends_lookup import cluster_id
    from kafka2011.audit.report import AUDIT_TOPIC

    while topic_filter.allows(AUDIT_TOPIC) and not counter.has_begun(AUDIT_TOPIC) and not stop.is_set():
        try:
            counter.begin_reading(AUDIT_TOPIC, cluster_id(source))
        except KafkaError as error:
            logger.warning("nothing of %s is copied until its audit can begin: %s", source, error)
            stop.wait(_BEGIN_AGAIN_S)


def _schema_copy(target: str, stop: threading.Event) -> SchemaCopy:
    from kafka2011.mirror.schema_copy import SchemaCopy

    return SchemaCopy(target, stop)


def _show(line: str) -> None:
    click.echo(line)
    logger.info("%s", line)


def copied(counts: Mapping[str, int]) -> str:
    """Return what a forwarder has done, in words."""
    text = f"{counts['messages']:,} messages, {counts['bytes'] / MB:,.1f} MB"
    if counts["skipped"]:
        text += f", left out {counts['skipped']:,}, {counts['skipped_bytes']:,} bytes"
    if counts["repeated_bytes"]:
        text += f", {counts['repeated_bytes']:,} bytes may come twice"
    return text


def _line(report: SourceReport) -> str:
    lag = "unknown" if report.lag_bytes is None else f"{report.lag_bytes:,} bytes"
    if report.unknown_partitions:
        lag += f", without {counted(report.unknown_partitions, 'partition')} of which it is not known"
    rates = f"{report.messages_per_s:,.0f} messages/s, {report.bytes_per_s / MB:,.1f} MB/s"
    return f"{report.zk_connect}: {copied(report.counts)}; {rates}; lag {lag}"
