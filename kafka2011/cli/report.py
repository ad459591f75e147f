"""`kafka2011 report`."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafka2011.cli.options import examples, zookeeper_option
from kafka2011.cli.output import json_option, show_json, show_table
from kafka2011.cli.spark_session import spark_session, told_tasks
from kafka2011.cli.stopping import stop_signals
from kafka2011.errors import KafkaError, as_failure
from kafka2011.reports.report import ReportSettings
from kafka2011.reports.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from kafka2011.reports.inputs import ReportInputs
    from kafka2011.reports.results import Derivation, Results

OPTIONAL = tuple(setting for setting in SETTINGS if setting.option)
_FOLLOW_INTERVAL_S = 600.0


def _setting_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each setting of a report that has one, by the name of the setting."""
    for setting in reversed(OPTIONAL):
        function = click.option(
            setting.option,
            setting.name,
            type=click.IntRange(1) if isinstance(setting.default, int) else None,
            multiple=isinstance(setting.default, tuple),
            default=setting.default,
            show_default=not isinstance(setting.default, tuple),
            metavar=setting.metavar,
            help=setting.meaning,
        )(function)
    return function


@click.command(
    "report",
    epilog=examples(
        "kafka2011 report --warehouse /data/warehouse --into /data/reports --own-site www.example.com",
        "kafka2011 report --warehouse /data/warehouse --into /data/reports --days 30 --again",
        "kafka2011 report --warehouse /data/warehouse --into /data/reports --audit /data/audit.json",
        "kafka2011 report --from-brokers --into /data/reports-of-live-cluster",
        "kafka2011 report --warehouse /data/warehouse --into /data/reports --follow --interval 300",
    ),
)
@click.option("--warehouse", metavar="PATH", help="The warehouse with the tables of `kafka2011 load`.")
@click.option("--from-brokers", is_flag=True, help="Read everything in a cluster's logs each time, instead of tables.")
@zookeeper_option
@click.option(
    "--into",
    "directory",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where to write results; every executor must reach it. DIR/latest is the newest.",
)
@click.option("--days", type=click.IntRange(1), default=7, show_default=True, help="How many days the page shows.")
@click.option("--keep", type=click.IntRange(1), default=3, show_default=True, help="How many results to keep.")
@click.option(
    "--audit",
    "audit_path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The output of `kafka2011 audit --json`: the page shows its verdict for each day.",
)
@click.option("--again", is_flag=True, help="Derive all days, not only those with new events.")
@click.option("--follow", is_flag=True, help="Wait for a table, and derive repeatedly until Ctrl-C or SIGTERM.")
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="With --follow, the time between the starts of two runs.  [default: 600]",
)
@json_option
@_setting_options
def command(
    warehouse: str | None,
    from_brokers: bool,
    zk_connect: str,
    directory: Path,
    days: int,
    keep: int,
    audit_path: Path | None,
    again: bool,
    follow: bool,
    interval_s: float | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Derive reports from loaded tables or from brokers, as Parquet files and one HTML page.

    The reports are page views, unique visitors, sessions, referrers, searches and their click-through, server errors,
    and scrapers. Days with new events are derived again; other days are kept. All results of a run appear at once:
    Parquet files and report.html. Without new events nothing changes.
    """
    from kafka2011.audit.days import read_days
    from kafka2011.reports.derive import derive
    from kafka2011.reports.inputs import with_lookups
    from kafka2011.reports.page import write_page
    from kafka2011.reports.results import Results

    if interval_s is not None and not follow:
        raise click.UsageError("--interval needs --follow")
    _check_source(warehouse, from_brokers=from_brokers)
    settings = ReportSettings({setting: chosen[setting.name] for setting in OPTIONAL})
    with Results(directory) as results, spark_session("report", is_short=True) as spark:

        def run() -> None:
            audited = None if audit_path is None else read_days(audit_path)
            inputs = _of_brokers(spark, zk_connect) if warehouse is None else _of_tables(spark, warehouse)

            def finish(made: Path, derivation: Derivation) -> None:
                write_page(made, derivation, settings, days, inputs.quarantined, audited)

            with told_tasks(spark, "deriving"):
                work = partial(derive, spark, inputs, results, settings, finish=finish, again=again, keep=keep)
                derived = with_lookups(inputs, work)
            newest = results.newest()
            if derived is None and audited is not None and newest is not None:
                finish(results.of(newest.number), newest)  # there may be another verdict on the same events
            _show(results, derived, as_json=as_json)

        if follow:
            _repeat(run, interval_s or _FOLLOW_INTERVAL_S)
        else:
            run()


def _check_source(warehouse: str | None, *, from_brokers: bool) -> None:
    """Raise UsageError, and WarehouseError, for what would fail once Spark has started."""
    from kafka2011.warehouse.table.locations import check_reachable

    if (warehouse is None) != from_brokers:
        raise click.UsageError("give either --warehouse or --from-brokers")
    if warehouse is not None:
        check_reachable(warehouse)


def _repeat(run: Callable[[], None], interval_s: float) -> None:
    """Run again and again until a signal; what fails is said, and tried again: tables may be late, and brokers away."""
    with stop_signals() as stop:  # after the start of Spark, which takes SIGINT for itself
        while not stop.is_set():
            began_s = time.monotonic()
            try:
                run()
            except Exception as error:  # noqa: BLE001 (said, and tried again)
                click.echo(f"Waiting: {as_failure(error)}", err=True)
            stop.wait(max(0.0, interval_s - (time.monotonic() - began_s)))


def _of_tables(spark: SparkSession, warehouse: str) -> ReportInputs:
    from kafka2011.reports.catalog import TOPICS
    from kafka2011.reports.table_inputs import TableInputs, view_of
    from kafka2011.warehouse.errors import WarehouseError
    from kafka2011.warehouse.table.topic_table import TopicTable

    inputs = TableInputs(spark, (view_of(TopicTable(warehouse, topic)) for topic in TOPICS))
    if not inputs.through:
        raise WarehouseError(f"{warehouse} has no table of {', '.join(TOPICS)}: load one first")
    return inputs


def _of_brokers(spark: SparkSession, zk_connect: str) -> ReportInputs:
    from kafka2011.reports.broker_inputs import BrokerInputs
    from kafka2011.reports.catalog import TOPICS

    inputs = BrokerInputs(spark, zk_connect)
    if not inputs.through:
        raise KafkaError(f"the cluster at {zk_connect} has none of the topics {', '.join(TOPICS)}")
    return inputs


def _show(results: Results, derived: Derivation | None, *, as_json: bool) -> None:
    from kafka2011.reports.page import FILE

    newest = derived or results.newest()
    assert newest is not None
    page = results.of(newest.number) / FILE
    if as_json:
        document: dict[str, Any] = {"derivation": newest.number, "new": derived is not None, "page": str(page)}
        document["through"] = dict(newest.through)
        document["days"] = {
            name: [day.isoformat() for day in days] for name, days in (derived.days.items() if derived else ())
        }
        show_json(document)
    elif derived is None:
        click.echo(f"No new events since derivation {newest.number}: {page}")
    else:
        rows = [
            (name, len(days), days[0] if days else None, days[-1] if days else None)
            for name, days in derived.days.items()
        ]
        show_table(("report", "days_derived", "first", "last"), rows, as_json=False)
        click.echo(f"Derivation {newest.number}: {page}")
