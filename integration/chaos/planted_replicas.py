"""Runs of replicas with a planted defect, each with up to three seeds: `python -m integration.chaos.planted_replicas`.

A run has the faults of `integration.chaos.replicas --swarm` and ends when something is wrong. What came of a defect and
a seed is kept in a file and is not tried again: `--directory` says where, `--again` forgets it.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from integration.chaos.broker import clear
from integration.chaos.defects import LOSING, announced, replica_defects
from integration.chaos.replica_faults import WEIGHTS
from integration.chaos.replicas import run
from integration.chaos.schedule import swarm_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

DIRECTORY = Path("build/chaos/planted-replicas")
SEEDS = (33, 54, 73)
"""Each kind of fault is in one of them at least, and nearly all are in two."""
RUN_S = 600.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of a defect with a seed: what was wrong, or how the run broke off, and how long it took."""

    defect: str
    seed: int
    problems: list[str]
    faults: int
    seconds: float
    broke_off: str = ""

    @property
    def text(self) -> str:
        """Say it in a line."""
        found = self.problems[0] if self.problems else self.broke_off or "nothing"
        return f"{self.defect}, seed {self.seed}: {found}, after {self.faults} faults in {self.seconds:.0f} s"


def attempt(defect: str, seed: int, seconds: float, directory: Path) -> Attempt:
    """Return what is known of a defect with a seed, or make the run."""
    kept = directory / f"{defect.replace(' ', '-')}-{seed}.json"
    if kept.exists():
        return Attempt(**json.loads(kept.read_text()))
    clear(directory / "run")
    began_s = time.monotonic()
    problems, faults, broke_off = [], 0, ""
    try:
        with announced(defect):
            account = run(directory / "run", 3, seconds, seed, swarm_of(seed, WEIGHTS))
        problems, faults = account.problems, account.faults.total()
    except Exception as error:  # noqa: BLE001 - a defect may have a run break off, which has no account then
        broke_off = f"broke off: {type(error).__name__}: {error}"
    found = Attempt(defect, seed, problems, faults, time.monotonic() - began_s, broke_off)
    kept.write_text(json.dumps(asdict(found), indent=1))
    return found


def find(
    defects: Iterable[str], seeds: Sequence[int], seconds: float, directory: Path, say: Callable[[str], None]
) -> dict[str, Attempt | None]:
    """Return for each defect the first attempt in which something was wrong; None if there is none."""
    directory.mkdir(parents=True, exist_ok=True)
    found: dict[str, Attempt | None] = {}
    for defect in defects:
        found[defect] = None
        for seed in seeds:
            made = attempt(defect, seed, seconds, directory)
            say(made.text)
            if made.problems:
                found[defect] = made
                break
    return found


def main(arguments: list[str] | None = None) -> int:
    """Try the defects; 1 when fewer than half were noticed."""
    parser = argparse.ArgumentParser(prog="python -m integration.chaos.planted_replicas")
    parser.add_argument("--directory", type=Path, default=DIRECTORY)
    parser.add_argument("--again", action="store_true", help="forget what earlier runs found")
    parser.add_argument("--minutes", type=float, default=RUN_S / 60, help="the longest that a run may take")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--only", nargs="+", metavar="DEFECT", choices=list(replica_defects()), default=LOSING)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # everything is ended in order
    logging.basicConfig(level=logging.CRITICAL)
    if options.again:
        clear(options.directory)

    def say(text: str) -> None:
        sys.stdout.write(f"[{time.strftime('%H:%M:%S')}] {text}\n")
        sys.stdout.flush()

    found = find(options.only, options.seeds, options.minutes * 60, options.directory.absolute(), say)
    noticed = sum(made is not None for made in found.values())
    say(f"{noticed} of {len(found)} noticed")
    return 0 if 2 * noticed >= len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
