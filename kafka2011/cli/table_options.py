"""Options of commands that read or write the tables of a warehouse."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from collections.abc import Callable

MB = 1024 * 1024

warehouse_option = click.option(
    "--warehouse", required=True, metavar="PATH", help="Where the tables are: a directory, hdfs://..., or s3://...."
)

target_file_option = click.option(
    "--target-file-mb",
    type=click.IntRange(1, 10_000),
    default=128,
    show_default=True,
    metavar="MB",
    help="The approximate size of a file, given enough data.",
)

audit_option = click.option(
    "--audit", "tier", default="", metavar="TIER", help="Count new rows as this tier of `kafka2011 audit`."
)

master_option = click.option(
    "--master",
    metavar="URL",
    help="Spark's master, or none[N]: no Spark, N processes here.  [default: as spark-submit says, else local[*]]",
)


class Tables(NamedTuple):
    """Which tables: those of these topics, or whose names match the pattern, or all."""

    warehouse: str
    topics: tuple[str, ...]
    pattern: str

    def check_named(self) -> None:
        """Raise UsageError unless there are either topics or a pattern."""
        if bool(self.topics) == bool(self.pattern):
            raise click.UsageError("give either --topic or --whitelist")


def tables_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say which tables, and pass them on as one argument, `tables`."""

    @functools.wraps(function)
    def with_tables(warehouse: str, topics: tuple[str, ...], pattern: str, **others: Any) -> None:
        function(Tables(warehouse, topics, pattern), **others)

    for option in (
        click.option("--whitelist", "pattern", default="", metavar="REGEX", help="Topics whose whole name matches."),
        click.option("--topic", "topics", multiple=True, help="A topic; may be given many times."),
        warehouse_option,
    ):
        with_tables = option(with_tables)
    return with_tables
