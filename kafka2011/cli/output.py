"""Tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from kafka2011.errors import KafkaError
from kafka2011.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.console import Console

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")

_WIDE = 10_000  # a pipe has no width, and a terminal breaks long lines itself, but not what is copied from it


def console(*, stderr: bool = False) -> Console:
    """Return a console that prints text as it is, in lines of any length; without colours when piped."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stderr and stream.isatty() else _WIDE  # what is drawn again and again must fit
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, as_json: bool, noun: str = "") -> None:
    """Print rows under column names, or as a JSON list of objects. None is '-' or null.

    Where there are none, it says "no topics" and the like: of `noun`, or of what the first column has.
    """
    if as_json:
        show_json_list(dict(zip(columns, row, strict=True)) for row in rows)
        return
    rows = list(rows)
    if not rows:
        click.echo(f"no {noun or columns[0]}s")
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    cells = [["-" if value is None else printable(str(value)) for value in row] for row in rows]
    numeric = [all(_is_number(row[index]) for row in cells) for index in range(len(columns))]
    for name, is_number in zip(columns, numeric, strict=True):
        table.add_column(name.replace("_", " "), justify="right" if is_number else "left", overflow="fold")
    for row in cells:
        table.add_row(*row)
    # Rich pads the last column; nothing that is piped needs that.
    with console() as out, out.capture() as captured:
        out.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _is_number(text: str) -> bool:
    return text == "-" or text.replace(".", "", 1).lstrip("-").isdigit()


def show_json(document: Any) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def show_json_line(document: Any) -> None:
    """Print one JSON document on a line of its own."""
    click.echo(json.dumps(document, ensure_ascii=False))


def raise_failed(failed: Mapping[str, KafkaError], noun: str, what: str) -> None:
    """Raise KafkaError if what should have been done failed for some names: it has all of them, and the first error."""
    for first in failed.values():
        raise KafkaError(f"{counted(len(failed), noun)} not {what}: {', '.join(failed)}: {first}")


def show_json_list(items: Iterable[Any]) -> None:
    """Print one JSON list, item by item, so that it may be longer than memory."""
    # Not click.echo, which flushes each time.
    sys.stdout.writelines(_json_list(items))


def _json_list(items: Iterable[Any]) -> Iterator[str]:
    separator = "[\n"
    for item in items:
        yield f"{separator}  {json.dumps(item, ensure_ascii=False)}"
        separator = ",\n"
    yield "[]\n" if separator == "[\n" else "\n]\n"


def confirm(question: str, what: str) -> None:
    """Raise KafkaError, which says that nothing was done, unless the answer is yes; no answer is a no."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)
        agreed = False
    if not agreed:
        raise KafkaError(f"nothing was {what} (with --yes it does not ask)")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
