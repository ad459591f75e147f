"""What comes out of the samples of an ablation: how much each reason is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from paper_benchmarks.experiments import section_3_1_page_cache as page_cache
from paper_benchmarks.experiments import section_3_1_sendfile as sendfile
from paper_benchmarks.experiments import section_5_batching as batching
from paper_benchmarks.experiments import section_5_no_acknowledgement as acknowledgement
from paper_benchmarks.experiments.ablation import chapter
from paper_benchmarks.experiments.experiment import plain
from paper_benchmarks.measuring.spread import Sample, Spread
from paper_benchmarks.measuring.spread import figures as figures_of
from tests.paper_benchmarks.runs import figures, run, sample

if TYPE_CHECKING:
    from pathlib import Path


def acknowledged() -> dict[str, Any]:
    rates = zip(acknowledgement.WAYS, (60.0, 6.0, 500.0, 100.0, 300.0, 200.0), strict=True)
    return {line: figures(rate) for line, rate in rates}


def batched() -> dict[str, Any]:
    rates = {"1": (9.0, 11.0, 10.0), "50": (100.0, 90.0, 80.0)}
    return {size: plain(figures_of([sample(rate) for rate in several])) for size, several in rates.items()}


def sent() -> dict[str, Any]:
    copies = [
        Sample(amount=1.0, wall_s=0.001, cpu_s=0.0003),
        Sample(amount=1.0, wall_s=0.002, cpu_s=0.0005),
    ]
    found = {"sendfile": [Sample(amount=2.0, wall_s=0.001, cpu_s=0.0002)], "read and send": copies}
    return {way: sendfile.cost(samples) for way, samples in found.items()}


def cached() -> dict[str, Any]:
    cold = [run("consume", rate, read_bytes=read) for rate, read in ((20.0, 1000), (30.0, 0), (40.0, 500))]
    states = {"warm": [run("consume", 100.0)], "cold": cold}
    return {"log_bytes": 1000, "states": [page_cache.reading(state, runs, 1000) for state, runs in states.items()]}


def test_a_line_has_the_spread_of_its_rounds() -> None:
    """Each figure for itself; what is not known stays so."""
    found = figures_of([sample(9.0), sample(11.0), sample(10.0)])
    assert found["rate"] == Spread(9.0, 10.0, 11.0)
    assert found["client_cpu_us"] == pytest.approx((2.0, 2.0, 2.0))
    assert figures_of([sample(10.0, server_cpu_us=None)])["server_cpu_us"] is None


def test_a_proof_is_compared_with_the_same_sends_without_it() -> None:
    """How many times as fast those are."""
    assert list(acknowledgement.slower(acknowledged()).values()) == [10.0, 5.0, 1.5]


def test_batches_are_compared_with_single_messages() -> None:
    """By medians."""
    assert batching.gain(batched()) == 9.0


def test_a_transfer_costs_its_sender_cpu_time() -> None:
    """For each megabyte, whatever was sent."""
    costs = sent()
    assert costs["sendfile"]["cpu_us"].median == pytest.approx(100)
    assert costs["read and send"]["cpu_us"].highest == pytest.approx(500)
    assert costs["sendfile"]["rate"].median == pytest.approx(2000)


def test_a_log_is_read_from_the_disk_in_part() -> None:
    """As its size says; of several rounds the middle one."""
    assert [(each["rate"].median, each["from_disk"]) for each in cached()["states"]] == [(100.0, 0.0), (30.0, 0.5)]


def test_forgetting_a_log_keeps_its_bytes(tmp_path: Path) -> None:
    """Only the page cache forgets them."""
    path = tmp_path / "00000000000000000000.kafka"
    path.write_bytes(b"x" * 10_000)
    page_cache.forget(tmp_path)
    assert path.read_bytes() == b"x" * 10_000


def test_the_chapter_has_a_picture_for_each_reason(tmp_path: Path) -> None:
    """And says of each table what it shows."""
    body = {"acknowledgement": acknowledged(), "batching": batched(), "sendfile": sent(), "page_cache": cached()}
    text = chapter(plain(body), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "ablation-acknowledgement.svg",
        "ablation-batching.svg",
        "ablation-page-cache.svg",
        "ablation-sendfile.svg",
    ]
    assert "| 50 | 80.0 | 90.0 | 100 | 9.0 | 2.00 | 3.00 |" in text
    assert "| read and send | 300 | 400 | 500 | 4.00 | 750 |" in text
