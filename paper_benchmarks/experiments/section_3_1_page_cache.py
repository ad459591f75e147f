"""The page cache: one log read warm, after the broker was restarted, and from the disk."""

from __future__ import annotations

import os
import statistics
from typing import TYPE_CHECKING, Any

from paper_benchmarks.clients.measure import consume, produce
from paper_benchmarks.measuring.spread import Spread
from paper_benchmarks.pages.pictures import columns, image, plots, thousands
from paper_benchmarks.pages.tables import figure, table, text
from paper_benchmarks.systems.kafka2011 import KIND

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from paper_benchmarks.clients.measure import Run
    from paper_benchmarks.experiments.experiment import Bench
    from paper_benchmarks.systems.kafka2011 import KafkaBroker

WARM, RESTARTED, COLD, AGAIN = "warm", "broker restarted", "cold", "again after that"

TEXT = """\
The paper (section 3.1): the broker keeps no messages in its own memory, only the file system's page cache has them, and
so the cache stays warm when the broker is restarted.

One log is read from its beginning, in fetches of 200 KB, by a client that does not look at the bytes: just after it was
written (warm), after the broker was stopped and started, after the kernel was told to forget the file
(`posix_fadvise(DONTNEED)`: cold), and once more. On the left messages a second, higher is better; on the right what the
broker's process read from the disk for it, as its `/proc/PID/io` says. A claim that holds shows no bytes from the disk
and the warm rate after a restart. On a tmpfs, or where the disk itself is cached by what lies below this machine, the
cold line is no slower than such a disk is."""


def measure(bench: Bench, broker: KafkaBroker) -> dict[str, Any]:
    """Read one log in each state, in turn."""
    messages = bench.sized(toy=1000, small=2_000_000, paper=10_000_000)
    server = broker.broker
    assert server is not None
    sent = produce(KIND, broker, "raw", messages, batch=50)
    directory = server.log_dir / f"{sent.topic}-0"

    def once(state: str) -> Run:
        if state == RESTARTED:
            server.stop()
            server.start()
        elif state == COLD:
            forget(directory)
        return consume(KIND, broker, "raw", sent.topic, sent.landed)

    found = bench.in_turn([WARM, RESTARTED, COLD, AGAIN], once)
    log_bytes = sum(path.stat().st_size for path in directory.glob("*.kafka"))
    return {"log_bytes": log_bytes, "states": [reading(state, runs, log_bytes) for state, runs in found.items()]}


def reading(state: str, runs: Sequence[Run], log_bytes: int) -> dict[str, Any]:
    """Return how fast a log was read in one state, and how much of it came from the disk: 1 is all of it; a median."""
    read = [run.server.read_bytes for run in runs if run.server is not None]
    return {
        "state": state,
        "rate": Spread.of(run.rate for run in runs),
        "from_disk": statistics.median_high(read) / log_bytes,
    }


def forget(directory: Path) -> None:
    """Have the page cache forget the segments of a log, which must be on disk before it can."""
    for path in directory.glob("*.kafka"):
        with path.open("rb") as segment:
            os.fsync(segment.fileno())
            os.posix_fadvise(segment.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def from_disk(body: Mapping[str, Any], state: str) -> float:
    """Return the share of the log that was read from the disk in a state."""
    return float(next(each["from_disk"] for each in body["states"] if each["state"] == state))


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw rate and bytes from the disk for each state, and put them into a table."""
    states, megabytes = body["states"], body["log_bytes"] / 1e6
    path = pictures / "ablation-page-cache.svg"
    with plots(path, 2, width=9, height=3) as [rates, disk]:
        columns(rates, {each["state"]: each["rate"][1] for each in states}, "messages/s", fmt="{:,.0f}")
        thousands(rates)
        read = {each["state"]: each["from_disk"] * megabytes for each in states}
        columns(disk, read, f"MB read from the disk, of {megabytes:,.0f}", colour="#8a6d3b", fmt="{:,.1f}")
        disk.set_ylim(bottom=0)
    return "\n\n".join(
        [
            TEXT,
            image(path, "A log read warm and cold"),
            table(
                states,
                [
                    ("state", text("state")),
                    ("messages/s, median", figure("rate", 1)),
                    ("x warm", lambda row: f"{row['rate'][1] / states[0]['rate'][1]:.2f}"),
                    ("MB from the disk", lambda row: f"{row['from_disk'] * megabytes:,.1f}"),
                    ("of the log", lambda row: f"{row['from_disk']:.0%}"),
                ],
            ),
        ]
    )
