"""Groups of clients of both protocols, with a Java consumer and a Java producer that must live for ever.

Each round is kept in build/gateway_groups, and is not run again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from proof.answer_codes.clients import jars_of_java

RESULTS = Path(__file__).parents[1] / "build" / "gateway_groups"
MINUTES, ROUNDS = 5, 3
ROUND_S = 60 * MINUTES + 600

pytestmark = pytest.mark.timeout(ROUNDS * ROUND_S)


@pytest.mark.parametrize("replicas", [1, 2])
def test_java_clients_live_through_everything(replicas: int) -> None:
    """Brokers and gateways are killed, stopped and paused; with two replicas the other one takes over."""
    jars = jars_of_java()
    if jars is None:
        pytest.skip("there is no JDK or Maven here")
    directory = RESULTS / f"replicas-{replicas}"
    options = ["--minutes", MINUTES, "--rounds", ROUNDS, "--replicas", replicas, "--directory", directory]
    options += ["--jars", jars]
    command = [sys.executable, "-m", "integration.gateway.groups", *map(str, options)]
    assert subprocess.run(command, check=False, timeout=ROUNDS * ROUND_S).returncode == 0
    rounds = [json.loads(path.read_text("utf-8")) for path in directory.glob("round-*.json")]
    assert len(rounds) == ROUNDS
    assert all(each["acknowledged"] and not each["problems"] for each in rounds)
