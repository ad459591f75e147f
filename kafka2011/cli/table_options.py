"""Options of commands that read or write the tables of a warehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kafka2011.cli.options import pairs_of

if TYPE_CHECKING:
    from collections.abc import Iterable

ICEBERG = "iceberg"

format_option = click.option(
    "--format",
    "format_name",
    type=click.Choice(["parquet", ICEBERG]),
    default="parquet",
    show_default=True,
    help="What tables are made of; iceberg needs the extra iceberg.",
)

catalog_option = click.option(
    "--catalog",
    "catalog_properties",
    multiple=True,
    metavar="KEY=VALUE",
    help="A property of the catalogue for Iceberg, as pyiceberg has it; may be given many times.  [default: SQLite in"
    " the warehouse]",
)


def catalog_of(properties: Iterable[str], format_name: str) -> dict[str, str]:
    """Return the properties of a catalogue. Raises UsageError for tables that have none, and ConfigError."""
    catalog = pairs_of(properties, "--catalog")
    if catalog and format_name != ICEBERG:
        raise click.UsageError("--catalog is for --format iceberg")
    return catalog
