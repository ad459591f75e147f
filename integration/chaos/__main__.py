"""The command line: `python -m integration.chaos --minutes 10 --seed 4711`, which is what `make chaos` runs."""

from __future__ import annotations

import argparse
import logging
import secrets
import shutil
import sys
import time
from pathlib import Path

from integration.chaos.account.summary import account_of
from integration.chaos.run import run_schedule
from integration.chaos.schedule import draw_schedule, from_json


def main(arguments: list[str] | None = None) -> int:
    """Run a schedule, drawn from a seed or read from a file, and print the account; 1 when a rule did not hold."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.ERROR, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # it complains of every server that is away
    if options.schedule:
        seed, seconds, faults = from_json(options.schedule.read_text())
    else:
        seed, seconds = options.seed or secrets.randbelow(10**6), 60 * options.minutes
        faults = draw_schedule(seed, seconds)
    directory = options.directory or Path("build/chaos") / str(seed)
    shutil.rmtree(directory, ignore_errors=True)
    started_s = time.monotonic()

    def say(text: str) -> None:
        sys.stdout.write(f"[{time.monotonic() - started_s:6.1f}] {text}\n")
        sys.stdout.flush()

    say(f"seed {seed}, {len(faults)} faults in {seconds:g} s; everything is kept in {directory}")
    account = account_of(run_schedule(seed, seconds, faults, directory, say))
    (directory / "account.txt").write_text(account.text() + "\n")
    sys.stdout.write(account.text() + "\n")
    if account.is_good:
        return 0
    say(f"FAILED: seed {seed}; again with SCHEDULE={directory / 'schedule.json'}")
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m integration.chaos")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long faults come (10)")
    parser.add_argument("--seed", type=int, help="what to draw the schedule from; a fresh one otherwise")
    parser.add_argument("--schedule", type=Path, help="run this schedule again")
    parser.add_argument("--directory", type=Path, help="where to keep everything (build/chaos/SEED)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
