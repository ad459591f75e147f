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
from integration.chaos.run import run_schedule
from integration.chaos.schedule import (
    GATEWAY_LINKS,
    GATEWAY_WEIGHTS,
    GATEWAYS,
    LINKS,
    WEIGHTS,
    draw_schedule,
    from_json,
    swarm_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from integration.chaos.account.summary import Account
    from integration.chaos.schedule import Fault


def main(arguments: list[str] | None = None) -> int:
    """Run a schedule, drawn from a seed or read from a file, and print the account; 1 when a rule did not hold."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.jars and not options.gateway:
        parser.error("--jars needs --gateway: Java clients work through gateways")
    logging.basicConfig(level=logging.ERROR, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # it complains of every server that is away
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # everything is ended in order
    if options.schedule:
        seed, seconds, faults = from_json(options.schedule.read_text())
    else:
        seed = secrets.randbelow(10**6) if options.seed is None else options.seed
        seconds = 60 * options.minutes
        kinds, links = (GATEWAY_WEIGHTS, GATEWAY_LINKS) if options.gateway else (WEIGHTS, LINKS)
        faults = draw_schedule(seed, seconds, swarm_of(seed, kinds) if options.swarm else kinds, links)
    directory = options.directory or directory_of(seed, is_again=options.schedule is not None)
    how = "SECURE=1 " if options.secure else "GATEWAY=1 " if options.gateway else ""
    how += f"JARS={options.jars} " if options.jars else ""
    gateways = GATEWAYS if options.gateway else 0
    failed = f"FAILED: seed {seed}; again with {how}SCHEDULE={directory / 'schedule.json'}"
    try:
        account = _run(seed, seconds, faults, directory, secure=options.secure, gateways=gateways, jars=options.jars)
    except Exception:
        _say(failed)
        raise
    if account.is_good:
        return 0
    _say(failed)
    return 1


def _run(
    seed: int,
    seconds: float,
    faults: Sequence[Fault],
    directory: Path,
    *,
    secure: bool,
    gateways: int,
    jars: Path | None,
) -> Account:
    clear(directory)
    _say(f"seed {seed}, {len(faults)} faults in {seconds:g} s; everything is kept in {directory}")
    evidence = run_schedule(seed, seconds, faults, directory, _say, secure=secure, gateways=gateways, jars=jars)
    (directory / "evidence.pickle").write_bytes(pickle.dumps(evidence))
    account = account_of(evidence)
    (directory / "account.txt").write_text(account.text() + "\n")
    sys.stdout.write(account.text() + "\n")
    return account


def directory_of(seed: int, *, is_again: bool) -> Path:
    """Return where to keep a run. One that comes again leaves what is known of the run before, and its schedule."""
    first = Path("build/chaos") / str(seed)
    others = (first.with_name(f"{seed}.{number}") for number in count(2))
    return next(path for path in others if not path.exists()) if is_again and first.exists() else first


def _say(text: str) -> None:
    sys.stdout.write(f"[{time.strftime('%H:%M:%S')}] {text}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m integration.chaos")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long faults come (10)")
    parser.add_argument("--seed", type=int, help="what to draw the schedule from; a fresh one otherwise")
    parser.add_argument("--schedule", type=Path, help="run this schedule again")
    parser.add_argument("--swarm", action="store_true", help="leave out whole kinds of faults, which the seed chooses")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--secure", action="store_true", help="clients connect to brokers and ZooKeeper over TLS only")
    ways.add_argument("--gateway", action="store_true", help="two gateways suffer too; a client of today produces")
    parser.add_argument("--jars", type=Path, help="those of kafka-clients: two Java clients work through the gateways")
    parser.add_argument(
        "--directory",
        type=Path,
        help="where to keep everything (build/chaos/SEED; SEED.2 and so on when a schedule comes again)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
