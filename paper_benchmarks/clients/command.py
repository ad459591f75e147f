"""`python -m paper_benchmarks clients`."""

from __future__ import annotations

import datetime
import importlib.util
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paper_benchmarks import results_file
from paper_benchmarks.clients import table
from paper_benchmarks.clients.lines import COMPILED, LINES, MESSAGE_BYTES, PURE, YARDSTICKS
from paper_benchmarks.clients.results import results
from paper_benchmarks.clients.run import Plan, rounds
from paper_benchmarks.machine import Neighbours, describe
from paper_benchmarks.systems.kafka import OWN, KafkaBroker
from paper_benchmarks.systems.places import in_memory
from zk.local import LocalZooKeeper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paper_benchmarks.samples import Sample

_SPARE_ROOM = 2  # times what one round writes


def parse_system(text: str) -> KafkaBroker:
    """Read NAME=HOST:PORT, or HOST:PORT, which names itself. Raises click.BadParameter."""
    name, equals, address = text.rpartition("=")
    host, colon, port = address.rpartition(":")
    name = name if equals else address
    if not (name and host and colon and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise click.BadParameter(f"{text!r} is not NAME=HOST:PORT")
    return KafkaBroker(name, host, int(port))


def parse_systems(texts: Sequence[str]) -> list[KafkaBroker]:
    """Read several, each with a name of its own, which is not ours. Raises click.BadParameter."""
    systems = [parse_system(text) for text in texts]
    names = [OWN, *(system.name for system in systems)]
    if len(set(names)) < len(names):
        raise click.BadParameter("every broker needs a name of its own")
    return systems


def available_codes(*, pure: bool | None) -> list[str]:
    """Return which code is measured, both unless one was asked for. Raises click.UsageError where C was not built."""
    if pure:
        return [PURE]
    if importlib.util.find_spec("kafka2011._plain") is not None:
        return [COMPILED] if pure is False else [COMPILED, PURE]
    if pure is False:
        raise click.UsageError("the C code is not built (scripts/setup.sh does it where there is a compiler)")
    return [PURE]


@click.command("clients")
@click.option("--rounds", "round_count", default=5, show_default=True, type=click.IntRange(1), help="So many rounds.")
@click.option(
    "--scale", default=1.0, show_default=True, type=click.FloatRange(0, min_open=True), help="More or fewer messages."
)
@click.option("--pure/--compiled", default=None, help="Only with messages in Python, or only in C; else both.")
@click.option(
    "--line",
    "names",
    multiple=True,
    type=click.Choice([line.name for line in LINES]),
    help="Only this line; repeatable.",
)
@click.option(
    "--against",
    "others",
    multiple=True,
    metavar="NAME=HOST:PORT",
    callback=lambda _ctx, _parameter, texts: parse_systems(texts),
    help="Measure the clients against another broker that speaks 0.7 too; repeatable.",
)
@click.option("--own/--no-own", default=True, show_default=True, help="Start a broker of ours and measure against it.")
@click.option(
    "--log-base",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    help="Where its logs lie meanwhile. Default: /dev/shm where there is room, else where temporary files lie.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=results_file.DIRECTORY / "clients.json",
    help="Where samples and results go. Default: paper_benchmarks/results/clients.json.",
)
def command(
    round_count: int,
    scale: float,
    pure: bool | None,
    names: Sequence[str],
    others: list[KafkaBroker],
    own: bool,
    log_base: Path | None,
    output: Path,
) -> None:
    """Measure what a message of 200 bytes costs our clients, and the broker under them.

    One partition, one broker, every client in a process of its own. docs/benchmarks.md explains the lines.
    """
    if not own and not others:
        raise click.UsageError("--no-own leaves nothing to measure: give --against")
    lines = [line.scaled(scale) for line in LINES if line.name in (names or {each.name for each in LINES})]
    yardsticks = [yardstick.scaled(scale) for yardstick in YARDSTICKS]
    round_bytes = MESSAGE_BYTES * sum(line.messages for line in lines)
    log_base = log_base or in_memory(_SPARE_ROOM * round_bytes)
    plan = Plan(round_count, available_codes(pure=pure), lines, yardsticks, others, own, log_base)
    started = datetime.datetime.now(datetime.UTC)
    neighbours = Neighbours()
    samples = _measure(plan)
    facts = neighbours.facts()
    found = results(samples, lines, yardsticks)
    results_file.write(
        output,
        {
            "benchmark": "clients",
            "started": started.isoformat(timespec="seconds"),
            "machine": describe(log_base),
            "run": {"rounds": round_count, "scale": scale, **facts},
            "samples": [asdict(sample) for sample in samples],
            "results": [result.facts() for result in found],
        },
    )
    table.show(found, [yardstick.name for yardstick in yardsticks])
    click.echo(
        f"\n{round_count} rounds in {facts['elapsed_s']:.0f} s; meanwhile others kept"
        f" {facts['cores_used_by_others']} cores busy; samples: {output}"
    )


def _measure(plan: Plan) -> list[Sample]:
    with ExitStack() as stack:
        zk_connect = stack.enter_context(LocalZooKeeper()).connect_string if plan.own else None
        return list(rounds(plan, zk_connect, lambda step: click.echo(step, err=True)))
