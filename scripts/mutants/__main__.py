"""Changes modules of the core and the tiers in small ways, one at a time, and lists what no unit test notices.

    make mutants                                          # all of them, and some of the tiers', which takes long
    make mutants MODULES="compression producer.*"         # some modules
    make mutants MODULES=consumer.stream SAMPLE=50 SEED=7 # 50 changes of each, drawn with a seed
    make mutants MODULES=compression TESTS=tests/message/test_compression.py

Changes that do not matter are listed in tests/mutants-that-do-not-matter.toml, each with the reason.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
import tempfile
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from scripts.mutants.changes import changes_of
from scripts.mutants.harmless import read_harmless, without_match
from scripts.mutants.unit_tests import UnitTests, import_notices, run_collected

if TYPE_CHECKING:
    from collections.abc import Iterable
    from multiprocessing.connection import Connection

    from scripts.mutants.changes import Change
    from scripts.mutants.harmless import Harmless

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "kafka2011"
HARMLESS = ROOT / "tests" / "mutants-that-do-not-matter.toml"
MODULES = (
    *(f"message.{name}" for name in ("message_set", "header", "runs_python", "compression")),
    "wire.protocol",
    *(f"log.{name}" for name in ("log", "segment", "recovery", "log_manager")),
    *(f"broker.{name}" for name in ("handlers", "message_check")),
    *(
        f"consumer.{name}"
        for name in ("stream", "feed", "fetcher", "division", "fair_assignment", "rebalancer", "offset_committer")
    ),
    *sorted(f"producer.{path.stem}" for path in (PACKAGE / "producer").glob("[!_]*.py")),
    *("spark.offset_ranges", "spark.plan"),
)
TIERS = ("collect.positions", "audit.tally", *(f"mirror.{name}" for name in ("commit_window", "pieces", "replay")))
TIER_SAMPLE = 20
LEAST_SHARE = 0.97


class Job(NamedTuple):
    """One change to try."""

    module: str
    path: str
    change: Change


@dataclass
class Tally:
    """What became of the changes of one module."""

    possible: int
    harmless: int
    tried: int
    noticed: int = 0

    @property
    def share(self) -> float:
        """The share of those that were tried that a test noticed."""
        return self.noticed / self.tried if self.tried else 1.0


@click.command(context_settings={"show_default": True})
@click.option("--modules", default="*", help="Which modules, as names below kafka2011 with wildcards.")
@click.option(
    "--sample", type=int, help=f"How many changes of each module, instead of all, or {TIER_SAMPLE} of a tier's."
)
@click.option("--seed", default=0, help="What the sample is drawn with.")
@click.option("--tests", default="tests", help="Which tests.")
def main(modules: str, sample: int | None, seed: int, tests: str) -> None:
    """Say which small changes of the core and the tiers no unit test notices."""
    os.chdir(ROOT)
    every = (*MODULES, *TIERS)
    names = list(dict.fromkeys(name for pattern in modules.split() for name in every if fnmatch(name, pattern)))
    if not names:
        raise click.UsageError(f"{modules} is none of: {' '.join(every)}")
    made = {name: changes_of(_path_of(name).read_bytes()) for name in names}
    entries = read_harmless(HARMLESS)
    if lost := without_match(entries, made):
        raise click.ClickException("\n".join(["these stand for no change any more:", *map(str, lost)]))
    jobs, tallies = _choose(made, entries, sample, seed)
    for job, noticed in _outcomes(jobs, tests.split()):
        tallies[job.module].noticed += noticed
        if not noticed:
            path = Path(job.path).relative_to(ROOT)
            click.echo(f"\n{path}:{job.change.line}\n  - {job.change.old_line}\n  + {job.change.new_line}")
    click.echo(
        f"\n{'module':30} {'possible':>8} {'harmless':>8} {'tried':>6} {'noticed':>8} {'unnoticed':>9} {'share':>7}"
    )
    for name, tally in tallies.items():
        click.echo(
            f"{name:30} {tally.possible:8} {tally.harmless:8} {tally.tried:6} {tally.noticed:8}"
            f" {tally.tried - tally.noticed:9} {tally.share:7.1%}"
        )
    sys.exit(any(tally.share < LEAST_SHARE for tally in tallies.values()))


def _choose(
    made: dict[str, list[Change]], entries: list[Harmless], sample: int | None, seed: int
) -> tuple[list[Job], dict[str, Tally]]:
    jobs, tallies = [], {}
    for name, changes in made.items():
        chosen = changes
        count = sample or (TIER_SAMPLE if name in TIERS else len(changes))
        if count < len(changes):
            chosen = random.Random(f"{seed} {name}").sample(changes, count)  # noqa: S311 (to be drawn again)
        to_try = [change for change in chosen if not any(entry.stands_for(name, change) for entry in entries)]
        jobs += [Job(name, str(_path_of(name)), change) for change in to_try]
        tallies[name] = Tally(possible=len(changes), harmless=len(chosen) - len(to_try), tried=len(to_try))
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
        yield job, import_notices(job.path, f"kafka2011.{job.module}", job.change, baseline)


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


def _path_of(module: str) -> Path:
    return PACKAGE / (module.replace(".", "/") + ".py")


if __name__ == "__main__":
    main()
