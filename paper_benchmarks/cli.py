"""The command line: one command for each benchmark and experiment, and the report of all."""

from __future__ import annotations

import contextlib
import importlib
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafka2011.errors import KafkaError
from paper_benchmarks import results_file
from paper_benchmarks.experiments.catalogue import EXPERIMENTS, experiment

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "clients": "paper_benchmarks.clients.command",
    "events": "paper_benchmarks.events",
    "load": "paper_benchmarks.load",
    "mirror": "paper_benchmarks.mirror.command",
}
"""Where each command that is no experiment is, in a variable `command`."""

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
_OPTIONAL_PACKAGES = {"matplotlib", "psutil", "pyarrow", "pyspark"}
"""Of the extras that some benchmarks need."""


class BenchmarkGroup(click.Group):
    """Imports a benchmark when it is called: each may need packages that the others do without."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all benchmarks."""
        return sorted([*super().list_commands(ctx), *COMMANDS, *EXPERIMENTS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one; None when there is none of that name."""
        try:
            if cmd_name in EXPERIMENTS:
                return _experiment_command(cmd_name)
            if cmd_name not in COMMANDS:
                return super().get_command(ctx, cmd_name)
            command = importlib.import_module(COMMANDS[cmd_name]).command
        except ModuleNotFoundError as error:
            if error.name not in _OPTIONAL_PACKAGES:
                raise
            raise click.ClickException(f"{error.name} is missing: pip install -e '.[bench]'") from error
        assert isinstance(command, click.Command)
        return command


@click.group(cls=BenchmarkGroup, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Measure kafka2011."""


_SIZES = ["toy", "small", "paper"]
_OPTIONS = [
    click.Option(
        ["--size"], type=click.Choice(_SIZES), default="small", show_default=True, help="How much is measured."
    ),
    click.Option(
        ["--system", "names"], multiple=True, help="Only this system; repeatable. Default: all that can run here."
    ),
    click.Option(
        ["--against", "others"],
        multiple=True,
        metavar="NAME=HOST:PORT",
        help="Measure another broker that speaks 0.7 too, by our clients; repeatable.",
    ),
    click.Option(
        ["--data"],
        type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
        default=Path(tempfile.gettempdir()),
        show_default="where temporary files lie",
        help="Where servers keep their data meanwhile; it decides which disk is measured.",
    ),
    click.Option(
        ["--results"],
        type=click.Path(file_okay=False, path_type=Path),
        default=results_file.DIRECTORY,
        show_default="paper_benchmarks/results",
        help="The directory that NAME.json goes to; the report is written again from all that lies there.",
    ),
]


def _measure(
    wanted: Sequence[str], size: str, names: Sequence[str], others: Sequence[str], data: Path, results: Path
) -> None:
    from paper_benchmarks.clients.command import parse_systems
    from paper_benchmarks.experiment import Size, make_bench, run
    from paper_benchmarks.report import default_output, write_report

    bench = make_bench(Size(size), names, parse_systems(others), data, lambda step: click.echo(step, err=True))
    for name in wanted:
        click.echo(f"== {name}", err=True)
        run(experiment(name), bench, results / f"{name}.json", keep=bool(names))
        write_report(results, default_output(results))
    click.echo(f"report: {default_output(results)}")


def _experiment_command(name: str) -> click.Command:
    found = experiment(name)

    def callback(size: str, names: Sequence[str], others: Sequence[str], data: Path, results: Path) -> None:
        _measure([name], size, names, others, data, results)

    return click.Command(name, params=list(_OPTIONS), callback=callback, help=f"{found.title}; docs/benchmarks.md.")


def _all(
    size: str, names: Sequence[str], others: Sequence[str], data: Path, results: Path, only: str, without: str
) -> None:
    from paper_benchmarks.experiments.catalogue import COVERED

    covered = {each for several in COVERED.values() for each in several}
    wanted = only.split(",") if only else [name for name in EXPERIMENTS if name not in covered]
    left_out = without.split(",") if without else []
    if unknown := [name for name in [*wanted, *left_out] if name not in EXPERIMENTS]:
        raise click.BadParameter(f"{', '.join(unknown)}: there is {', '.join(EXPERIMENTS)}")
    _measure([name for name in wanted if name not in left_out], size, names, others, data, results)


cli.add_command(
    click.Command(
        "all",
        params=[
            *_OPTIONS,
            click.Option(["--only"], default="", metavar="NAME,NAME", help="Only these experiments."),
            click.Option(["--without"], default="", metavar="NAME,NAME", help="Not these experiments."),
        ],
        callback=_all,
        help="Several experiments one after the other, and the report.",
    )
)


@cli.command("report")
@click.option(
    "--results",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=results_file.DIRECTORY,
    show_default="paper_benchmarks/results",
    help="The directory of results.",
)
def _report(results: Path) -> None:
    """Write RESULTS.md and its pictures again from the results there are."""
    from paper_benchmarks.report import default_output, write_report

    names = write_report(results, default_output(results))
    click.echo(f"{default_output(results)}: {', '.join(names)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one benchmark and return its exit status; what fails is one line on standard error.

    SIGTERM ends it as Ctrl-C does, in order: servers are stopped, their data removed.
    """
    with contextlib.suppress(ValueError):  # in a thread, as in a test, nobody sends it
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        result = cli.main(args=arguments, prog_name="paper_benchmarks", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE
    except (KafkaError, OSError) as error:
        click.echo(f"paper_benchmarks: error: {error}", err=True)
        return EXIT_FAILED
    return result if isinstance(result, int) else 0
