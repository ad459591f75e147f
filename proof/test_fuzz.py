"""Ten million hostile cases, in pieces: what was run is kept in build/fuzz, so that it can be stopped and resumed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.__main__ import MILLION, last_case
from tests.fuzz.inputs import to_line
from tests.fuzz.targets import MODULES

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "build/fuzz"
MILLIONS = 10
TIMEOUT_S = 900

pytestmark = pytest.mark.timeout(MILLIONS * TIMEOUT_S)


@pytest.mark.parametrize("module", MODULES)
def test_ten_million_cases(module: str, tmp_path: Path) -> None:
    """Run ten seeds of a million cases each; `make test` runs a quarter of a million."""
    for seed in range(MILLIONS):
        kept = KEPT / f"{module}-{seed}.json"
        if not kept.exists():
            said = run(module, seed, tmp_path / "last")
            KEPT.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(said.splitlines(), indent=1))


def run(module: str, seed: int, last: Path) -> str:
    """Run a million cases' share of a module, and return what it says."""
    command = [sys.executable, "-m", "tests.fuzz", module, "--of", str(MILLION), "--seed", str(seed)]
    done = subprocess.run(
        [*command, "--last", str(last)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-5000:]}\nthe last case: {to_line(last_case(last))}"
    return done.stdout
