"""`kafka2011 demo`."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafka2011.cli.options import examples
from kafka2011.cli.output import counted, json_option, show_json, show_table
from kafka2011.cli.progress import count_progress
from kafka2011.collect.text_file import open_text
from kafka2011.demo.live_cluster import run_demo
from kafka2011.demo.records import numbered
from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable
    from io import BufferedReader

    from kafka2011.demo.live_cluster import DemoResult
    from kafka2011.demo.tiers import Tiers, TiersResult

DEFAULT_LINES = 10_000
MAX_LINES = 1_000_000
MAX_FILE_BYTES = 100 * 1024 * 1024
MAX_LINE_BYTES = 1_000_000 - len(numbered(MAX_LINES, b""))
"""max.message.size of brokers and members, without what goes before a line."""


@click.command("demo", epilog=examples("kafka2011 demo", "kafka2011 demo --file /var/log/dpkg.log --directory demo"))
@click.option("--file", type=click.File("rb"), help="The log to replay, compressed or not. Default: synthetic lines.")
@click.option(
    "--seconds",
    type=click.FloatRange(1, 60),
    default=30,
    show_default=True,
    help="The duration of the replay.",
)
@click.option(
    "--faults",
    type=click.Choice(["all", "none"]),
    default="all",
    show_default=True,
    envvar="FAULTS",
    help="Whether to kill a broker and a leader during the replay; also set by the environment variable FAULTS.",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to keep logs. Default: a temporary directory, kept only if the demo fails.",
)
@click.option(
    "--tiers",
    type=click.Choice(["none", "quick", "all"]),
    default="none",
    show_default=True,
    help="Also run other tiers: quick adds a mirror into an offline cluster; all adds loads into a warehouse and"
    " reports. quick needs the extra pipeline, all also the extra demo.",
)
@click.option(
    "--report",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("kafka2011-report"),
    show_default=True,
    metavar="DIR",
    help="Where to write the reports and their page, with --tiers all.",
)
@json_option
def command(
    file: BufferedReader | None,
    seconds: float,
    faults: str,
    directory: Path | None,
    tiers: str,
    report: Path,
    as_json: bool,
) -> None:
    """Replay a log through a cluster with faults, and account for every line.

    Three brokers run as separate processes. While confirmed lines are sent and a consumer group reads them, a broker is
    killed and restarted. Then a broker with two replicas loses its leader and the leader's disk while a group reads on.
    The command fails if a line is missing or out of order; without faults, also if a line is repeated.

    With --tiers the lines also go through the collector as page views; without --file, synthetic events are sent. The
    command then also fails if the audit finds an event missing in a tier, or if an event cannot be decoded.
    """
    if tiers != "none":
        _check_tiers(file, has_spark=tiers == "all")
    lines = read_lines(file)
    is_temporary = directory is None
    directory = directory or Path(tempfile.mkdtemp(prefix="kafka2011-demo-"))
    try:
        with count_progress("sent", len(lines)) as (on_sent, say):
            result = run_demo(
                lines,
                directory,
                seconds=seconds,
                has_faults=faults == "all",
                say=say,
                on_sent=on_sent,
                tiers=_tiers(tiers, file, seconds, directory, report, say),
            )
        failures = result.failures()
        is_temporary = is_temporary and not failures
    except Exception:
        is_temporary = False  # its logs say why
        raise
    finally:
        if is_temporary:
            shutil.rmtree(directory, ignore_errors=True)
    if as_json:
        show_json(_document(result, kept=not is_temporary))
    else:
        _show(result)
        if result.tiers is not None:
            _show_tiers(result.tiers)
        _show_end(result, kept=not is_temporary)
    if failures:
        raise KafkaError(f"the demo failed: {'; '.join(failures)} (logs are in {directory})")


def _check_tiers(file: BufferedReader | None, *, has_spark: bool) -> None:
    """Raise UsageError or MissingExtraError for what would fail later."""
    if file is not None and not Path(file.name).is_file():
        raise click.UsageError(f"--file {file.name}: --tiers has the collector read it, so it must be a regular file")
    from kafka2011.errors import missing_extra

    try:
        import kafka2011.demo.tiers

        if has_spark:
            import kafka2011.demo.arrivals  # noqa: F401
    except ImportError as error:
        raise missing_extra(error) from error


def _tiers(
    wanted: str, file: BufferedReader | None, seconds: float, directory: Path, report: Path, say: Callable[[str], None]
) -> Tiers | None:
    if wanted == "none":
        return None
    from kafka2011.demo.frontends import Frontends
    from kafka2011.demo.tiers import Tiers

    frontends = Frontends(None if file is None else Path(file.name).absolute(), seconds)
    return Tiers(frontends, directory, say, has_spark=wanted == "all", report=report)


def read_lines(file: BufferedReader | None) -> list[bytes]:
    """Return the lines to replay. Raises UsageError, naming the line, where they are more than the demo takes."""
    if file is None:
        return [b"member-%d viewed /jobs/%d" % (n * 7919 % 2000, n % 100) for n in range(DEFAULT_LINES)]
    try:
        with open_text(file, file.name) as text:
            lines = _lines_of(text, file.name)
    except KafkaError as error:
        raise click.UsageError(f"--file: {error}") from error
    if not lines:
        raise click.UsageError(f"--file {file.name}: it has no lines")
    return lines


def _lines_of(text: BufferedReader, path: str) -> list[bytes]:
    lines: list[bytes] = []
    left_bytes = MAX_FILE_BYTES
    while line := text.readline(MAX_LINE_BYTES + len(b"\r\n")):
        line = line.rstrip(b"\r\n")
        lines.append(line)
        left_bytes -= len(line)
        if len(line) > MAX_LINE_BYTES or len(lines) > MAX_LINES or left_bytes < 0:
            raise click.UsageError(
                f"--file {path}: line {len(lines)} is too much: the demo takes {MAX_LINES} lines of"
                f" {MAX_LINE_BYTES} bytes each, and {MAX_FILE_BYTES} bytes together"
            )
    return lines


def _document(result: DemoResult, *, kept: bool) -> dict[str, Any]:
    document: dict[str, Any] = dataclasses.asdict(result)
    document["directory"] = str(result.directory) if kept else None
    document["is_good"] = result.is_good
    if result.tiers is not None:
        document["tiers"]["report"] = None if result.tiers.report is None else str(result.tiers.report)
    return document


def _show(result: DemoResult) -> None:
    killed = result.killed_broker
    if killed is not None:
        click.echo(f"\nBroker {killed.broker_id} was killed, and registered again after {killed.away_s:.1f} s")
    lost = result.lost_leader
    if lost is not None:
        click.echo("\nA broker of two replicas, whose leader was lost with its disk")
        columns = ("led", "leads_now", "took_over_after_s", "confirmed_and_missing", "same_bytes_on_both_again")
        missing = len(lost.account.missing)
        row = (lost.led, lost.leads, f"{lost.took_over_s:.2f}", missing, "yes" if lost.is_same else "NO")
        show_table(columns, [row], as_json=False)
    click.echo("\nEvery line accounted for")
    show_table(
        ("in", "sent", "received", "missing", "repeated", "out_of_order"),
        [
            (account.of, account.sent, account.received, len(account.missing), account.repeated, account.out_of_order)
            for account in result.accounts
        ],
        as_json=False,
    )
    for account in result.accounts:
        for cause, count in account.repeats.items():
            click.echo(f"  {account.of}: {count} repeated: {cause}")
        if account.missing:
            click.echo(f"  {account.of}: missing lines {', '.join(map(str, account.missing[:20]))}")


def _show_tiers(result: TiersResult) -> None:
    click.echo("\nEvery tier, and how long after the first event it had them all")
    rows = [(rate.tier, rate.events, f"{rate.seconds:.1f}", int(rate.events_per_s)) for rate in result.rates]
    show_table(("tier", "events", "seconds", "events_per_s"), rows, as_json=False)
    if result.latency is not None:
        latency = result.latency
        click.echo("\nFrom published_at to visible in the warehouse")
        show_table(
            ("events", "mean_s", "median_s", "p95_s", "quarantined"),
            [(latency.events, *(f"{seconds:.1f}" for seconds in latency[1:]), result.quarantined)],
            as_json=False,
        )
    click.echo("\nThe audit")
    columns = ("topic", "windows", "tier", "total", "distinct", "missing", "repeated", "never_counted")
    show_table(columns, [[row[name] for name in columns] for row in result.totals], as_json=False)
    if result.report is not None:
        click.echo(f"\nReports: {result.report}")


def _show_end(result: DemoResult, *, kept: bool) -> None:
    has_report = result.tiers is not None and result.tiers.report is not None
    if kept:
        size_bytes = sum(path.stat().st_size for path in result.directory.rglob("*") if path.is_file())
        click.echo(f"\nLog files and outputs: {size_bytes / 1e6:.0f} MB in {result.directory}")
    else:
        left = "The reports are all that is left" if has_report else "Nothing is left"
        click.echo(f"\n{left} on the disk; --directory keeps log files too")
    if result.is_good:
        over = ", over a killed broker and a lost leader" if result.has_faults else ""
        click.echo(f"OK: {counted(result.lines, 'line')} arrived in order, in the logs and in the group{over}")
