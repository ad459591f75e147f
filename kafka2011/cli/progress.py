"""Progress of long operations, on standard error, so that output can be piped."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


LINE_INTERVAL_S = 10.0
"""Where there is no terminal: often enough to see that it lives, and seldom enough for a log."""
_DRAW_INTERVAL_S = 0.5
_MB = 1_000_000


@contextlib.contextmanager
def told_progress(describe: Callable[[], str], interval_s: float = LINE_INTERVAL_S) -> Iterator[None]:
    """Tell how far a long operation is while the block runs, in the words of `describe`, which a thread calls.

    On a terminal it is one line that changes; elsewhere a line every ten seconds, where it differs from the last.
    """
    ended = threading.Event()

    def tell() -> None:
        told = ""
        while not ended.wait(interval_s):
            if (text := describe()) != told:
                click.echo(text, err=True)
                told = text

    def draw() -> None:
        from kafka2011.cli.output import console

        with console(stderr=True).status("", spinner="line") as status:
            while not ended.wait(_DRAW_INTERVAL_S):
                status.update(describe())

    teller = threading.Thread(target=draw if sys.stderr.isatty() else tell, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


@contextlib.contextmanager
def byte_progress(what: str, total_bytes: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar while the block runs, or lines where there is no terminal.

    What it gives is to be called with the bytes done since the last call.
    """
    if not sys.stderr.isatty():
        done_bytes = 0

        def add(more_bytes: int) -> None:
            nonlocal done_bytes
            done_bytes += more_bytes

        of = "" if total_bytes is None else f" of {total_bytes / _MB:,.1f}"
        with told_progress(lambda: f"{what}: {done_bytes / _MB:,.1f}{of} MB"):
            yield add
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
