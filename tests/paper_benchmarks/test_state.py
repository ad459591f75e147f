"""What servers write while they are read, from what was measured of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paper_benchmarks.experiments.section_5_no_delivery_state import chapter, written_for_each

if TYPE_CHECKING:
    from pathlib import Path


def line(kind: str, consume_bytes: int, zookeeper_bytes: int | None = None) -> dict[str, Any]:
    return {
        "kind": kind,
        "title": kind,
        "rest_s": 5,
        "rest_bytes": 7,
        "consume_bytes": consume_bytes,
        "zookeeper_bytes": zookeeper_bytes,
        "messages": 1000,
        "processes": 2,
        "threads": 30,
        "memory_bytes": 50_000_000,
    }


BODY = {"lines": [line("kafka2011", 0, 4096), line("activemq", 250_000)]}


def test_what_is_written_is_told_for_each_message() -> None:
    """Beside what the same server writes at rest."""
    assert [written_for_each(line) for line in BODY["lines"]] == [0.0, 250.0]


def test_the_chapter_says_what_our_broker_wrote(tmp_path: Path) -> None:
    """Whatever that is, and what ZooKeeper wrote instead."""
    text = chapter(BODY, tmp_path)
    assert "Our broker wrote nothing while 1,000 messages were read from it." in text
    assert "wrote 4,096 bytes in that time" in text
    assert "| activemq | 1,000 | 250,000 | 250.00 | 7 | 2 | 30 | 50 |" in text
    assert "Our broker wrote 12 bytes" in chapter({"lines": [line("kafka2011", 12)]}, tmp_path)
