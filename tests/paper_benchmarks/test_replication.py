"""What the chapter on replicas makes of what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paper_benchmarks.experiments import replication_catch_up as catch_up
from paper_benchmarks.experiments import replication_rates as rates
from paper_benchmarks.experiments.replication import chapter
from paper_benchmarks.experiments.replication_takeover import NO_GAP


def line(followers: int, *rate: float) -> dict[str, Any]:
    cpu = {"client_cpu_us": [0.5], "leader_cpu_us": [1.0], "follower_cpu_us": [0.8]}
    return {"sent": rates.CONFIRMED, "followers": followers, "rate": list(rate), **cpu}


BODY: dict[str, Any] = {
    "rates": [line(0, 1000.0, 500.0, 100.0), line(1, 600.0, 250.0, 40.0)],
    "takeovers": [{"setting": NO_GAP, "registered_s": [0.03], "read_s": [0.06]}],
    "catch_up": {
        "bytes": 700_000_000,
        "limit_bytes_per_s": 20_000_000,
        "mb_per_s": {catch_up.DISK: [400.0, 100.0, 300.0], catch_up.CATCH_UP: [200.0, 100.0, 300.0]},
        "tails": [
            {"line": catch_up.ALONE, "p50_ms": [5.0], "p99_ms": [10.0], "copied_mb": [0.0]},
            {"line": catch_up.UNLIMITED, "p50_ms": [7.0], "p99_ms": [20.0], "copied_mb": [600.0]},
        ],
    },
}


def test_the_chapter_compares_within_rounds() -> None:
    """A broker with followers with one that has none, and a replica that catches up with the disk."""
    text = chapter(BODY, Path())
    confirmed = "| async, confirmed | {} | {} | {} | 0.500 | 1.00 | {} |"
    assert confirmed.format(0, "500 (100 to 1,000)", "-", "-") in text
    assert confirmed.format(1, "250 (40 to 600)", "0.500 (0.400 to 0.600)", "0.800") in text
    assert "| a replica catches up | 200 (100 to 300) | 1.00 (0.500 to 1.00) |" in text


def test_the_chapter_has_takeovers_and_readers_at_the_end() -> None:
    """What a follower copied is said where one did."""
    text = chapter(BODY, Path())
    assert f"| {NO_GAP} | 0.0300 | 0.0600 |" in text
    assert "| no follower | 5.00 | 10.0 | - |" in text
    assert "| one catches up, no limit | 7.00 | 20.0 | 600 |" in text
    assert "a leader with 700 MB" in text
    assert "The limit is 20 MB/s." in text
