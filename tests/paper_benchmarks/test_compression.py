"""Ratios and costs of codecs, from samples to the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from paper_benchmarks.experiments.compression import BATCHES, CODECS, WHERE, chapter, summary
from paper_benchmarks.workers.event_producer import page_views

if TYPE_CHECKING:
    from pathlib import Path

STORED_BYTES = {"none": 100_000, "gzip": 25_000, "snappy": 50_000}


def sample(codec: str, batch: int, cpu_s: float) -> dict[str, Any]:
    stored_bytes = STORED_BYTES[codec] * BATCHES[0] // batch
    return {"event_bytes": 90.0, "stored_bytes": stored_bytes, "cpu_s": dict.fromkeys(WHERE, cpu_s)}


FOUND = {
    (codec, batch): [sample(codec, batch, cpu_s) for cpu_s in (0.001, 0.009, 0.002)]
    for batch in BATCHES
    for codec in CODECS
}


def test_a_ratio_is_that_of_sets_of_the_same_size() -> None:
    """And costs are medians of the rounds."""
    found = {(each["codec"], each["batch"]): each for each in summary(FOUND, 1000)["lines"]}
    assert [found[codec, 200]["ratio"] for codec in CODECS] == [1, 4, 2]
    assert found["gzip", BATCHES[0]]["bytes"] == pytest.approx(25)
    assert found["gzip", 200]["cpu_us"]["mirror"] == pytest.approx(2)


def test_page_views_are_made_to_the_number() -> None:
    """Each with its header, so that they are not alike."""
    assert len({str(each) for each in page_views(50)}) == 50


def test_the_chapter_has_a_row_for_each_codec_and_size_of_sets(tmp_path: Path) -> None:
    """And a picture."""
    text = chapter(summary(FOUND, 1000), tmp_path)
    assert (tmp_path / "compression.svg").exists()
    assert "| gzip | 50 | 25.0 | 4.00 | 2.00 |" in text
