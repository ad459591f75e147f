"""Tests of reading the lines that long-lived Java clients write."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from integration.gateway.endless import EndlessProducer, Line, lines_of
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

LINES = (
    "1.500000 acked 3 java-3-17 4711",
    "2.000000 failed 0 java-0-18 org.apache.kafka.common.errors.TimeoutException: too late",
    "2.500000 acked 1 java-1-19 -1",
)

ENDING_IN_ORDER = """
import signal, sys
def end(*_):
    with open(sys.argv[1], "a") as file:
        file.write("3.000000 ended 0 -\\n")
    sys.exit(143)
signal.signal(signal.SIGTERM, end)
print(1, flush=True)
signal.pause()
"""


def producer_of(directory: Path, *lines: str) -> EndlessProducer:
    producer = EndlessProducer("host:1", "views", 4, "java-", "producer", directory, directory)
    producer.path.write_text("".join(f"{line}\n" for line in lines))
    return producer


def test_a_line_that_is_torn_is_not_read(tmp_path: Path) -> None:
    """A value may hold spaces."""
    path = tmp_path / "lines"
    assert list(lines_of(path, "member")) == []
    path.write_bytes(b"1.5 got 3 keyed.1 17 k1 abc\n2.0 ended 0 -\n2.5 got 3 key")
    assert list(lines_of(path, "member")) == [Line(1.5, b"got", "member", "3", b"keyed.1 17 k1 abc")]


def test_what_was_acknowledged_and_what_was_not(tmp_path: Path) -> None:
    """A record without an offset is a problem, and so is one that was given up."""
    producer = producer_of(tmp_path, *LINES)
    assert [record[1:] for record in producer.acknowledged()] == [(b"java-3-17", 3, 4711), (b"java-1-19", 1, -1)]
    failed, unplaced = producer.problems()
    assert "java-0-18" in failed
    assert "TimeoutException" in failed
    assert "java-1-19 was acknowledged with offset -1" in unplaced
    assert list(producer_of(tmp_path, LINES[0]).problems()) == []


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("pass", "has ended by itself, with 0"),
        ("print(1, flush=True); import time; time.sleep(60)", "did not end in order"),
        (ENDING_IN_ORDER, None),
    ],
)
def test_a_client_must_not_end_by_itself(program: str, problem: str | None, tmp_path: Path) -> None:
    """A client that ends without its last line is a problem, too."""
    producer = producer_of(tmp_path, LINES[0])
    producer.process.command = [sys.executable, "-c", program, str(producer.path)]
    with producer:
        eventually(lambda: producer.process.log_path.stat().st_size or not producer.process.running)
        problems = list(producer.stop())
    assert [problem in text for text in problems if problem] == ([True] if problem else [])
    assert bool(problems) == bool(problem)
