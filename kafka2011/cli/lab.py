"""`kafka2011 lab`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafka2011.cli.command_group import CommandGroup
from kafka2011.cli.options import examples
from kafka2011.cli.output import counted, json_option, show_json, show_json_list, show_table
from kafka2011.cli.session import open_session
from kafka2011.cli.stopping import stop_signals
from kafka2011.errors import KafkaError
from kafka2011.lab import progress, slow_motion_page
from kafka2011.lab.errors import LabError
from kafka2011.lab.grading import grade_in_order
from kafka2011.lab.program import SETTINGS_FILE, StudentProgram
from kafka2011.lab.stages import STAGES
from kafka2011.lab.starter import LANGUAGES, write_starter

if TYPE_CHECKING:
    from kafka2011.lab.verdict import StageVerdict

_EXISTING = click.Path(exists=True, file_okay=False, path_type=Path)
_LOOK_S = 0.5
_folder_option = click.option(
    "--folder", type=_EXISTING, default=".", show_default=True, help="The folder with your program and lab.toml."
)


@click.group("lab", cls=CommandGroup, epilog=examples("kafka2011 lab start my-broker", "kafka2011 lab check"))
def command() -> None:
    """Build your own broker in any language, stage by stage, and have it graded by its bytes."""


@command.command(
    "start", epilog=examples("kafka2011 lab start my-broker", "kafka2011 lab start my-broker --language other")
)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--language", type=click.Choice(LANGUAGES), default="python", show_default=True, help="Of the skeleton.")
def start(folder: Path, language: str) -> None:
    """Write a program that does nothing yet, and lab.toml, into FOLDER.

    For a language that has no skeleton, `--language other` writes only lab.toml, with examples of commands.
    """
    for path in write_starter(folder, language):
        click.echo(f"wrote {path}")
    if language == "other":
        click.echo(f"Name the command of your program in {folder / SETTINGS_FILE}.")
    click.echo(f"Next: cd {folder}, and kafka2011 lab next")


@command.command("next", epilog=examples("kafka2011 lab next", "kafka2011 lab next 3"))
@click.argument("stage", type=click.IntRange(1, len(STAGES)), required=False)
@_folder_option
def next_page(stage: int | None, folder: Path) -> None:
    """Print the page of the next stage: what to build, the bytes, and an example. With STAGE: that page."""
    number = stage or _next_stage(folder)
    if number is None:
        click.echo(f"You have passed all {len(STAGES)} stages.")
        return
    click.echo(STAGES[number].page().rstrip("\n"))
    click.echo("\n\nThen try it: kafka2011 lab check")
    if stage is None and not (folder / SETTINGS_FILE).exists():
        click.echo(f"{folder / SETTINGS_FILE} does not exist, so this is the first page.", err=True)


@command.command(
    "check", epilog=examples("kafka2011 lab check", "kafka2011 lab check 3", "kafka2011 lab check --all --json")
)
@click.argument("stage", type=click.IntRange(1, len(STAGES)), required=False)
@click.option("--all", "every", is_flag=True, help="All stages, from the first to the first that is not passed.")
@_folder_option
@json_option
def check(stage: int | None, every: bool, folder: Path, as_json: bool) -> None:
    """Grade your program in the stage that `lab next` shows. With STAGE: in that one.

    When you have passed all stages, all of them are graded. Exit status 1 means that a stage was not passed.
    """
    if stage and every:
        raise click.UsageError("either STAGE or --all, not both")
    number = None if every else stage or _next_stage(folder)
    program = StudentProgram.read(folder)
    program.build()
    verdicts: list[StageVerdict] = []
    for verdict in grade_in_order(program, STAGES.values() if number is None else [STAGES[number]]):
        verdicts.append(verdict)
        if not as_json:
            click.echo(verdict.text())
    progress.note(folder, verdicts)
    if as_json:
        show_json({"folder": str(folder), "stages": [verdict.document() for verdict in verdicts]})
    if verdicts[-1].wrong is not None:
        failed = verdicts[-1].stage.number
        raise KafkaError(f"stage {failed} is not passed (`kafka2011 lab next {failed}` prints its page)")
    if not as_json:
        following = _next_stage(folder)
        click.echo("You have passed all stages." if following is None else "Go on: kafka2011 lab next")


@command.command("table", epilog=examples("kafka2011 lab table students/*", "kafka2011 lab table students/* --json"))
@click.argument("folders", metavar="FOLDER...", type=_EXISTING, nargs=-1, required=True)
@json_option
def table(folders: tuple[Path, ...], as_json: bool) -> None:
    """Grade the programs in many folders, and print a line for each. What students have noted does not count."""
    columns = ("folder", "passed", "failed_stage", "failed_check", "what", "seconds")
    rows = []
    for folder in folders:
        if sys.stderr.isatty():
            click.echo(f"grading {folder}", err=True)
        rows.append(_row(folder))
    if as_json:
        show_json_list(dict(zip(columns, row, strict=True)) for row in rows)
    else:
        show_table(columns, rows, as_json=False)
        click.echo(f"{counted(len(rows), 'program')}, {len(STAGES)} stages")


@command.command("show", epilog=examples("kafka2011 lab show", "kafka2011 lab show --folder my-broker"))
@_folder_option
def show(folder: Path) -> None:
    """Run your broker in a cluster beside one of kafka2011, with a gateway and a page that shows it, until Ctrl-C.

    It needs what stage 11 asks for. Everything else is new, and goes when it ends.
    """
    from kafka2011.lab.cluster import BROKER_ID, filled_cluster
    from kafka2011.ui.serving import serve

    program = StudentProgram.read(folder)
    program.build()
    with (
        stop_signals() as stop,
        filled_cluster(program) as (cluster, broker),
        open_session(cluster.zk_connect) as client,
        serve(client, "127.0.0.1", 0) as address,
    ):
        click.echo(f"The cluster is shown at {address}. Your broker is number {BROKER_ID}.")
        click.echo(f"Read from it: kcat -b {cluster.bootstrap_servers} -C -t views -o beginning")
        click.echo(f"Write to it:  kcat -b {cluster.bootstrap_servers} -P -t views")
        click.echo("Ctrl-C stops it.")
        while not stop.wait(_LOOK_S):
            if not broker.run.running:
                raise LabError(f"your program has ended: {broker.run.describe_end()}")


@command.command("page", epilog=examples("kafka2011 lab page", "kafka2011 lab page lecture/slow-motion.html"))
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), default="slow-motion.html")
def page(file: Path) -> None:
    """Write a page that shows a rebalance, a recovery and a takeover step by step, into FILE.

    Any browser opens it, without a network. FILE is slow-motion.html by default.
    """
    try:
        file.write_text(slow_motion_page.render(), encoding="utf-8")
    except OSError as error:
        raise LabError(f"cannot write {file}: {error.strerror}") from error
    click.echo(f"wrote {file}: open it in a browser")


def _row(folder: Path) -> tuple[str, int, int | None, str | None, str | None, float]:
    try:
        program = StudentProgram.read(folder)
        program.build()
    except LabError as error:
        return str(folder), 0, 1, "The program builds", " ".join(str(error).split()), 0.0
    verdicts = list(grade_in_order(program, STAGES.values()))
    seconds = round(sum(verdict.seconds for verdict in verdicts), 1)
    last = verdicts[-1]
    passed = sum(verdict.passed for verdict in verdicts)
    if last.wrong is None:
        return str(folder), passed, None, None, None, seconds
    return str(folder), passed, last.stage.number, last.check, " ".join(last.wrong.what.split()), seconds


def _next_stage(folder: Path) -> int | None:
    passed = progress.read(folder)
    return next((number for number in STAGES if number not in passed), None)
