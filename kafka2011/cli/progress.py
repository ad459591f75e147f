"""Progress of long operations: on a terminal only, on standard error, so that output can be piped."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def byte_progress(what: str, total_bytes: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar while the block runs; what it is given is to be called with the bytes done since the last call."""
    if not sys.stderr.isatty():
        yield lambda _done_bytes: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    from kafka2011.cli.output import console

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total_bytes)
        yield lambda done_bytes: progress.advance(task, done_bytes)


@contextlib.contextmanager
def count_progress(what: str, total: int) -> Iterator[tuple[Callable[[int], None], Callable[[str], None]]]:
    """Show a bar of `total` things while the block runs, with lines above it.

    Gives two functions: one to be called with the count done since the last call, from any thread, and one that
    prints a line to standard error, with or without a terminal.
    """
    if not sys.stderr.isatty():
        yield lambda _done: None, lambda line: click.echo(line, err=True)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from kafka2011.cli.output import console

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.advance(task, done), progress.console.print
