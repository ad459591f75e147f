"""The page cache: one log read warm, after the broker was restarted, and from the disk."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from paper_benchmarks.markdown import significant, table
from paper_benchmarks.measure import Run, consume, produce
from paper_benchmarks.pictures import colour, image, plots, thousands
from paper_benchmarks.rounds import figures_of, in_turn
from paper_benchmarks.systems.kafka import KIND, OWN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from paper_benchmarks.experiment import Bench
    from paper_benchmarks.systems.kafka import KafkaBroker

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


class Reading(NamedTuple):
    """How fast a log was read in one state, and how much of it came from the disk: 1 is all of it. Medians."""

    rate: float
    from_disk: float


def measure(bench: Bench, broker: KafkaBroker) -> dict[str, Any]:
    """Read one log in each state, in turn."""
    messages = bench.messages(toy=1000, small=2_000_000, paper=10_000_000)
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

    samples = in_turn(bench, [WARM, RESTARTED, COLD, AGAIN], once)
    return {"log_bytes": sum(path.stat().st_size for path in directory.glob("*.kafka")), "samples": samples}


def forget(directory: Path) -> None:
    """Have the page cache forget the segments of a log, which must be on disk before it can."""
    for path in directory.glob("*.kafka"):
        with path.open("rb") as segment:
            os.fsync(segment.fileno())
            os.posix_fadvise(segment.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def readings(body: Mapping[str, Any]) -> dict[str, Reading]:
    """Return rate and share from the disk of each state."""
    samples = body["samples"]
    found = {}
    for state, figures in figures_of(samples).items():
        read = sorted(sample["run"]["server"]["read_bytes"] for sample in samples if sample["line"] == state)
        found[state] = Reading(figures.rate.median, read[len(read) // 2] / body["log_bytes"])
    return found


def chapter(body: Mapping[str, Any], pictures: Path) -> str:
    """Draw rate and bytes from the disk for each state, and put them into a table."""
    found = readings(body)
    path = pictures / "ablation-page-cache.svg"
    with plots(path, 2, width=9, height=3) as [rates, disk]:
        bars = rates.bar(list(found), [each.rate for each in found.values()], color=colour(OWN))
        rates.bar_label(bars, fmt=lambda rate: f"{rate:,.0f}", fontsize=8)
        rates.set_ylabel("messages/s")
        thousands(rates)
        megabytes = body["log_bytes"] / 1e6
        bars = disk.bar(list(found), [each.from_disk * megabytes for each in found.values()], color="#8a6d3b")
        disk.bar_label(bars, fmt=lambda value: f"{value:,.1f}", fontsize=8)
        disk.set_ylabel(f"MB read from the disk, of {megabytes:,.0f}")
        disk.set_ylim(bottom=0)
        for axes in (rates, disk):
            axes.grid(visible=False, axis="x")
            axes.margins(y=0.12)
    rows = [
        (
            state,
            significant(each.rate),
            f"{each.rate / found[WARM].rate:.2f}",
            f"{each.from_disk * megabytes:,.1f}",
            f"{each.from_disk:.0%}",
        )
        for state, each in found.items()
    ]
    columns = ("state", "messages/s, median", "x warm", "MB from the disk", "of the log")
    return "\n\n".join([TEXT, image(path, "A log read warm and cold"), table(columns, rows)])
