"""The command line: `python -m integration.chaos --minutes 10 --seed 4711`, which is what `make chaos` runs."""

from __future__ import annotations

import argparse
import logging
import pickle
import secrets
import signal
import sys
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from integration.chaos.account.summary import account_of
from integration.chaos.broker import clear
from integration.chaos.page import page_of
from integration.chaos.run import run_schedule
from integration.chaos.schedule import draw_schedule, from_json, to_json
from integration.chaos.shrink import shrink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from integration.chaos.account.summary import Account
    from integration.chaos.schedule import Fault


MOST_SHRINKS = 15
_AFTER_LAST_FAULT_S = 5.0


def main(arguments: list[str] | None = None) -> int:
    """Run a schedule, drawn from a seed or read from a file, and print the account; 1 when a rule did not hold."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.ERROR, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # it complains of every server that is away
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # everything is ended in order
    if options.schedule:
        seed, seconds, faults = from_json(options.schedule.read_text())
    else:
        seed = secrets.randbelow(10**6) if options.seed is None else options.seed
        seconds = 60 * options.minutes
        faults = draw_schedule(seed, seconds)
    directory = options.directory or Path("build/chaos") / str(seed)
    failed = f"FAILED: seed {seed}; again with SCHEDULE={directory / 'schedule.json'}"
    try:
        account = _run(seed, seconds, faults, directory)
    except Exception:
        _say(failed)
        raise
    if account.is_good:
        return 0
    _say(failed)
    if options.shrink:
        _shrink(seed, faults, directory, {violation.rule for violation in account.violations})
    return 1


def _run(seed: int, seconds: float, faults: Sequence[Fault], directory: Path) -> Account:
    clear(directory)
    _say(f"seed {seed}, {len(faults)} faults in {seconds:g} s; everything is kept in {directory}")
    evidence = run_schedule(seed, seconds, faults, directory, _say)
    (directory / "evidence.pickle").write_bytes(pickle.dumps(evidence))
    account = account_of(evidence)
    (directory / "account.txt").write_text(account.text() + "\n")
    (directory / "page.html").write_text(page_of(evidence, seed, account.text(), is_good=account.is_good))
    sys.stdout.write(account.text() + "\n")
    return account


def _shrink(seed: int, faults: Sequence[Fault], directory: Path, rules: set[str]) -> None:
    numbers = count(1)

    def fails(smaller: Sequence[Fault]) -> bool:
        seconds = max(fault.at_s + fault.lasts_s for fault in smaller) + _AFTER_LAST_FAULT_S
        account = _run(seed, seconds, smaller, directory / f"smaller-{next(numbers)}")
        return not rules.isdisjoint(violation.rule for violation in account.violations)

    smallest = shrink(faults, fails, MOST_SHRINKS)
    seconds = max(fault.at_s + fault.lasts_s for fault in smallest) + _AFTER_LAST_FAULT_S
    path = directory / "smallest.json"
    path.write_text(to_json(seed, seconds, smallest))
    _say(f"{len(smallest)} of {len(faults)} faults are left in {path}")


def _say(text: str) -> None:
    sys.stdout.write(f"[{time.strftime('%H:%M:%S')}] {text}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m integration.chaos")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long faults come (10)")
    parser.add_argument("--seed", type=int, help="what to draw the schedule from; a fresh one otherwise")
    parser.add_argument("--schedule", type=Path, help="run this schedule again")
    parser.add_argument("--shrink", action="store_true", help="if it fails, leave out what it still fails without")
    parser.add_argument("--directory", type=Path, help="where to keep everything (build/chaos/SEED)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
