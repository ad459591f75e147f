"""Runs with a planted defect, one after the other, until the account names it: `python -m integration.chaos.planted`.

Seeds are drawn anew; every other run leaves whole kinds of faults out. What came of a defect is kept in a file, and is
not tried again: `--directory` says where, `--again` forgets it.
"""

from __future__ import annotations

import argparse
import json
import logging
import secrets
import signal
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from integration.chaos.account.summary import account_of
from integration.chaos.broker import clear
from integration.chaos.defects import PLANTINGS, announced
from integration.chaos.run import run_schedule
from integration.chaos.schedule import WEIGHTS, draw_schedule, swarm_of

if TYPE_CHECKING:
    from collections.abc import Callable

DIRECTORY = Path("build/chaos/planted")
RUN_S = 60.0
MOST_S = 600.0
"""So long may faults come, in all runs together, until the account names a defect."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one defect.

    `rule` is what named it in the end, or empty; `faults` and `seconds` are those of all runs, also of those that broke
    off; `others` are further rules that did not hold in the last one.
    """

    defect: str
    rule: str
    violations: int
    runs: int
    faults: int
    seconds: float
    seed: int
    others: list[str]

    @property
    def text(self) -> str:
        """Say it in a line."""
        found = f"{self.rule} ({self.violations} times)" if self.rule else "NOT FOUND"
        return f"{self.defect}: {found}, after {self.faults} faults in {self.seconds:g} s of {self.runs} runs"


def find(defect: str, directory: Path, say: Callable[[str], None]) -> Outcome:
    """Return what is known of a defect, or run with it until it is named or its time is over."""
    kept = directory / f"{defect.replace(' ', '-')}.json"
    if kept.exists():
        return Outcome(**json.loads(kept.read_text()))
    runs = faults = 0
    seconds = 0.0
    while True:
        seed = secrets.randbelow(10**6)
        drawn = draw_schedule(seed, RUN_S, swarm_of(seed) if runs % 2 else WEIGHTS)
        clear(directory / "run")
        runs += 1
        seconds += RUN_S
        faults += len(drawn)
        rules: Counter[str] = Counter()
        try:
            with announced(defect):
                evidence = run_schedule(seed, RUN_S, drawn, directory / "run", say)
        except Exception as error:  # noqa: BLE001 - a run that breaks off, as a defect may have it, has no account
            say(f"this run broke off: {type(error).__name__}: {error}")
        else:
            rules.update(violation.rule for violation in account_of(evidence).violations)
        rule = next((each for each in PLANTINGS[defect].rules if rules[each]), "")
        if rule or seconds >= MOST_S:
            others = sorted(rules.keys() - {rule})
            outcome = Outcome(defect, rule, rules[rule], runs, faults, seconds, seed, others)
            kept.write_text(json.dumps(asdict(outcome), indent=1))
            return outcome


def main(arguments: list[str] | None = None) -> int:
    """Run with each defect; 1 when one was not named."""
    parser = argparse.ArgumentParser(prog="python -m integration.chaos.planted")
    parser.add_argument("--directory", type=Path, default=DIRECTORY)
    parser.add_argument("--again", action="store_true", help="forget what earlier runs found")
    parser.add_argument("--only", default="", help="defects whose name has this in it")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # everything is ended in order
    logging.basicConfig(level=logging.ERROR)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    if options.again:
        clear(options.directory)
    options.directory.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for name in PLANTINGS:
        if options.only in name:
            outcomes.append(find(name, options.directory.absolute(), lambda _text: None))
            sys.stdout.write(f"[{time.strftime('%H:%M:%S')}] {outcomes[-1].text}\n")
            sys.stdout.flush()
    return 0 if all(outcome.rule for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
