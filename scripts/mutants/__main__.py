"""Changes modules in small ways, one at a time, and lists what no unit test notices.

    make mutants                                          # all of the core, and a sample of each other part; takes long
    make mutants MODULES="message.compression producer.*" # some parts or modules
    make mutants MODULES=consumer.stream SAMPLE=50 SEED=7 # 50 changes of each, drawn with a seed
    make mutants MODULES=message.compression TESTS=tests/message/test_compression.py

Changes that do not matter are listed in tests/mutants-that-do-not-matter.toml, each with the reason.
"""

from __future__ import annotations

import ast
import multiprocessing
import os
import random
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from scripts.definitions import ROOT, definitions_of, module_paths
from scripts.mutants.changes import changes_of
from scripts.mutants.harmless import read_harmless, stale
from scripts.mutants.parts import modules_by_part, read_parts
from scripts.mutants.unit_tests import UnitTests, import_notices, run_collected

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from multiprocessing.connection import Connection

    from scripts.mutants.changes import Change
    from scripts.mutants.harmless import Harmless
    from scripts.mutants.parts import Part

HARMLESS = ROOT / "tests" / "mutants-that-do-not-matter.toml"


class Job(NamedTuple):
    """One change to try."""

    part: Part
    module: str
    path: str
    change: Change


@dataclass
class Tally:
    """What became of the changes of one part."""

    possible: int
    harmless: int
    tried: int
    noticed: int = 0

    @property
    def share(self) -> float:
        """The share of those that were tried that a test noticed."""
        return self.noticed / self.tried if self.tried else 1.0


@click.command(context_settings={"show_default": True})
@click.option("--modules", default="*", help="Which parts or modules, as names with wildcards, without `kafka2011.`.")
@click.option("--sample", type=int, help="How many changes of each part, instead of what pyproject.toml says.")
@click.option("--seed", default=0, help="What the sample is drawn with.")
@click.option("--tests", default="tests", help="Which tests.")
def main(modules: str, sample: int | None, seed: int, tests: str) -> None:
    """Say which small changes of the project no unit test notices."""
    os.chdir(ROOT)
    table = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["mutants"]
    paths = module_paths()
    made = {
        part: {name: changes_of(paths[name].read_bytes(), name) for name in names if _is_chosen(modules, part, name)}
        for part, names in modules_by_part(read_parts(table), paths).items()
    }
    made = {part: changes for part, changes in made.items() if changes}
    if not made:
        raise click.UsageError(f"{modules} is no module")
    entries = read_harmless(HARMLESS)
    jobs, tallies = _choose(made, entries, sample or table["sample"], seed, is_sampled=sample is not None)
    for job, noticed in _outcomes(jobs, tests.split()):
        tallies[job.part].noticed += noticed
        if not noticed:
            path = Path(job.path).relative_to(ROOT)
            place = job.change.place.removeprefix(f"{job.module}.")
            click.echo(f"\n{path}:{job.change.line} {place}\n  - {job.change.old}\n  + {job.change.new}")
    _print_tallies(tallies)
    if lost := _lost(entries, made):
        click.echo(
            "\n".join(["\nThese entries stand for no change any more; correct or remove them:", *map(str, lost)])
        )
    sys.exit(bool(lost) or any(tally.share < part.least_share for part, tally in tallies.items()))


def _is_chosen(modules: str, part: Part, module: str) -> bool:
    names = [name.removeprefix("kafka2011.") for name in (part.name, module)]
    return any(fnmatch(name, pattern.removeprefix("kafka2011.")) for name in names for pattern in modules.split())


def _lost(entries: list[Harmless], made: Mapping[Part, Mapping[str, list[Change]]]) -> list[Harmless]:
    """Return the entries about these modules, or about nothing, that stand for no change."""
    modules = {module: changes for by_module in made.values() for module, changes in by_module.items()}
    places = {
        module: [module, *(item.full_name.replace(".<locals>", "") for item in definitions_of(module, _tree(path)))]
        for module, path in module_paths().items()
    }
    lost = []
    for entry in stale(entries, [change for changes in modules.values() for change in changes]):
        about = {module for module, names in places.items() if any(map(entry.is_in, names))}
        if not about or about & modules.keys():
            lost.append(entry)
    return lost


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes())


def _print_tallies(tallies: Mapping[Part, Tally]) -> None:
    click.echo(
        f"\n{'part':40} {'possible':>8} {'harmless':>8} {'tried':>6} {'noticed':>8} {'unnoticed':>9} {'share':>7}"
    )
    for part, tally in tallies.items():
        click.echo(
            f"{part.name:40} {tally.possible:8} {tally.harmless:8} {tally.tried:6} {tally.noticed:8}"
            f" {tally.tried - tally.noticed:9} {tally.share:7.1%}"
        )


def _choose(
    made: Mapping[Part, Mapping[str, list[Change]]],
    entries: list[Harmless],
    sample: int,
    seed: int,
    *,
    is_sampled: bool,
) -> tuple[list[Job], dict[Part, Tally]]:
    """Return the changes to try: all of a whole part, unless `is_sampled`, and so many of the others."""
    paths = module_paths()
    jobs, tallies = [], {}
    for part, by_module in made.items():
        possible = [(module, change) for module, changes in by_module.items() for change in changes]
        chosen = possible
        if sample < len(possible) and (is_sampled or not part.is_whole):
            chosen = random.Random(f"{seed} {part.name}").sample(possible, sample)  # noqa: S311 (to be drawn again)
        to_try = [
            Job(part, module, str(paths[module]), change)
            for module, change in chosen
            if not any(entry.stands_for(change) for entry in entries)
        ]
        jobs += to_try
        tallies[part] = Tally(possible=len(possible), harmless=len(chosen) - len(to_try), tried=len(to_try))
    return jobs, tallies


def _outcomes(jobs: list[Job], tests: list[str]) -> Iterable[tuple[Job, bool]]:
    """Yield each job and whether a test noticed the change."""
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        output = Path(directory) / "output"
        worker = fork.Process(target=_work, args=(jobs, tests, Path(directory), output, sender), daemon=True)
        worker.start()
        sender.close()
        try:
            baseline = receiver.recv()
            for test in sorted(baseline.failed):
                click.echo(f"left out, since it fails without a change: {test}")
            left = []
            for job in jobs:
                noticed = receiver.recv()
                if noticed is None:
                    left.append(job)
                else:
                    yield job, noticed
        except EOFError:
            raise click.ClickException(f"the tests could not be run:\n{output.read_text()}") from None
        worker.join()
    for job in left:
        yield job, import_notices(job.path, job.module, job.change, baseline)


def _work(jobs: list[Job], tests: list[str], directory: Path, output: Path, sender: Connection) -> None:
    """Import the tests and send what they do: without a change, and then for each job."""
    written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(written, 1)
    os.dup2(written, 2)

    def run(collected: UnitTests) -> None:
        collected.measure(sorted({job.path for job in jobs}), directory / "notes")
        sender.send(collected.baseline)
        for job in jobs:
            sender.send(collected.notices(job.path, job.change))

    run_collected(run, tests)


if __name__ == "__main__":
    main()
