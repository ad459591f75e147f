"""What `kafka2011 load` does to tables without loading anything: compaction, and putting a rebuilt one in its place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

import click

from kafka2011.cli.output import counted
from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.warehouse.formats import Format

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
    ):
        function = option(function)
    return function


def compact_tables(
    warehouse: str, table_format: Format, topics: tuple[str, ...], pattern: str, target_bytes: int, grace_s: float
) -> None:
    """Compact, and print one line of JSON."""
    from kafka2011.warehouse.upkeep import compact_tables

    done = compact_tables(warehouse, table_format, topics, pattern, target_bytes=target_bytes, grace_s=grace_s)
    click.echo(json.dumps(done.to_json(), ensure_ascii=False))
    if done.failed:
        first = next(iter(done.failed.values()))
        raise KafkaError(f"{counted(len(done.failed), 'table')} not compacted: {', '.join(done.failed)}: {first}")


def swap_tables(warehouse: str, table_format: Format, topics: tuple[str, ...], name: str) -> None:
    """Swap, and print one line of JSON."""
    from kafka2011.warehouse.formats import Format
    from kafka2011.warehouse.rebuild import swap

    if len(topics) != 1:
        raise click.UsageError("--swap needs one --topic")
    if table_format is not Format.PARQUET:
        raise click.UsageError("--swap is for tables of Parquet files")
    behind = swap(warehouse, topics[0], name)
    behind_bytes = {where.znode_name: size_bytes for where, size_bytes in sorted(behind.items())}
    click.echo(json.dumps({"topic": topics[0], "swapped": name, "behind_bytes": behind_bytes}, ensure_ascii=False))
