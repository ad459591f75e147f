"""`kafka2011 load`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kafka2011.cli.load_rebuild import begin_offsets, dedup_and_rebuild_options
from kafka2011.cli.load_upkeep import (
    Tables,
    clean_tables,
    compact_tables,
    settle_rollbacks,
    swap_tables,
    upkeep_options,
)
from kafka2011.cli.options import examples, pairs_of, zookeeper_option
from kafka2011.cli.output import counted, json_option, show_table
from kafka2011.cli.spark_session import spark_session
from kafka2011.cli.stopping import stop_signals
from kafka2011.cli.table_options import catalog_of, catalog_option, format_option
from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from kafka2011.warehouse.loader import Loader, Round

MB = 1024 * 1024


@click.command(
    "load",
    epilog=examples(
        "kafka2011 load --warehouse /data/warehouse --topic page_views --topic clicks",
        "kafka2011 load --warehouse /data/warehouse --whitelist '.*' --audit warehouse --follow",
        "kafka2011 load --warehouse /data/warehouse --status",
        "kafka2011 load --warehouse /data/warehouse --compact",
        "kafka2011 load --warehouse /data/lake --format iceberg --topic page_views --follow",
    ),
)
@zookeeper_option
@click.option("--warehouse", required=True, metavar="PATH", help="Where the tables are: a directory, or hdfs://....")
@click.option("--topic", "topics", multiple=True, help="A topic to load; may be given many times.")
@click.option("--whitelist", "pattern", default="", metavar="REGEX", help="Load all topics whose whole name matches.")
@format_option
@click.option(
    "--partition-by",
    type=click.Choice(["day", "hour"]),
    default="day",
    show_default=True,
    help="What has a directory of its own in a load, by the time of events.",
)
@click.option(
    "--target-file-mb",
    type=click.IntRange(1, 10_000),
    default=128,
    show_default=True,
    metavar="MB",
    help="About how large files become, where there is so much.",
)
@click.option(
    "--fail-on-data-loss/--no-fail-on-data-loss",
    default=True,
    show_default=True,
    help="Whether to stop when messages were removed before they were loaded, or write down how many bytes and go on.",
)
@click.option(
    "--restart-replaced",
    is_flag=True,
    help="Load partitions whose log ends before their stored offset (a replaced disk) again from their beginning.",
)
@click.option("--group", default="", help="Commit what was loaded to this consumer group, for monitoring only.")
@click.option(
    "--audit", "tier", default="", metavar="TIER", help="Count the rows of each load as this tier of `kafka2011 audit`."
)
@click.option(
    "--follow",
    is_flag=True,
    help="Load again and again, until Ctrl-C or SIGTERM, which let the load of a topic that has begun end first.",
)
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="With --follow, time from the start of one load to that of the next.  [default: 600; iceberg: 60]",
)
@click.option("--redrive", is_flag=True, help="Decode the messages in quarantine again, after a fix; load nothing new.")
@dedup_and_rebuild_options
@upkeep_options
@catalog_option
@click.option("--status", is_flag=True, help="Show how far each topic is loaded, and load nothing.")
@click.option("--master", metavar="URL", help="Spark's master.  [default: as spark-submit says, else local[*]]")
@click.option(
    "--option",
    "source_options",
    multiple=True,
    metavar="KEY=VALUE",
    help="One more option of the Spark source, such as fetch.size; may be given many times.",
)
@json_option
def command(
    zk_connect: str,
    warehouse: str,
    topics: tuple[str, ...],
    pattern: str,
    format_name: str,
    partition_by: str,
    target_file_mb: int,
    fail_on_data_loss: bool,
    restart_replaced: bool,
    group: str,
    tier: str,
    follow: bool,
    interval_s: float | None,
    redrive: bool,
    status: bool,
    compact: bool,
    grace_s: float,
    swapped: str | None,
    older_than_h: float,
    clean: bool,
    expire: bool,
    after_rollback: str | None,
    catalog_properties: tuple[str, ...],
    rebuild: bool,
    begin: str,
    into: str | None,
    dedup: bool,
    dedup_window_s: float,
    master: str | None,
    source_options: tuple[str, ...],
    as_json: bool,
) -> None:
    """Load topics into tables of a warehouse, each message once, from where the last load ended up to now.

    Each topic is committed on its own, rows and offsets in one step; whatever dies before that, the next load begins
    where this one did. Prints one line of JSON for each load of all topics. --json is for --status.
    """
    from kafka2011.warehouse.formats import Format

    table_format = Format(format_name)
    catalog = catalog_of(catalog_properties, format_name)
    tables = Tables(warehouse, table_format, topics, pattern, catalog)
    asked: list[tuple[object, Callable[[], None]]] = [
        (status, partial(_show_status, tables, as_json=as_json)),
        (compact, partial(compact_tables, tables, target_file_mb * MB, grace_s)),
        (clean, partial(clean_tables, tables, older_than_h, expire=expire)),
        (swapped, partial(swap_tables, tables, swapped or "")),
        (after_rollback, partial(settle_rollbacks, tables, after_rollback or "")),
    ]
    for is_asked, work in asked:
        if is_asked:
            work()
            return
    if expire:
        raise click.UsageError("--expire needs --clean")
    if bool(topics) == bool(pattern):
        raise click.UsageError("give --topic or --whitelist, one of them")
    if interval_s is not None and not follow:
        raise click.UsageError("--interval needs --follow")
    if rebuild != bool(into) or (rebuild and len(topics) != 1):
        raise click.UsageError("--rebuild, --into and one --topic go together")
    from kafka2011.warehouse.loader import Loader, check_together
    from kafka2011.warehouse.settings import LoadSettings
    from kafka2011.warehouse.write import PartitionBy

    settings = LoadSettings(
        zk_connect=zk_connect,
        partition_by=PartitionBy(partition_by),
        fail_on_data_loss=fail_on_data_loss,
        restart_replaced=restart_replaced,
        target_file_bytes=target_file_mb * MB,
        group=group,
        tier=tier,
        dedup_window_s=dedup_window_s if dedup else None,
        begin_at=begin_offsets(topics[0], begin) if rebuild else {},
        source=pairs_of(source_options, "--option"),
    )
    check_together(settings, topics, table_format, into)  # a wrong call should not wait for Spark
    with (
        spark_session("load", master) as spark,
        stop_signals() as stop,  # after the start of Spark, which takes SIGINT for itself
        Loader(
            spark,
            warehouse,
            settings,
            topics=topics,
            pattern=pattern,
            table_format=table_format,
            catalog=catalog,
            into=into,
        ) as loader,
    ):
        done = _run(loader, stop, (interval_s or table_format.follow_interval_s) if follow else None, redrive)
    if done.failed:
        first = next(iter(done.failed.values()))
        raise KafkaError(f"{counted(len(done.failed), 'topic')} not loaded: {', '.join(done.failed)}: {first}")


def _run(loader: Loader, stop: threading.Event, interval_s: float | None, redrive: bool) -> Round:
    """Load once, or until the event; return how the last load went."""
    import time

    while True:
        began_s = time.monotonic()
        done = loader.redrive() if redrive else loader.run(stop.is_set)
        click.echo(json.dumps(done.to_json(), ensure_ascii=False))
        if interval_s is None or stop.wait(max(0.0, interval_s - (time.monotonic() - began_s))):
            return done


def _show_status(tables: Tables, *, as_json: bool) -> None:
    from kafka2011.warehouse.status import status_of

    found = status_of(*tables)
    if as_json:
        click.echo(json.dumps([each.to_json() for each in found], indent=2, ensure_ascii=False))
        return
    columns = ("topic", "loads", "rows", "quarantined", "size_bytes", "last_load", "complete_through")
    rows: list[tuple[Any, ...]] = [
        (
            each.topic,
            each.commits,
            each.rows,
            each.quarantined,
            each.size_bytes,
            _time(each.written_at_ms),
            _time(each.complete_through_ms),
        )
        for each in found
    ]
    show_table(columns, rows, as_json=False)


def _time(time_ms: int | None) -> str | None:
    if time_ms is None:
        return None
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
