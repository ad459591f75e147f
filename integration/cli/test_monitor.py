"""`monitor` and `consume --metrics-port`: how groups stand, for Prometheus."""

from __future__ import annotations

import urllib.request
from typing import TYPE_CHECKING

from integration.cli.calling import PARTITIONS, command, output, produce
from integration.scraping import numbers, shown_port
from tests.support.waiting import eventually
from zk.child import ChildProcess

if TYPE_CHECKING:
    from pathlib import Path


def shown_by(process: ChildProcess) -> int:
    """Wait until a process has said where it shows metrics."""
    eventually(lambda: "/metrics" in process.log_path.read_text() or process.poll() is not None, 30)
    return shown_port(process.log_path.read_text())


def test_members_lag_and_owners(tmp_path: Path, zookeeper: tuple[str, str], broker: tuple[str, str]) -> None:
    """A group that runs owns all and has no lag; once it has gone nobody owns anything, and its lag grows."""
    output("topics", "create", "watched", *zookeeper)
    produce("watched", 0, "one\ntwo\n", broker)
    watching = command("monitor", *zookeeper, "--metrics-port", 0, "--interval", 1)
    reading = command("consume", "watched", "--group", "w", "--from-beginning", "--metrics-port", 0, *zookeeper)
    reading += ["--property", "autocommit.interval.ms=100"]
    with ChildProcess(watching, tmp_path / "monitor") as monitor:
        port = shown_by(monitor)
        lag = ("kafka2011_monitor_group_lag_bytes", "0", "w", "0", "watched")
        with ChildProcess(reading, tmp_path / "member") as member:
            own = shown_by(member)
            eventually(lambda: numbers(port).get(lag) == 0, 30)
            eventually(lambda: numbers(port)["kafka2011_monitor_group_unowned_partitions", "w"] == 0, 30)
            assert numbers(port)["kafka2011_monitor_group_members", "w"] == 1
            assert numbers(port)["kafka2011_monitor_group_lag_seconds", "0", "w", "0", "watched"] == 0
            found = numbers(own)
            # What is in hand at a rebalance is handed out again, and partitions may be found one after the other.
            shown = [line for line in (tmp_path / "member").read_text().splitlines() if line in {"one", "two"}]
            assert set(shown) == {"one", "two"}
            assert found["kafka2011_consumer_messages_total", "w"] == len(shown)
            assert found["kafka2011_consumer_owned_partitions", "w"] == 2 * PARTITIONS
            with urllib.request.urlopen(f"http://127.0.0.1:{own}/healthz", timeout=20) as answer:
                assert answer.read() == b"ok\n"
        eventually(lambda: numbers(port)["kafka2011_monitor_group_members", "w"] == 0, 30)
        produce("watched", 0, "three\n", broker)
        eventually(lambda: numbers(port)[lag] == len("three") + 10, 30)
        assert numbers(port)["kafka2011_monitor_group_unowned_partitions", "w"] == 2 * PARTITIONS
        assert numbers(port)["kafka2011_monitor_failed_looks_total", "groups"] == 0
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=20) as answer:
            assert answer.read() == b"ok\n"
    assert monitor.poll() is not None
    assert "Traceback" not in (tmp_path / "monitor").read_text()
