"""`kafka2011 tables`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from kafka2011.cli.command_group import CommandGroup
from kafka2011.cli.options import examples, zookeeper_option
from kafka2011.cli.output import json_option, raise_failed, show_json, show_json_line, show_table
from kafka2011.cli.stopping import stop_signals
from kafka2011.cli.table_options import (
    MB,
    audit_option,
    tables_options,
    target_file_option,
    warehouse_option,
)

if TYPE_CHECKING:
    from kafka2011.cli.table_options import Tables
    from kafka2011.errors import KafkaError
    from kafka2011.warehouse.table.upkeep import Tended


@click.group("tables", cls=CommandGroup)
def command() -> None:
    """Maintain tables of a warehouse: status, compaction, cleaning, swaps, rollbacks, quarantine."""


@command.command(
    "status",
    epilog=examples(
        "kafka2011 tables status --warehouse /data/warehouse",
        "kafka2011 tables status --warehouse /data/warehouse --topic page_views --json",
    ),
)
@tables_options
@json_option
def status(tables: Tables, as_json: bool) -> None:
    """Show how far tables are loaded: all of them, unless you name topics.

    It reads only the tables. A table that cannot be read is named at the end, and the exit status is 1.
    """
    from kafka2011.warehouse.table.status import status_of

    failed: dict[str, KafkaError] = {}
    statuses = status_of(*tables, failed)
    if as_json:
        show_json([table_status.to_json() for table_status in statuses])
        raise_failed(failed, "table", "read")
        return
    columns = ("topic", "loads", "rows", "quarantined", "size_bytes", "last_load", "complete_through")
    rows: list[tuple[Any, ...]] = [
        (
            table_status.topic,
            table_status.loads,
            table_status.rows,
            table_status.quarantined,
            table_status.size_bytes,
            _time(table_status.written_at_ms),
            _time(table_status.complete_through_ms),
        )
        for table_status in statuses
    ]
    show_table(columns, rows, as_json=False)
    raise_failed(failed, "table", "read")


def _time(time_ms: int | None) -> str | None:
    if time_ms is None:
        return None
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


@command.command(
    "compact",
    epilog=examples(
        "kafka2011 tables compact --warehouse /data/warehouse",
        "kafka2011 tables compact --warehouse /data/warehouse --whitelist 'page_.*'",
    ),
)
@tables_options
@target_file_option
def compact(tables: Tables, target_file_mb: int) -> None:
    """Rewrite small files into a few large ones, in all tables unless you name topics.

    Prints one line of JSON.
    """
    from kafka2011.warehouse.table.upkeep import compact_tables

    _show(compact_tables(*tables, target_bytes=target_file_mb * MB), "compacted")


@command.command(
    "clean",
    epilog=examples(
        "kafka2011 tables clean --warehouse /data/warehouse",
        "kafka2011 tables clean --warehouse /data/warehouse --topic page_views --older-than 2",
    ),
)
@tables_options
@click.option(
    "--older-than",
    "older_than_h",
    type=click.FloatRange(min=0),
    default=24.0,
    show_default=True,
    metavar="HOURS",
    help="Keep files that were replaced or written within this time; files that no commit names, for at least"
    " one hour.",
)
@click.option(
    "--force-at-rest",
    "at_rest",
    is_flag=True,
    help="Keep files that no commit names no longer than --older-than. No load or compaction of these tables may run.",
)
def clean(tables: Tables, older_than_h: float, at_rest: bool) -> None:
    """Remove files of killed loads, and files that no commit needs any more.

    Committed rows stay. A running load whose files are removed fails, and loads again. Cleans all tables unless you
    name topics. Prints one line of JSON.
    """
    from kafka2011.warehouse.table.upkeep import clean_tables

    _show(clean_tables(*tables, older_than_s=3600 * older_than_h, at_rest=at_rest), "cleaned")


@command.command(
    "swap", epilog=examples("kafka2011 tables swap --warehouse /data/warehouse page_views page_views-again")
)
@warehouse_option
@click.argument("topic")
@click.argument("name")
def swap(warehouse: str, topic: str, name: str) -> None:
    """Replace the rows and offsets of a topic's table by those of the rebuilt table NAME.

    Loads continue from these offsets. The rebuilt table stays. Prints one line of JSON.
    """
    from kafka2011.warehouse.loading.row_counts import count_rows
    from kafka2011.warehouse.table import swapping

    commit, behind = swapping.swap(warehouse, topic, name, count_rows)
    behind_bytes = {where.znode_name: size_bytes for where, size_bytes in sorted(behind.items())}
    show_json_line(
        {"topic": topic, "swapped": name, "number": commit.number, "rows": commit.rows, "behind_bytes": behind_bytes}
    )


@command.command(
    "settle", epilog=examples("kafka2011 tables settle --warehouse /data/warehouse --topic page_views skip")
)
@warehouse_option
@click.option("--topic", "topics", multiple=True, required=True, help="A topic; may be given many times.")
@click.argument("choice", type=click.Choice(["again", "skip"]))
def settle(warehouse: str, topics: tuple[str, ...], choice: str) -> None:
    """Decide how loads continue after a table was restored: load the removed rows again, or skip them.

    Loads nothing yet. Prints one line of JSON.
    """
    from kafka2011.warehouse.table.upkeep import settle_rollbacks

    _show(settle_rollbacks(warehouse, topics, again=choice == "again"), "settled")


def _show(done: Tended, what: str) -> None:
    show_json_line(done.to_json())
    raise_failed(done.failed, "table", what)


@command.command(
    "redrive",
    epilog=examples("kafka2011 tables redrive --warehouse /data/warehouse --topic page_views --audit warehouse"),
)
@zookeeper_option
@tables_options
@target_file_option
@audit_option
def redrive(tables: Tables, zk_connect: str, target_file_mb: int, tier: str) -> None:
    """Decode the messages in quarantine again, after a fix.

    Messages that can be decoded become rows. Prints one line of JSON.
    """
    tables.check_named()
    from kafka2011.warehouse.loading.load_settings import LoadSettings
    from kafka2011.warehouse.loading.loader import Loader
    from kafka2011.warehouse.loading.local_engine import LocalEngine

    warehouse, topics, pattern = tables
    settings = LoadSettings(zk_connect=zk_connect, target_file_bytes=target_file_mb * MB, tier=tier)
    with (
        stop_signals(),  # lets it end
        LocalEngine() as engine,
        Loader(engine, warehouse, settings, topics=topics, pattern=pattern) as loader,
    ):
        done = loader.redrive()
    show_json_line(done.to_json())
    raise_failed(done.failed, "topic", "decoded again")
