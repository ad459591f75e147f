"""`kafka2011 demo`."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from kafka2011.cli.output import json_option, show_json, show_table
from kafka2011.cli.progress import count_progress
from kafka2011.demo.account import FLOW_AFTER_S
from kafka2011.demo.activity import activity_lines
from kafka2011.demo.run import BROKER_SETTINGS, LATENCY_SETTINGS, MEMBER_SETTINGS, run_demo
from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from kafka2011.demo.run import DemoResult

DEFAULT_LINES = 10_000
MAX_LINES = 1_000_000
MIN_SECONDS_WITH_FAULTS = 25
"""So that messages can still be seen to flow ten seconds after the last takeover."""


@click.command("demo")
@click.option("--file", type=click.File("rb"), help="The log to replay. Default: made-up activity events.")
@click.option(
    "--seconds",
    type=click.FloatRange(1, 60),
    default=30,
    show_default=True,
    help=f"Over how long to spread the replay; at least {MIN_SECONDS_WITH_FAULTS} with faults.",
)
@click.option(
    "--faults",
    type=click.Choice(["all", "none"]),
    default="all",
    show_default=True,
    envvar="FAULTS",
    help="Whether members and brokers come and go meanwhile; also by the environment variable FAULTS.",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to leave logs and receipts. Default: a new temporary directory.",
)
@json_option
def command(file: BinaryIO | None, seconds: float, faults: str, directory: Path | None, as_json: bool) -> None:
    """Replay a log through a cluster with faults, and account for every line.

    Three brokers and two consumer groups run as processes of their own. While the lines are sent, confirmed and over
    some time, one group grows from one member to three, loses one by kill -9 and gets it back, and a broker is killed
    and started again. Fails if a line is missing or out of order, or if messages do not flow on after a fault;
    without faults, also if a line is repeated.
    """
    if faults == "all" and seconds < MIN_SECONDS_WITH_FAULTS:
        raise click.UsageError(
            f"--seconds {seconds:g} leaves no time for faults: give {MIN_SECONDS_WITH_FAULTS} or more"
        )
    lines = _lines(file)
    if directory is None:
        directory = Path(tempfile.mkdtemp(prefix="kafka2011-demo-"))
    with count_progress("sent", len(lines)) as (on_sent, say):
        result = run_demo(lines, directory, seconds=seconds, has_faults=faults == "all", say=say, on_sent=on_sent)
    if as_json:
        show_json(_document(result))
    else:
        _show(result)
    if not result.is_good:
        raise KafkaError(f"the demo failed: see the account, and the logs in {result.directory}")


def _lines(file: BinaryIO | None) -> list[bytes]:
    if file is None:
        return list(activity_lines(DEFAULT_LINES))
    lines = [line.rstrip(b"\r\n") for line in file]
    if not lines or len(lines) > MAX_LINES:
        raise click.UsageError(f"--file {file.name}: it has {len(lines)} lines; the demo takes 1 to {MAX_LINES}")
    return lines


def _document(result: DemoResult) -> dict[str, object]:
    document = dataclasses.asdict(result)
    document["directory"] = str(result.directory)
    document["is_good"] = result.is_good
    return document


def _show(result: DemoResult) -> None:
    if result.takeovers:
        click.echo("\nFaults, and how the groups got over them")
        show_table(
            ("fault", "group", "read_again_after_s", f"flows_{FLOW_AFTER_S:g}_s_later"),
            [
                (
                    f"{takeover.fault.what} {takeover.fault.member or f'broker {takeover.fault.broker_id}'}",
                    takeover.group,
                    None if takeover.seconds is None else f"{takeover.seconds:.1f}",
                    "yes" if takeover.flows_after else "NO",
                )
                for takeover in result.takeovers
            ],
            as_json=False,
        )
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
    click.echo("\nFrom sending to delivery")
    show_table(
        ("group", "median_ms", "p99_ms", "max_ms"),
        [(name, *latencies.values()) for name, latencies in result.latencies_ms.items()],
        as_json=False,
    )
    settings = {**BROKER_SETTINGS, **MEMBER_SETTINGS}
    click.echo("  with " + ", ".join(f"{key} {settings[key]}" for key in LATENCY_SETTINGS))
    throughput = result.throughput
    if throughput is not None:
        click.echo("\nUnpaced second run")
        show_table(
            ("", "messages", "messages_per_s", "MB_per_s"),
            [
                (what, throughput.messages, int(throughput.messages / taken_s), int(throughput.megabytes / taken_s))
                for what, taken_s in (("produced", throughput.produce_s), ("fetched", throughput.fetch_s))
            ],
            as_json=False,
        )
    click.echo(f"\nLog files, receipts and outputs: {result.directory}")
