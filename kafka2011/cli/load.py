"""`kafka2011 load`."""

from __future__ import annotations

import json
import logging
import threading
from typing import TYPE_CHECKING

import click

from kafka2011.cli.options import examples, pairs_of, zookeeper_option
from kafka2011.cli.output import raise_failed, show_json_line
from kafka2011.cli.pipelines import pipeline_option, read_pipeline
from kafka2011.cli.progress import told_progress
from kafka2011.cli.sections import SectionedCommand, config_option
from kafka2011.cli.shown_metrics import metrics_address_option, metrics_port_option, show_metrics
from kafka2011.cli.spark_session import load_engine
from kafka2011.cli.stopping import stop_signals
from kafka2011.cli.table_options import (
    MB,
    audit_option,
    master_option,
    tables_options,
    target_file_option,
)
from kafka2011.errors import missing_extra
from kafka2011.outages import Outages
from zk.errors import ZkError

if TYPE_CHECKING:
    from pathlib import Path

    from kafka2011.cli.table_options import Tables
    from kafka2011.metrics.loads import LoadProgress
    from kafka2011.warehouse.loading.engine import Engine
    from kafka2011.warehouse.loading.loader import Loader, Round
    from zk.cluster import TopicPartition

logger = logging.getLogger(__name__)

_FOLLOW_INTERVAL_S = 60.0
_turn = threading.Lock()
"""Sections of a file have one Spark, and load one after the other, as the topics of one do."""


@click.command(
    "load",
    cls=SectionedCommand,
    epilog=examples(
        "kafka2011 load --warehouse /data/warehouse --topic page_views --topic clicks",
        "kafka2011 load --warehouse /data/warehouse --whitelist '.*' --audit warehouse --follow",
        "kafka2011 load --warehouse /data/warehouse --topic page_views --follow --interval 10",
        "kafka2011 load --warehouse /data/warehouse --topic page_views --rebuild --into page_views-again",
        "kafka2011 load --config /etc/kafka2011/load.toml",
    ),
)
@zookeeper_option
@tables_options
@target_file_option
@click.option(
    "--fail-on-data-loss/--no-fail-on-data-loss",
    default=True,
    show_default=True,
    help="Whether to stop if messages were deleted before they were loaded, or to record the lost bytes and continue.",
)
@click.option(
    "--restart-replaced",
    is_flag=True,
    help="Load a partition from its beginning if its log was replaced (another disk, a recreated topic).",
)
@click.option("--group", default="", help="Commit loaded offsets to this consumer group, for monitoring only.")
@audit_option
@pipeline_option("Take each topic's watermark from this pipeline; a part that does not report holds it back.")
@click.option(
    "--audit-replaces",
    "replaced_table",
    default="",
    metavar="ID",
    help="The id of the table that has reported as this tier until now and is replaced by this one.",
)
@click.option(
    "--follow",
    is_flag=True,
    help="Keep loading until Ctrl-C or SIGTERM; a topic's load that has begun ends first.",
)
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="With --follow, the time between the starts of two loads.  [default: 60]",
)
@click.option(
    "--upkeep",
    "upkeep_percent",
    type=click.FloatRange(0, 100),
    default=10.0,
    show_default=True,
    metavar="PERCENT",
    help="With --follow, the largest part of the time for compaction and cleaning; 0 turns both off.",
)
@click.option("--rebuild", is_flag=True, help="Load one topic again, from its log into another table.")
@click.option(
    "--from",
    "begin",
    metavar="PLACE",
    default="earliest",
    show_default=True,
    help='With --rebuild, where the new table begins: earliest, or offsets such as {"0-1": 123}.',
)
@click.option("--into", metavar="NAME", help="With --rebuild, the name of the new table.")
@master_option
@metrics_port_option
@metrics_address_option
@click.option(
    "--option",
    "source_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="One more option of the Spark source, such as fetch.size; may be given many times.",
)
@config_option
def command(
    tables: Tables,
    zk_connect: str,
    target_file_mb: int,
    fail_on_data_loss: bool,
    restart_replaced: bool,
    group: str,
    tier: str,
    pipeline_path: Path | None,
    replaced_table: str,
    follow: bool,
    interval_s: float | None,
    upkeep_percent: float,
    rebuild: bool,
    begin: str,
    into: str | None,
    master: str | None,
    metrics_port: int | None,
    metrics_host: str,
    source_options: tuple[str, ...],
) -> None:
    """Load new messages of topics into tables of a warehouse, each exactly once.

    A load starts where the last one ended, and commits rows and offsets of each topic in one step. After a killed load,
    the next one starts at the same place. Prints one line of JSON for each load. See also `kafka2011 tables`.
    """
    warehouse, topics, pattern = tables
    _check_call(tables, has_interval=interval_s is not None, follow=follow, rebuild=rebuild, into=into)
    try:
        from kafka2011.metrics.loads import LOAD_METRICS, LoadProgress
        from kafka2011.warehouse.loading.load_settings import LoadSettings
        from kafka2011.warehouse.loading.loader import Loader, check_together
        from kafka2011.warehouse.table.locations import check_reachable
        from kafka2011.warehouse.table.tending import Tending
    except ModuleNotFoundError as error:
        raise missing_extra(error, "load" if (master or "").startswith("none") else "load,spark") from error
    check_reachable(warehouse)  # who has to correct the environment should not wait for Spark and ZooKeeper
    settings = LoadSettings(
        zk_connect=zk_connect,
        fail_on_data_loss=fail_on_data_loss,
        restart_replaced=restart_replaced,
        target_file_bytes=target_file_mb * MB,
        group=group,
        tier=tier,
        pipeline=read_pipeline(pipeline_path),
        replaced_table=replaced_table,
        begin_at=_begin_offsets(topics[0], begin) if rebuild else {},
        source=pairs_of(source_options, "--option"),
    )
    tending = Tending(upkeep_percent / 100, settings.target_file_bytes) if follow and upkeep_percent else None
    check_together(settings, topics, into)  # a wrong call should not wait for Spark
    progress = LoadProgress()
    with (
        show_metrics(metrics_host, metrics_port, LOAD_METRICS, progress.samples, lambda: progress.obstacle),
        load_engine(master) as engine,
        stop_signals() as stop,  # after the start of Spark, which takes SIGINT for itself
        Loader(engine, warehouse, settings, topics=topics, pattern=pattern, into=into, tending=tending) as loader,
    ):
        done = run_loads(engine, loader, stop, progress, (interval_s or _FOLLOW_INTERVAL_S) if follow else None)
    raise_failed(done.failed, "topic", "loaded")


def _check_call(tables: Tables, *, has_interval: bool, follow: bool, rebuild: bool, into: str | None) -> None:
    tables.check_named()
    if has_interval and not follow:
        raise click.UsageError("--interval needs --follow")
    if rebuild != bool(into) or (rebuild and len(tables.topics) != 1):
        raise click.UsageError("--rebuild, --into and one --topic go together")


def _begin_offsets(topic: str, begin: str) -> dict[TopicPartition, int]:
    """Return the offsets that `--from` names; earliest names none."""
    from zk.cluster import TopicPartition
    from zk.errors import MalformedNode

    if begin == "earliest":
        return {}
    try:
        return {TopicPartition.from_znode_name(topic, name): int(offset) for name, offset in json.loads(begin).items()}
    except (ValueError, AttributeError, TypeError, MalformedNode) as error:
        raise click.UsageError(f'--from {begin}: give earliest, or offsets such as {{"0-1": 123}}') from error


def run_loads(
    engine: Engine, loader: Loader, stop: threading.Event, progress: LoadProgress, interval_s: float | None
) -> Round:
    """Load once, or until the event; return how the last load went."""
    import time

    outages = Outages(logger)
    done: Round | None = None
    while True:
        began_s, began_at_s = time.monotonic(), time.time()
        try:
            with _turn, told_progress(lambda: f"loading: {engine.progress()}"):
                done = loader.run(stop.is_set)
        except ZkError as error:
            if interval_s is None or done is None:  # at the start, the address may be wrong
                raise
            outages.failed("the topics could not be listed, the next load is tried in %g s: %s", interval_s, error)
        else:
            outages.over()
            progress.note(done, began_at_s, time.monotonic() - began_s)
            show_json_line(done.to_json())
        if interval_s is None or stop.wait(max(0.0, interval_s - (time.monotonic() - began_s))):
            return done
