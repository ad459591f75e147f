"""What a message costs our clients, at toy size, against real brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration.paper_benchmarks.toys import run_toy
from kafka2011 import LocalCluster
from paper_benchmarks.experiments.clients import LINES, PURE, YARDSTICKS
from paper_benchmarks.systems.kafka2011 import QUICK_COUNT

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT_S = 170


@pytest.mark.timeout(TIMEOUT_S + 10)
def test_every_line_is_measured_against_ours_and_another(zk_connect: str, tmp_path: Path) -> None:
    """Each message counted; a broker that is merely an address has no groups, and no CPU time that could be read."""
    with LocalCluster(1, zk_connect=zk_connect, properties=QUICK_COUNT) as other:
        body = run_toy("clients", tmp_path, TIMEOUT_S, "--against", f"other=127.0.0.1:{other.brokers[0].port}")
    measured = {(each["system"], each["line"]): each for each in body["lines"] if each["code"] in {PURE, "-"}}
    in_groups = {name for name, line in LINES.items() if line.needs_group}
    assert set(measured) == {
        *(("sink", name) for name in YARDSTICKS),
        *(("kafka2011", name) for name in LINES),
        *(("other", name) for name in LINES.keys() - in_groups),
    }
    assert all(each["client_cpu_us"][0] > 0 and each["rate"][0] > 0 for each in measured.values())
    assert all((each["server_cpu_us"] is None) == (system == "other") for (system, _), each in measured.items())
