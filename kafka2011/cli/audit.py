"""`kafka2011 audit`."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from kafka2011.cli.app import EXIT_CANNOT_TELL
from kafka2011.cli.options import examples, read_time_ms, zookeeper_option
from kafka2011.cli.output import counted, json_option, show_json, show_table
from kafka2011.cli.pipelines import audited_zookeeper, pipeline_option, read_pipeline, write_pipeline
from kafka2011.cli.session import open_session
from kafka2011.config import SimpleConsumerConfig
from kafka2011.errors import KafkaError
from kafka2011.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafka2011.audit.compare import TierCount, WindowAccount
    from kafka2011.audit.pipeline import Pipeline
    from kafka2011.audit.run import Outcome, Scope
    from kafka2011.audit.scan import Unknown
    from zk.client import ZkClient

_Command = TypeVar("_Command", bound="Callable[..., object]")

_COLUMNS = ("tier", "total", "distinct", "missing", "missing_since_first", "repeated", "never_counted")


def _read_tiers(text: str) -> tuple[str, ...]:
    tiers = tuple(tier.strip() for tier in text.split(","))
    if not all(tiers) or len(set(tiers)) < len(tiers):
        raise click.BadParameter(f"{text!r} is not a list of different tiers: producer,live,mirror")
    return tiers


def tiers_option(meaning: str) -> Callable[[_Command], _Command]:
    """Return the option that names tiers in their order."""
    return click.option("--tiers", type=_read_tiers, metavar="TIER,...", help=meaning)


@click.command(
    "audit",
    epilog=examples(
        "kafka2011 audit",
        "kafka2011 audit --write-pipeline pipeline.toml",
        "kafka2011 audit --pipeline pipeline.toml --state audit.json",
        "kafka2011 audit --tiers producer,live,mirror --from 2011-06-12T10:00Z --strict",
        "kafka2011 audit --topic views --all --plot views.png",
        "kafka2011 audit --accept web1-4711-0c0ffee0",
    ),
)
@zookeeper_option
@click.option("--topic", "topics", multiple=True, help="Only this topic; may be given many times.")
@tiers_option(
    "The tiers to compare, in order; each is expected to count every topic. Default: the tiers that count a"
    " topic, producers first, then the others in the order of their first reports."
)
@pipeline_option(
    "Compare what this file declares, in place of --tiers. A declared part that does not report makes the"
    " verdict unknown. Without --zookeeper, use the cluster that the last tier reads."
)
@click.option(
    "--from",
    "from_ms",
    type=read_time_ms,
    metavar="TIME",
    help="Only windows from this time on, such as -1h or yesterday, ISO 8601 (local without a zone) or @ and ms.",
)
@click.option(
    "--until",
    "until_ms",
    type=read_time_ms,
    metavar="TIME",
    help="Only windows that end by this time.  [default: a minute ago, and twice the grace]",
)
@click.option(
    "--grace",
    "grace_s",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="The largest difference between clocks, and the longest time until a broker flushes.",
)
@click.option(
    "--dead-after",
    "dead_after_s",
    type=click.FloatRange(min=0),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="An instance that has not reported for this time counts as dead.",
)
@click.option(
    "--accept",
    "accepted",
    multiple=True,
    metavar="NAME",
    help="Expect no more reports from an instance, partition, cluster or broker that the audit names as unknown,"
    " and exit.",
)
@click.option(
    "--state",
    "state_path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Continue where the last run with this file ended. The file keeps each decided window for a week. Needs"
    " --pipeline or --tiers; use it with the same ones, the same topics and --from.",
)
@click.option(
    "--write-pipeline",
    "written_path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a declaration of everything that has reported, for you to correct, and exit.",
)
@click.option("--overwrite", is_flag=True, help="Let --write-pipeline replace a file.")
@click.option("--all", "is_all", is_flag=True, help="Show every window, not only those with a gap.")
@click.option(
    "--strict",
    is_flag=True,
    help="Also fail on repeated messages, never counted ones and unreadable reports.",
)
@click.option(
    "--plot",
    "plot_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw the tiers' counts into this file: .png, .svg or .pdf.",
)
@json_option
@click.pass_context
def command(
    context: click.Context,
    zk_connect: str,
    topics: tuple[str, ...],
    tiers: tuple[str, ...] | None,
    pipeline_path: Path | None,
    from_ms: int | None,
    until_ms: int | None,
    grace_s: float,
    dead_after_s: float,
    accepted: tuple[str, ...],
    state_path: Path | None,
    written_path: Path | None,
    overwrite: bool,
    is_all: bool,
    strict: bool,
    plot_path: Path | None,
    as_json: bool,
) -> None:
    """Compare what the tiers have counted, window by window, and fail if one lacks messages.

    Each tier is compared with the one before it. Missing: only the tier before has counted it. Never counted: only this
    tier has counted it. Missing since first: only the first tier has counted it. A window with missing messages is a
    gap, and the exit status is 1. Without enough reports to tell, the verdict is unknown, and the exit status is 3.
    """
    from kafka2011.audit.run import Scope, earlier_clock_ms, judgeable_until_ms, run
    from kafka2011.audit.scan import Rules

    rules = Rules(margin_ms=int(grace_s * 1000), dead_after_ms=int(dead_after_s * 1000))
    if tiers is not None and pipeline_path is not None:
        raise click.UsageError("--tiers and --pipeline exclude one another: the file names the tiers")
    if state_path is not None and tiers is None and pipeline_path is None:
        raise click.UsageError("--state needs --pipeline or --tiers: what is kept is compared in their order")
    pipeline = read_pipeline(pipeline_path)
    zk_connect = audited_zookeeper(context, zk_connect, pipeline)
    if accepted:
        _accept(zk_connect, accepted)
        return
    with open_session(zk_connect) as client:
        if written_path is not None:
            write_pipeline(client, zk_connect, _consumer_config(), written_path, overwrite=overwrite)
            return
        until_ms = judgeable_until_ms(rules, earlier_clock_ms(client)) if until_ms is None else until_ms
        scope = Scope(topics, tiers, from_ms, until_ms, rules, pipeline, zk_connect)
        outcome = run(client, _consumer_config(), scope, state_path)
    result = outcome.verdict
    lossy = set(result.gaps)
    bad = [account for account in result.accounts if account in lossy or (strict and not account.is_exact)]
    if plot_path is not None:
        from kafka2011.audit.plot import plot

        plot(result.accounts, outcome.window_ms, plot_path)
    show = _show_json if as_json else _show
    show(outcome, scope, result.accounts if is_all else bad)
    for name in outcome.undeclared:
        click.echo(f"{context.command_path}: {printable(name)} has reported, and is not declared", err=True)
    if bad:
        raise KafkaError(_verdict(bad))
    if outcome.unreadable and strict:
        raise KafkaError(f"{counted(outcome.unreadable, 'report')} could not be read")
    if result.unknowns:
        topic, unknown = result.unknowns[0]
        since = "" if unknown.since_ms is None else f" of what was published since {_time(unknown.since_ms)}"
        more = f"; {counted(len(result.unknowns) - 1, 'more doubt')}" if len(result.unknowns) > 1 else ""
        click.echo(f"{context.command_path}: cannot tell{since}: {topic}: {printable(unknown.why)}{more}", err=True)
        context.exit(EXIT_CANNOT_TELL)


def _show_json(outcome: Outcome, scope: Scope, shown: list[WindowAccount]) -> None:
    from kafka2011.audit.days import by_day
    from kafka2011.audit.pipeline import UNDECLARED

    result = outcome.verdict
    totals = [dict(zip(("topic", "windows", *_COLUMNS), row, strict=True)) for row in _totals(result.accounts)]
    windows = [dict(zip(("topic", "window", *_COLUMNS), row, strict=True)) for row in _rows(shown)]
    show_json(
        {
            "pipeline": None if scope.pipeline is None else scope.pipeline.path,
            "note": UNDECLARED if scope.pipeline is None else None,
            "totals": totals,
            "windows": windows,
            "open_windows": outcome.open_windows,
            "unreadable_reports": outcome.unreadable,
            "gaps": len(result.gaps),
            "lost_reports": result.lost_reports,
            "doubts": [_unknown_json(topic, unknown) for topic, unknown in result.unknowns],
            "undeclared": list(outcome.undeclared),
            "until_ms": scope.until_ms,
            "days": [day.to_json() for day in by_day(result, scope.until_ms)],
        }
    )


def _show(outcome: Outcome, scope: Scope, shown: list[WindowAccount]) -> None:
    from kafka2011.audit.pipeline import UNDECLARED

    result = outcome.verdict
    if scope.pipeline is None:
        click.echo(f"{UNDECLARED}\n")
    show_table(("topic", "windows", *_COLUMNS), _totals(result.accounts), as_json=False)
    if shown:
        click.echo()
        show_table(("topic", "window", *_COLUMNS), _rows(shown), as_json=False)
    if result.unknowns:
        click.echo()
        rows = [
            (topic, "ever" if unknown.since_ms is None else _time(unknown.since_ms), unknown.why, unknown.accept)
            for topic, unknown in result.unknowns
        ]
        show_table(("topic", "cannot tell since", "because", "or accept"), rows, as_json=False)
    not_read = f", {counted(outcome.unreadable, 'report')} not readable" if outcome.unreadable else ""
    not_read += f", {counted(result.lost_reports, 'report')} lost" if result.lost_reports else ""
    click.echo(f"\n{counted(len(result.accounts), 'window')} compared, {outcome.open_windows} open{not_read}")


def audit_now(
    client: ZkClient,
    tiers: tuple[str, ...] | None,
    state_path: Path | None,
    pipeline: Pipeline | None = None,
    zk_connect: str = "",
) -> Outcome:
    """Audit all topics up to when that is possible, as the command does unless it is told otherwise."""
    from kafka2011.audit.run import Scope, earlier_clock_ms, judgeable_until_ms, run
    from kafka2011.audit.scan import DEFAULT_RULES

    until_ms = judgeable_until_ms(DEFAULT_RULES, earlier_clock_ms(client))
    scope = Scope((), tiers, None, until_ms, DEFAULT_RULES, pipeline, zk_connect)
    return run(client, _consumer_config(), scope, state_path)


def _accept(zk_connect: str, names: tuple[str, ...]) -> None:
    """Publish that nothing more is expected of these. Raises KafkaError for one that nobody has heard of."""
    from kafka2011.audit.progress_report import Acceptance
    from kafka2011.audit.publishing import open_publisher
    from kafka2011.audit.reader import AuditReader
    from kafka2011.audit.received import ReceivedReports
    from kafka2011.audit.scan import REMOVED
    from zk.audit import AuditNodes

    received, reader = ReceivedReports(), AuditReader(_consumer_config())
    with open_session(zk_connect) as client:
        for _ in reader.read(client, received=received):
            pass
        brokers = {f"broker {broker_id}" for broker_id in AuditNodes(client).brokers()}
        unknown = sorted(set(names) - received.names() - brokers)
        if unknown:
            raise KafkaError(f"{unknown[0]} is unknown: give a name that `kafka2011 audit` shows")
        for name in brokers & set(names):
            AuditNodes(client).forget_broker(int(name.removeprefix("broker ")))
    said_ms = received.last_said()
    if reader.scan.since_ms is not None:
        said_ms[REMOVED] = reader.scan.since_ms
    now_ms = int(time.time() * 1000)
    publisher = open_publisher(zk_connect)
    try:
        publisher.publish(
            [Acceptance(accepted=name, at_ms=said_ms.get(name, now_ms)) for name in names if name not in brokers]
        )
    finally:
        publisher.close()


def _consumer_config() -> SimpleConsumerConfig:
    return SimpleConsumerConfig.from_sources(environ=os.environ)


def _unknown_json(topic: str, unknown: Unknown) -> dict[str, object]:
    return {"topic": topic, "since_ms": unknown.since_ms, "why": unknown.why, "accept": unknown.accept}


def _totals(accounts: Iterable[WindowAccount]) -> Iterator[tuple[object, ...]]:
    """Yield the sum of all windows for each topic and tier."""
    sums: dict[tuple[str, str], list[int]] = {}
    for account in accounts:
        for count in account.tiers:
            totals = sums.setdefault((account.topic, count.tier), [0] * len(_COLUMNS))
            for index, number in enumerate((1, *_numbers(count))):
                totals[index] += number
    for (topic, tier), (windows, *numbers) in sums.items():
        yield (topic, windows, tier, *numbers)


def _rows(accounts: Iterable[WindowAccount]) -> Iterator[tuple[object, ...]]:
    for account in accounts:
        for count in account.tiers:
            yield (account.topic, _time(account.start_ms), count.tier, *_numbers(count))


def _numbers(count: TierCount) -> tuple[int, ...]:
    return count.total, count.distinct, count.missing, count.missing_since_first, count.repeated, count.never_counted


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
        numbers = (
            (count.missing, "missing"),
            (0 if count.missing else count.missing_since_first, "missing since the first tier"),
            (count.repeated, "repeated"),
            (count.never_counted, "never counted by the tier before"),
        )
        whys += [f"tier {count.tier}: {number} {word}" for number, word in numbers if number]
    where = printable(f"{first.topic} at {_time(first.start_ms)}, {', '.join(whys)}")
    more = f"; {counted(len(bad) - 1, 'more window')} like it" if len(bad) > 1 else ""
    return f"{where}{more}"
