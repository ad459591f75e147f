"""Work in a process of its own: what it tells, and what becomes of one that fails."""

from __future__ import annotations

import os
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from paper_benchmarks.clients.job import Job
from paper_benchmarks.experiments.floors import PARTS, measure_parts
from paper_benchmarks.measuring.errors import BenchmarkError
from paper_benchmarks.measuring.payloads import batches, payloads
from paper_benchmarks.measuring.usage import process_cpu_s
from paper_benchmarks.measuring.worker import Worker
from paper_benchmarks.workers.sockets import COPY, MEMORY, SENDFILE, send_file

if TYPE_CHECKING:
    from pathlib import Path

DRIVER = "paper_benchmarks.clients.kafka2011"


@pytest.mark.parametrize("way", [SENDFILE, COPY, MEMORY])
def test_a_yardstick_is_measured_with_every_byte_counted(way: str, tmp_path: Path) -> None:
    """The sink and the sender, each in its process."""
    (tmp_path / "file").write_bytes(bytes(1_000_000))
    found = send_file(tmp_path / "file", way, 2, 300_000)
    assert found.amount == 2
    assert min(found.cpu_s, found.wall_s, found.server_cpu_s or 0) > 0


def test_every_part_of_a_floor_costs_something(tmp_path: Path) -> None:
    """Or at least not less than nothing, for what takes less than the clock can tell."""
    found = measure_parts(tmp_path, 2)
    assert found.keys() == PARTS.keys()
    assert min(found.values()) >= 0
    assert not list(tmp_path.iterdir())


def test_a_worker_that_fails_is_named_with_its_last_words() -> None:
    """Before it is ready, too."""
    job = Job(do="produce", client="none", topic="t", messages=1, every=1)
    with pytest.raises(BenchmarkError, match=rf"(?s){DRIVER} .*ended with status 1: .*KeyError: 'none'"):
        Worker(DRIVER, job.facts()).__enter__()


def test_a_worker_that_hangs_is_ended() -> None:
    """Nothing is waited for without a limit."""
    ended = pytest.raises(BenchmarkError, match="ended with status -9")
    with ended, Worker("paper_benchmarks.workers.sockets", {"do": "sink"}, deadline_s=1) as receiver:
        receiver.result()  # though nobody told it to go


def test_the_choice_of_code_reaches_the_worker() -> None:
    """`pure` is Python, whatever is built."""
    with Worker("paper_benchmarks.workers.sockets", {"do": "sink"}, pure=True) as receiver:
        assert receiver.facts["code"] == "messages in Python"


def test_the_cpu_time_of_a_process_is_that_of_all_its_threads() -> None:
    """As exact as the process's own clock."""
    readings = [time.process_time(), process_cpu_s(os.getpid()), time.process_time()]
    assert all(earlier <= later for earlier, later in pairwise(readings))


def test_payloads_are_as_many_as_asked_for_and_of_one_size() -> None:
    """A thousand different ones, in lists of 50 where lists are sent."""
    assert [len(each) for each in payloads(3)] == [200] * 3
    assert len(set(payloads(2500))) == 1000
    assert [len(batch) for batch in batches(120)] == [50, 50, 20]
