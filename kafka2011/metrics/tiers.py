"""Metrics of the processes that carry messages on: mirrors and collectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.metrics.clients import PRODUCER_METRICS, of_producers
from kafka2011.metrics.metric import counter, gauge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka2011.metrics.metric import Metric, Samples

_SOURCE = "source"

_OF_SOURCES = {
    "sets": counter("mirror_sets", "Sets that the target has confirmed.", _SOURCE),
    "messages": counter(
        "mirror_messages", "Messages that the target has confirmed; a compressed set counts as one.", _SOURCE
    ),
    "bytes": counter("mirror_confirmed_bytes", "Bytes that the target has confirmed.", _SOURCE),
    "skipped": counter("mirror_skipped_messages", "Messages left out, as the target refuses them.", _SOURCE),
    "skipped_bytes": counter("mirror_skipped_bytes", "Bytes of them.", _SOURCE),
    "repeated_bytes": counter(
        "mirror_maybe_repeated_bytes", "Bytes sent and not committed when a partition was given up.", _SOURCE
    ),
    "halted": gauge("mirror_halted_partitions", "Partitions not copied any further, after an error.", _SOURCE),
    "rebalances": counter("mirror_rebalances", "Rebalances of the group in the source that ended well.", _SOURCE),
    "failed_rebalances": counter("mirror_failed_rebalances", "Rebalances that were given up, to try again.", _SOURCE),
    "fetch_errors": counter("mirror_fetch_errors", "Fetches from the source that failed.", _SOURCE),
    "commits": counter("mirror_commits", "Offsets that were written to the source's ZooKeeper.", _SOURCE),
}

MIRROR_METRICS: tuple[Metric, ...] = (*_OF_SOURCES.values(), *PRODUCER_METRICS)

_OF_COLLECTORS = {
    "lines_sent": counter("collect_lines_sent", "Lines that were sent."),
    "lines_confirmed": counter("collect_lines_confirmed", "Lines that brokers have confirmed."),
    "lines_resent": counter("collect_lines_resent", "Lines that were sent again."),
    "lines_refused": counter("collect_lines_refused", "Lines that a broker refused."),
    "lines_too_long": counter("collect_lines_too_long", "Lines over the longest that is allowed."),
    "lines_without_end": counter("collect_lines_without_end", "Last lines of files that had no end."),
    "nul_bytes_skipped": counter("collect_nul_skipped_bytes", "NUL bytes that were left out."),
    "lines_unparsed": counter("collect_lines_unparsed", "Lines of access logs that could not be parsed."),
    "lines_dropped": counter("collect_lines_dropped", "Lines dropped because the spool was full."),
    "rotations": counter("collect_rotations", "Files that were rotated."),
    "truncations": counter("collect_truncations", "Files that became shorter."),
    "losses": counter("collect_losses", "Times that something is known to be lost."),
    "bytes_lost": counter("collect_lost_bytes", "Bytes known to be lost by a truncation or a deleted file."),
    "bytes_maybe_repeated": counter(
        "collect_maybe_repeated_bytes", "Bytes sent before the last run ended and not known to be confirmed."
    ),
    "files_refused": counter("collect_files_refused", "Files that were not read."),
    "failed_reads": counter("collect_failed_reads", "Reads that failed."),
    "failed_saves": counter("collect_failed_saves", "Times that positions could not be saved."),
}

COLLECT_METRICS: tuple[Metric, ...] = tuple(_OF_COLLECTORS.values())


def mirror_samples(counts: Mapping[str, Mapping[str, int]], target: str) -> Samples:
    """Return what a mirror has counted by its sources, and in the producer of its target."""
    sources = {source: counted for source, counted in counts.items() if source != target}
    return {
        **{
            metric: {(source,): counted.get(name, 0) for source, counted in sources.items()}
            for name, metric in _OF_SOURCES.items()
        },
        **of_producers(counts.get(target, {})),
    }


def collect_samples(counts: Mapping[str, int]) -> Samples:
    """Return what a collector has counted."""
    return {metric: {(): counts.get(name, 0)} for name, metric in _OF_COLLECTORS.items()}
