"""Some chaos for every day: a fresh seed each time, which is printed."""

from __future__ import annotations

import gc
import secrets
import sys
from typing import TYPE_CHECKING

import pytest

from integration.chaos.account.summary import account_of
from integration.chaos.run import run_schedule
from integration.chaos.schedule import GATEWAY_LINKS, GATEWAY_WEIGHTS, GATEWAYS, LINKS, WEIGHTS, draw_schedule, swarm_of

if TYPE_CHECKING:
    from pathlib import Path

FAULTS_S = 45.0
"""With the start and the end, about 60 seconds in all."""


@pytest.mark.slow
@pytest.mark.timeout(150)
# asyncio does not close what a server has accepted, but not yet made a stream of, when the server is closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_cluster_whose_parts_fail_at_random(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever fails, every rule holds in the end: see docs/explanation/chaos.md.

    The seed is printed, and the schedule on failure.
    """
    seed = secrets.randbelow(10**6)
    with capsys.disabled():
        sys.stdout.write(f"\nchaos: seed {seed}\n")
    is_odd = bool(seed % 2)  # then with fewer kinds of faults, and over TLS
    gateways = 0 if seed % 4 else GATEWAYS
    kinds = swarm_of(seed) if is_odd else GATEWAY_WEIGHTS if gateways else WEIGHTS
    faults = draw_schedule(seed, FAULTS_S, kinds, GATEWAY_LINKS if gateways else LINKS)

    def say(text: str) -> None:
        sys.stdout.write(f"{text}\n")

    evidence = run_schedule(seed, FAULTS_S, faults, tmp_path / "run", say, secure=is_odd, gateways=gateways)
    account = account_of(evidence)
    gc.collect()  # so that nothing of this is collected, and warned of, in another test
    schedule = (tmp_path / "run" / "schedule.json").read_text()
    assert account.is_good, f"seed {seed}\n{account.text()}\n{schedule}"
