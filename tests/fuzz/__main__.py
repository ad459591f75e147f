"""The command line: `python -m tests.fuzz sets --of 1000000 --seed 4711`.

Targets are named one by one, or by the module that they are in; all, where none is. `--case` repeats one input, given
as a line of the corpus.
"""

from __future__ import annotations

import argparse
import mmap
import resource
import secrets
import struct
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fuzz.driver import fuzz
from tests.fuzz.inputs import read_corpus, read_line, to_line
from tests.fuzz.targets import chosen

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fuzz.driver import Target

MILLION = 1_000_000
MOST_ADDRESS_SPACE_BYTES = 6 << 30
"""A case that wants more memory fails here, instead of taking the machine with it."""
MOST_GROWTH_BYTES = 200 << 20
_SIZE = struct.Struct(">I")
_MOST_NOTED_BYTES = 1 << 16


def main(arguments: list[str] | None = None) -> int:
    """Run targets, and print what came of each; 1 when there was a finding."""
    options = _parser().parse_args(arguments)
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    if not options.unlimited:
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESS_SPACE_BYTES, most))
    note = keeping_cases(options.last)
    good = True
    for target in chosen(options.targets):
        corpus = [read_line(options.case)] if options.case else read_corpus(target.name)
        cases = 1 if options.case else max(len(corpus), target.cases * options.of // MILLION)
        good &= _run(target, corpus, seed, cases, note, is_limited=not options.unlimited)
    return 0 if good else 1


def _run(
    target: Target,
    corpus: list[bytes],
    seed: int,
    cases: int,
    note: Callable[[bytes], object],
    *,
    is_limited: bool,
) -> bool:
    before_kib = 0

    def about_to_run(case: bytes) -> None:
        nonlocal before_kib
        note(case)
        before_kib = before_kib or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    result = fuzz(target, corpus, seed, cases, about_to_run)
    grown_bytes = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib)
    _say(f"{target.name}: seed {seed}, {result}, {grown_bytes >> 20} MiB more")
    for finding in result.findings:
        _say(f"\n{target.name} --case '{to_line(finding.case)}'")
        _say("".join(traceback.format_exception(finding.error)))
    has_grown = is_limited and grown_bytes > MOST_GROWTH_BYTES
    if has_grown:
        _say(f"{target.name} needs {grown_bytes >> 20} MiB more than at its start")
    return not result.findings and not has_grown


def keeping_cases(path: Path | None) -> Callable[[bytes], object]:
    """Return what keeps the case that is about to run, for whoever looks after the process has died."""
    if path is None:
        return lambda _case: None
    path.write_bytes(bytes(_MOST_NOTED_BYTES))
    with path.open("r+b") as file:
        shared = mmap.mmap(file.fileno(), _MOST_NOTED_BYTES)

    def note(case: bytes) -> None:
        kept = case[: _MOST_NOTED_BYTES - _SIZE.size]
        _SIZE.pack_into(shared, 0, len(kept))
        shared[_SIZE.size : _SIZE.size + len(kept)] = kept

    return note


def last_case(path: Path) -> bytes:
    """Return the case that was noted last."""
    data = path.read_bytes()
    (size,) = _SIZE.unpack_from(data)
    return data[_SIZE.size : _SIZE.size + size]


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*", help="targets, or modules of targets (all)")
    parser.add_argument("--of", type=int, default=MILLION, help="how many cases all targets would have together")
    parser.add_argument("--seed", type=int, help="what to draw cases from; a fresh one otherwise")
    parser.add_argument("--case", help="run this case alone: a line as in the corpus")
    parser.add_argument("--last", type=Path, help="a file that holds the case that is running")
    parser.add_argument("--unlimited", action="store_true", help="take any memory, as sanitizers do")
    return parser


if __name__ == "__main__":
    sys.exit(main())
