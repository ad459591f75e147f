"""`python -m paper_benchmarks`: one command for each experiment, and the report of all."""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafka2011.errors import KafkaError
from paper_benchmarks.experiments.catalogue import EXPERIMENTS, document_of, experiment
from paper_benchmarks.experiments.experiment import LEAST_S, RESULTS, Bench, Size, choose_kinds, run
from paper_benchmarks.systems.kafka2011 import OWN, KafkaBroker, kind_of
from paper_benchmarks.systems.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
_OPTIONAL_PACKAGES = {"fastavro", "isal", "matplotlib", "psutil", "pyarrow", "pyspark"}
"""Of the extras that some experiments need."""


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


class ExperimentGroup(click.Group):
    """Imports an experiment when it is called: each may need packages that the others do without."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all."""
        return sorted([*super().list_commands(ctx), *EXPERIMENTS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one; None when there is none of that name."""
        if cmd_name not in EXPERIMENTS:
            return super().get_command(ctx, cmd_name)
        try:
            title = experiment(cmd_name).title
        except ModuleNotFoundError as error:
            if error.name not in _OPTIONAL_PACKAGES:
                raise
            raise click.ClickException(f"{error.name} is missing: pip install -e '.[bench]'") from error

        def callback(**options: Any) -> None:
            _measure([cmd_name], **options)

        return click.Command(
            cmd_name, params=list(_OPTIONS), callback=callback, help=f"{title}; docs/how-to/benchmarks.md."
        )


@click.group(cls=ExperimentGroup, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Measure kafka2011."""


_OPTIONS = [
    click.Option(
        ["--size"],
        type=click.Choice([size.value for size in Size]),
        default="small",
        show_default=True,
        help="How much. small: bursts. paper: long runs.",
    ),
    click.Option(
        ["--seconds"],
        type=click.FloatRange(min=0.1),
        default=LEAST_S,
        show_default=True,
        help="How long a line of systems side by side runs at least at paper size; its bytes go with that.",
    ),
    click.Option(
        ["--rounds"],
        type=click.IntRange(min=1),
        show_default="1, 7 or 5, by size",
        help="How often each line is measured.",
    ),
    click.Option(
        ["--system", "names"],
        multiple=True,
        type=click.Choice(list(KINDS)),
        help="Only this system; repeatable. Default: all that can run here, without those that must be named.",
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
        default=RESULTS,
        show_default="paper_benchmarks/results",
        help="The directory that NAME.json goes to; the report is written again from all that lies there.",
    ),
]


def _measure(
    wanted: Sequence[str],
    *,
    size: str,
    seconds: float,
    rounds: int | None,
    names: Sequence[str],
    others: Sequence[str],
    data: Path,
    results: Path,
) -> None:
    from paper_benchmarks.report.report import default_output, write_report

    kinds, left_out = choose_kinds(names, [kind_of(broker) for broker in parse_systems(others)])
    bench = Bench(Size(size), kinds, left_out, data, lambda step: click.echo(step, err=True), seconds, rounds)
    for name in wanted:
        click.echo(f"== {name}", err=True)
        run(experiment(name), bench, results / f"{document_of(name, Size(size))}.json")
        write_report(results, default_output(results))
    click.echo(f"report: {default_output(results)}")


@cli.command(
    "all",
    params=[
        *_OPTIONS,
        click.Option(["--only"], default="", metavar="NAME,NAME", help="Only these experiments."),
        click.Option(["--without"], default="", metavar="NAME,NAME", help="Not these experiments."),
    ],
)
def _all(only: str, without: str, **options: Any) -> None:
    """Several experiments one after the other, and the report."""
    wanted = only.split(",") if only else list(EXPERIMENTS)
    left_out = without.split(",") if without else []
    if unknown := [name for name in [*wanted, *left_out] if name not in EXPERIMENTS]:
        raise click.BadParameter(f"{', '.join(unknown)}: there is {', '.join(EXPERIMENTS)}")
    _measure([name for name in wanted if name not in left_out], **options)


@cli.command("report")
@click.option(
    "--results",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=RESULTS,
    show_default="paper_benchmarks/results",
    help="The directory of results.",
)
def _report(results: Path) -> None:
    """Write RESULTS.md, DETAILS.md and their pictures again from the results there are."""
    from paper_benchmarks.report.report import default_output, write_report

    names = write_report(results, default_output(results))
    click.echo(f"{default_output(results)}: {', '.join(names)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; what fails is one line on standard error.

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


if __name__ == "__main__":
    sys.exit(main())
