"""`python -m paper_benchmarks.limits`: measures limits one after the other, and prints a table for each."""

from __future__ import annotations

import importlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paper_benchmarks.limits.limit import Run
from paper_benchmarks.measuring.usage import raise_file_limit
from paper_benchmarks.pages.tables import significant, table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paper_benchmarks.limits.limit import Limit, Row

LIMITS = ("connections", "partitions", "members", "departure", "births", "starts", "behind", "endurance", "tls")
"""Each is a module here, which has it in `LIMIT`."""


def shown(rows: Sequence[Row]) -> str:
    """Return rows as a table."""
    return table(rows, [(name, _cell(name)) for name in rows[0]])


def _cell(name: str) -> Callable[[Row], object]:
    def made(row: Row) -> object:
        value = row[name]
        return significant(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value

    return made


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, type=click.Choice(LIMITS))
@click.option("--size", type=click.Choice(["small", "full"]), default="small", show_default=True, help="How much.")
@click.option("--minutes", default=1.0, show_default=True, help="How long `endurance` lasts.")
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    default=Path(tempfile.gettempdir()),
    help="Where brokers keep their data meanwhile.",
)
def main(names: Sequence[str], size: str, minutes: float, data: Path) -> None:
    """Measure limits: all of them, unless some are named."""
    raise_file_limit()
    run = Run(size == "full", data, minutes, lambda text: click.echo(text, err=True))
    for name in names or LIMITS:
        limit: Limit = importlib.import_module(f"paper_benchmarks.limits.{name}").LIMIT
        run.say(f"== {name}")
        rows = []
        for row in limit.measure(run):
            run.say(str(dict(row)))
            rows.append(row)
        click.echo(f"## {limit.title}\n\n{limit.how}\n\n{shown(rows)}\n")


if __name__ == "__main__":
    sys.exit(main())
