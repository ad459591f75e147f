"""The second machine's lesser parts: what is missing, and processors; and what the chapter makes of runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from paper_benchmarks.experiments.link import LINES, LINK, LOOPBACK, chapter
from paper_benchmarks.measuring.network import NoNetworkError, halves, pin, pinned, two_machines
from tests.paper_benchmarks.runs import figures

if TYPE_CHECKING:
    from pathlib import Path


def test_it_says_which_command_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None if program == "tc" else f"/sbin/{program}")
    with pytest.raises(NoNetworkError, match="no command tc"), two_machines():
        pass


def test_both_machines_have_processors() -> None:
    near, far = halves()
    assert near
    assert far
    assert near | far == os.sched_getaffinity(0)


def test_this_thread_comes_back_to_all_processors() -> None:
    every = os.sched_getaffinity(0)
    one = {min(every)}
    with pinned(one):
        assert os.sched_getaffinity(0) == one
    assert os.sched_getaffinity(0) == every


def test_another_process_is_pinned() -> None:
    one = {max(os.sched_getaffinity(0))}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        pin(process.pid, one)
        assert os.sched_getaffinity(process.pid) == one
        process.communicate(b"\n", timeout=30)


def measured(*ways: str) -> list[dict[str, object]]:
    return [{"way": way, "line": line, **figures(473_934.0, None)} for way in ways for line in LINES]


def test_the_share_of_the_link_is_that_of_requests(tmp_path: Path) -> None:
    """Of 210 bytes and a fiftieth of a header for each message: 0.8 of a gigabit."""
    body = {"bits_per_s": 1_000_000_000, "missing": "", "lines": measured(LOOPBACK, LINK)}
    text = chapter(body, tmp_path)
    assert "| 1 Gb/s: SyncProducer, batch 50 | 473,934 | 473,934 | 473,934 | 798 | 80% | 1.00 | - |" in text
    assert "| loopback: SyncProducer, batch 50 | 473,934 | 473,934 | 473,934 | 798 | - | 1.00 | - |" in text


def test_a_link_that_cannot_be_is_left_out_with_the_reason(tmp_path: Path) -> None:
    body = {"bits_per_s": 1_000_000_000, "missing": "it takes root", "lines": measured(LOOPBACK)}
    assert "The link is left out: it takes root." in chapter(body, tmp_path)
