"""What comes out of the samples of an ablation: how much each reason is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from paper_benchmarks.experiments.ablation import chapter
from paper_benchmarks.reasons import acknowledgement, batching, page_cache, transfer
from paper_benchmarks.rounds import figures_of
from paper_benchmarks.samples import Spread

if TYPE_CHECKING:
    from pathlib import Path


def sample(line: str, rate: float, read_bytes: int = 0) -> dict[str, Any]:
    run = {"rate": rate, "client_cpu_us": 2.0, "server_cpu_us": 3.0, "server": {"read_bytes": read_bytes}}
    return {"round": 1, "line": line, "run": run}


def acknowledged() -> dict[str, Any]:
    rates = dict(zip(acknowledgement.WAYS, (60.0, 6.0, 500.0, 100.0, 300.0, 200.0), strict=True))
    return {"samples": [sample(line, rate) for line, rate in rates.items()]}


def batched() -> dict[str, Any]:
    rates = {"1": (9.0, 11.0, 10.0), "50": (100.0, 90.0, 80.0)}
    return {"samples": [sample(size, rate) for size, several in rates.items() for rate in several]}


def sent() -> dict[str, Any]:
    samples = [
        {"line": "sendfile", "bytes": 2_000_000, "wall_s": 0.001, "cpu_s": 0.0002},
        {"line": "read and send", "bytes": 1_000_000, "wall_s": 0.001, "cpu_s": 0.0003},
        {"line": "read and send", "bytes": 1_000_000, "wall_s": 0.002, "cpu_s": 0.0005},
    ]
    return {"samples": samples}


def cached() -> dict[str, Any]:
    samples = [
        sample("warm", 100.0),
        sample("cold", 20.0, 1000),
        sample("cold", 30.0, 0),
        sample("cold", 40.0, 500),
    ]
    return {"log_bytes": 1000, "samples": samples}


def test_a_line_has_the_spread_of_its_rounds() -> None:
    """Each figure for itself; what is not known stays so."""
    unknown = sample("raw", 10.0)
    unknown["run"]["server_cpu_us"] = None
    figures = figures_of([*batched()["samples"], unknown])
    assert figures["1"].rate == Spread(9.0, 10.0, 11.0)
    assert figures["1"].client_cpu_us == Spread(2.0, 2.0, 2.0)
    assert figures["raw"].server_cpu_us is None


def test_a_proof_is_compared_with_the_same_sends_without_it() -> None:
    """How many times as fast those are."""
    assert list(acknowledgement.slower(acknowledged()).values()) == [10.0, 5.0, 1.5]


def test_batches_are_compared_with_single_messages() -> None:
    """By medians."""
    assert batching.gain(batched()) == 9.0


def test_a_transfer_costs_its_sender_cpu_time() -> None:
    """For each megabyte, whatever was sent."""
    costs = transfer.costs(sent())
    assert costs["sendfile"].cpu_us.median == pytest.approx(100)
    assert costs["read and send"].cpu_us.highest == pytest.approx(500)
    assert costs["sendfile"].megabytes_per_s.median == pytest.approx(2000)


def test_a_log_is_read_from_the_disk_in_part() -> None:
    """As its size says; of several rounds the middle one."""
    assert page_cache.readings(cached()) == {"warm": (100.0, 0.0), "cold": (30.0, 0.5)}


def test_forgetting_a_log_keeps_its_bytes(tmp_path: Path) -> None:
    """Only the page cache forgets them."""
    path = tmp_path / "00000000000000000000.kafka"
    path.write_bytes(b"x" * 10_000)
    page_cache.forget(tmp_path)
    assert path.read_bytes() == b"x" * 10_000


def test_the_chapter_has_a_picture_for_each_reason(tmp_path: Path) -> None:
    """And says of each table what it shows."""
    body = {"acknowledgement": acknowledged(), "batching": batched(), "transfer": sent(), "page_cache": cached()}
    text = chapter(body, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "ablation-acknowledgement.svg",
        "ablation-batching.svg",
        "ablation-page-cache.svg",
        "ablation-sendfile.svg",
    ]
    assert "| 50 | 80.0 | 90.0 | 100 | 9.0 | 2.00 | 3.00 |" in text
    assert "| read and send | 300 | 400 | 500 | 4.00 | 750 |" in text
