"""Has atheris choose the cases of one target, by what code they reach; slower for each case, and goes deeper.

atheris is no dependency: pip install -e '.[fuzz]'. It ends the process, and writes a finding to a file.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import atheris

from tests.fuzz.inputs import read_corpus

KEPT = Path("build/fuzz")
"""Where cases that reach new code are kept for the next run, and findings beside them."""
_LONGEST_CASE_S = 20
_MOST_MEMORY_MIB = 2048
_INSTRUMENTED = ["kafka2011", "zk"]


def run_guided(name: str, cases: int) -> None:
    """Run a target; does not return."""
    with atheris.instrument_imports(include=_INSTRUMENTED, enable_loader_override=False):
        from tests.fuzz.targets import chosen

        [target] = chosen([name])
    directory = KEPT / name
    directory.mkdir(parents=True, exist_ok=True)
    for number, case in enumerate(read_corpus(name)):
        (directory / f"kept-{number}").write_bytes(case)
    with target.open() as run:

        def one_case(data: bytes) -> None:
            with suppress(*target.refusals):
                run(data)

        options = [f"-max_len={target.max_bytes}", f"-runs={cases}", f"-timeout={_LONGEST_CASE_S}"]
        options += [f"-rss_limit_mb={_MOST_MEMORY_MIB}", f"-artifact_prefix={directory}-"]
        atheris.Setup([sys.argv[0], *options, str(directory)], one_case)
        atheris.Fuzz()
