"""`kafka2011 audit`."""

from __future__ import annotations

import os
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import click

from kafka2011.cli.options import examples, parse_time_ms, zookeeper_option
from kafka2011.cli.output import counted, json_option, printable, show_json, show_table
from kafka2011.cli.session import open_session
from kafka2011.config import SimpleConsumerConfig
from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafka2011.pipeline.audit.compare import Ledger, TierCount, WindowAccount

_COLUMNS = ("tier", "total", "distinct", "missing", "repeated", "never_counted")


def _read_time(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return parse_time_ms(text)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no ISO 8601 time, nor @ and ms") from error


def _read_tiers(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    tiers = tuple(each.strip() for each in text.split(","))
    if not all(tiers) or len(set(tiers)) < len(tiers):
        raise click.BadParameter(f"{text!r} is not a list of different tiers: producer,live,mirror")
    return tiers


@click.command(
    "audit",
    epilog=examples(
        "kafka2011 audit",
        "kafka2011 audit --tiers producer,live,mirror --from 2011-06-12T10:00Z --strict",
        "kafka2011 audit --topic views --all --plot views.png",
    ),
)
@zookeeper_option
@click.option("--topic", "topics", multiple=True, help="Only this topic; may be given many times.")
@click.option(
    "--tiers",
    callback=_read_tiers,
    metavar="TIER,...",
    help="The tiers to compare, in order; each is expected to count every topic. Default: those that count a topic at"
    " all, producers first, and the others in the order in which they first report.",
)
@click.option(
    "--from",
    "from_ms",
    callback=_read_time,
    metavar="TIME",
    help="Only windows from this time on; ISO 8601, local without a zone, or @ and ms since 1970.",
)
@click.option(
    "--grace",
    "grace_s",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long after its end a window is open for counts that are still on their way.",
)
@click.option("--all", "is_all", is_flag=True, help="Show every window, not only those with a gap.")
@click.option(
    "--strict",
    is_flag=True,
    help="Fail on repeated messages, never counted ones and unreadable reports, too.",
)
@click.option(
    "--plot",
    "plot_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw the tiers' counts into this file: .png, .svg or .pdf.",
)
@json_option
def command(
    zk_connect: str,
    topics: tuple[str, ...],
    tiers: tuple[str, ...] | None,
    from_ms: int | None,
    grace_s: float,
    is_all: bool,
    strict: bool,
    plot_path: Path | None,
    as_json: bool,
) -> None:
    """Compare what the tiers have counted, window by window, and fail when messages are missing in one.

    Each tier is compared with the one before it: missing is what only that one has counted, never counted what only
    this one has. A window with missing messages is a gap. Windows that are still open are not judged.
    """
    from kafka2011.pipeline.audit.compare import Ledger

    now_ms = time.time() * 1000
    with tempfile.TemporaryFile() as file:
        ledger = Ledger(cast("BinaryIO", file), int(grace_s * 1000))
        unreadable = _read_reports(ledger, zk_connect, topics, from_ms)
        accounts = list(ledger.accounts(now_ms, tiers))
        open_windows = ledger.open_windows(now_ms)
    bad = [account for account in accounts if account.has_gap or (strict and not account.is_exact)]
    if plot_path is not None:
        from kafka2011.pipeline.audit.plot import plot

        plot(accounts, plot_path)
    totals = list(_totals(accounts))
    shown = list(_rows(accounts if is_all else bad))
    if as_json:
        totals_json = [dict(zip(("topic", "windows", *_COLUMNS), row, strict=True)) for row in totals]
        windows_json = [dict(zip(("topic", "window", *_COLUMNS), row, strict=True)) for row in shown]
        show_json(
            {
                "totals": totals_json,
                "windows": windows_json,
                "open_windows": open_windows,
                "unreadable_reports": unreadable,
                "gaps": sum(account.has_gap for account in accounts),
            }
        )
    else:
        show_table(("topic", "windows", *_COLUMNS), totals, as_json=False)
        if shown:
            click.echo()
            show_table(("topic", "window", *_COLUMNS), shown, as_json=False)
        not_read = f", {counted(unreadable, 'report')} not readable" if unreadable else ""
        click.echo(f"\n{counted(len(accounts), 'window')} compared, {open_windows} open{not_read}")
    if bad:
        raise KafkaError(_verdict(bad))
    if unreadable and strict:
        raise KafkaError(f"{counted(unreadable, 'report')} could not be read")


def _read_reports(ledger: Ledger, zk_connect: str, topics: tuple[str, ...], from_ms: int | None) -> int:
    """Read all reports of windows from a time on; return how many could not be read."""
    from kafka2011.pipeline.audit.reading import AuditReader

    reader = AuditReader(SimpleConsumerConfig.from_sources(environ=os.environ))
    with open_session(zk_connect) as client:
        for report in reader.read(client, topics, from_ms):
            ledger.add(report)
    return reader.unreadable


def _totals(accounts: Iterable[WindowAccount]) -> Iterator[tuple[object, ...]]:
    """Yield the sum of all windows for each topic and tier."""
    sums: dict[tuple[str, str], list[int]] = {}
    for account in accounts:
        for count in account.tiers:
            found = sums.setdefault((account.topic, count.tier), [0] * len(_COLUMNS))
            for index, number in enumerate((1, *_numbers(count))):
                found[index] += number
    for (topic, tier), (windows, *numbers) in sums.items():
        yield (topic, windows, tier, *numbers)


def _rows(accounts: Iterable[WindowAccount]) -> Iterator[tuple[object, ...]]:
    for account in accounts:
        for count in account.tiers:
            yield (account.topic, _time(account.start_ms), count.tier, *_numbers(count))


def _numbers(count: TierCount) -> tuple[int, ...]:
    return count.total, count.distinct, count.missing, count.repeated, count.never_counted


def _time(start_ms: int) -> str:
    try:
        return datetime.fromtimestamp(start_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError):
        return f"@{start_ms}"


def _verdict(bad: list[WindowAccount]) -> str:
    """Name the first window that is not right, with its tier, and say how many there are."""
    first = bad[0]
    whys = []
    for count in first.tiers:
        found = (
            (count.missing, "missing"),
            (count.repeated, "repeated"),
            (count.never_counted, "never counted by the tier before"),
        )
        whys += [f"tier {count.tier}: {number} {word}" for number, word in found if number]
    where = printable(f"{first.topic} at {_time(first.start_ms)}, {', '.join(whys)}")
    more = f"; {counted(len(bad) - 1, 'more window')} like it" if len(bad) > 1 else ""
    return f"{where}{more}"
