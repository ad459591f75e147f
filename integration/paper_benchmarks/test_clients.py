"""`python -m paper_benchmarks clients`, at toy size, against real brokers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from kafka2011 import LocalCluster, MessageStream
from paper_benchmarks.clients.lines import LINES, YARDSTICKS
from paper_benchmarks.systems.kafka import QUICK_COUNT

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 110


def test_every_line_is_measured_against_ours_and_another(zk_connect: str, tmp_path: Path) -> None:
    """Each message counted; a broker that is merely an address has no groups, and no CPU time that could be read."""
    output = tmp_path / "clients.json"
    arguments = ["--rounds", "1", "--scale", "0.001", "--pure", "--log-base", tmp_path, "--output", output]
    with LocalCluster(1, zk_connect=zk_connect, properties=QUICK_COUNT) as other:
        arguments += ["--against", f"other=127.0.0.1:{other.brokers[0].port}"]
        done = subprocess.run(
            [sys.executable, "-m", "paper_benchmarks", "clients", *map(str, arguments)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    document = json.loads(output.read_text(encoding="utf-8"))
    measured = {(each["system"], each["line"]): each for each in document["samples"]}
    lines = {line.name for line in LINES if line.name != "batches" or hasattr(MessageStream, "batches")}
    in_groups = {line.name for line in LINES if line.needs_group}
    assert set(measured) == {
        *(("sink", yardstick.name) for yardstick in YARDSTICKS),
        *(("kafka2011", name) for name in lines),
        *(("other", name) for name in lines - in_groups),
    }
    assert all(each["cpu_s"] > 0 and each["wall_s"] > 0 and each["messages"] >= 100 for each in measured.values())
    assert {system for (system, _), each in measured.items() if each["broker_cpu_s"] is not None} == {"kafka2011"}
    assert {each["title"] for each in document["results"]} >= {"broker, batch 1", "broker, batch 50"}
    assert "SyncProducer, batch 50" in done.stdout
    assert not list(tmp_path.glob("kafka2011-bench-*"))  # the logs went with the broker
