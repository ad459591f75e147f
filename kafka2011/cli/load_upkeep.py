"""What `kafka2011 load` does to tables without loading anything: compaction, cleaning, swaps, rollbacks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click

from kafka2011.cli.output import counted
from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.warehouse.formats import Format
    from kafka2011.warehouse.upkeep import Compacted, Tended

F = TypeVar("F", bound="Callable[..., object]")


def upkeep_options(function: F) -> F:
    """Add the options."""
    for option in (
        click.option(
            "--grace",
            "grace_s",
            type=click.FloatRange(min=0),
            default=60.0,
            show_default=True,
            metavar="SECONDS",
            help="With --compact, how long what was rewritten stays for those who read it.",
        ),
        click.option("--compact", is_flag=True, help="Rewrite small loads of past hours into few files; load nothing."),
        click.option(
            "--swap",
            "swapped",
            metavar="NAME",
            help="Put the rebuilt table NAME in the place of the topic's, which takes that name; load nothing.",
        ),
        click.option(
            "--older-than",
            "older_than_h",
            type=click.FloatRange(min=0),
            default=24.0,
            show_default=True,
            metavar="HOURS",
            help="With --clean, how long nothing was written there, and how old snapshots are that expire; longer than"
            " any load takes.",
        ),
        click.option(
            "--clean",
            is_flag=True,
            help="Remove what loads that died have left, and files that no commit needs any more; load nothing.",
        ),
        click.option("--expire", is_flag=True, help="With --clean, forget old snapshots of tables in Iceberg first."),
        click.option(
            "--after-rollback",
            type=click.Choice(["again", "skip"]),
            help="After a rollback in Iceberg: let what was taken out be loaded again, or left out; load nothing yet.",
        ),
    ):
        function = option(function)
    return function


class Tables(NamedTuple):
    """Which tables: those of these topics, or whose names match the pattern, or all."""

    warehouse: str
    table_format: Format
    topics: tuple[str, ...]
    pattern: str
    catalog: dict[str, str]

    @property
    def is_iceberg(self) -> bool:
        """Whether they are in Iceberg."""
        return self.table_format.value == "iceberg"


def compact_tables(tables: Tables, target_bytes: int, grace_s: float) -> None:
    """Compact, and print one line of JSON."""
    from kafka2011.warehouse.upkeep import compact_tables

    which = tables[:4]
    _print(compact_tables(*which, target_bytes=target_bytes, grace_s=grace_s, catalog=tables.catalog), "compacted")


def clean_tables(tables: Tables, older_than_h: float, *, expire: bool) -> None:
    """Clean, and print one line of JSON."""
    from kafka2011.warehouse.upkeep import clean_tables

    if expire and not tables.is_iceberg:
        raise click.UsageError("--expire is for --format iceberg")
    which, older_than_s = tables[:4], 3600 * older_than_h
    _print(clean_tables(*which, older_than_s=older_than_s, expire=expire, catalog=tables.catalog), "cleaned")


def settle_rollbacks(tables: Tables, word: str) -> None:
    """Settle how loading goes on, and print one line of JSON."""
    from kafka2011.warehouse.upkeep import settle_rollbacks

    if not tables.is_iceberg:
        raise click.UsageError("--after-rollback is for --format iceberg")
    if not tables.topics:
        raise click.UsageError("--after-rollback needs --topic")
    _print(settle_rollbacks(tables.warehouse, tables.topics, again=word == "again", catalog=tables.catalog), "settled")


def _print(done: Compacted | Tended, what: str) -> None:
    click.echo(json.dumps(done.to_json(), ensure_ascii=False))
    if done.failed:
        first = next(iter(done.failed.values()))
        raise KafkaError(f"{counted(len(done.failed), 'table')} not {what}: {', '.join(done.failed)}: {first}")


def swap_tables(tables: Tables, name: str) -> None:
    """Swap, and print one line of JSON."""
    from kafka2011.warehouse.rebuild import swap

    warehouse, topics = tables.warehouse, tables.topics
    if len(topics) != 1:
        raise click.UsageError("--swap needs one --topic")
    if tables.is_iceberg:
        raise click.UsageError("--swap is for tables of Parquet files")
    behind = swap(warehouse, topics[0], name)
    behind_bytes = {where.znode_name: size_bytes for where, size_bytes in sorted(behind.items())}
    click.echo(json.dumps({"topic": topics[0], "swapped": name, "behind_bytes": behind_bytes}, ensure_ascii=False))
