"""What one message costs, as it was measured: from results where they lie, else as it was measured before."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kafka2011 import MessageSet
from kafka2011.protocol import produce_frame, topic_field
from paper_benchmarks.payloads import BATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

_TOPIC = "page_views"
_OWN = "kafka2011"
_SHIPPED = "shipped"


@dataclass(frozen=True, slots=True)
class Costs:
    """CPU time in microseconds: of a broker and of clients for a message, of ZooKeeper for a request.

    The defaults were measured on two cores of an AMD EPYC, with much else going on. `sources` says which ones came from
    which file of results.
    """

    broker_produce_us: float = 2.27
    """In batches of 50."""
    broker_produce_single_us: float = 4.08
    broker_fetch_us: float = 0.29
    producer_us: float = 0.47
    producer_single_us: float = 4.96
    consumer_us: float = 0.93
    mirror_us: float = 0.58
    """Of sets of 50, uncompressed."""
    load_us: float | None = None
    zk_write_us: float = 365.0
    zk_read_us: float = 282.0
    sources: Mapping[str, str] = field(default_factory=dict)


MEANINGS = {
    "broker_produce_us": "broker, a message taken in a batch of 50",
    "broker_produce_single_us": "broker, a message taken by itself",
    "broker_fetch_us": "broker, a message given to a consumer",
    "producer_us": "producer, a message in a batch of 50",
    "producer_single_us": "producer, a message by itself",
    "consumer_us": "consumer, a message by `batches()`",
    "mirror_us": "mirror, a message",
    "load_us": "load into Parquet, an event",
    "zk_write_us": "ZooKeeper, a write",
    "zk_read_us": "ZooKeeper, a read",
}
"""Each cost in words."""


def stored_bytes(payload_bytes: int) -> int:
    """Return what a message takes on disk, and of a fetch."""
    return len(bytes(MessageSet([b"-" * payload_bytes])))


def sent_bytes(payload_bytes: int, batch: int) -> float:
    """Return a message's share of a produce request."""
    frame = produce_frame(topic_field(_TOPIC), 0, bytes(MessageSet([b"-" * payload_bytes] * batch)))
    return len(frame) / batch


def read_costs(results: Path) -> Costs:
    """Return what the results in a directory say, and the defaults where they say nothing."""
    found: dict[str, float] = {}
    sources: dict[str, str] = {}
    readers: dict[str, Callable[[Mapping[str, Any]], Iterator[tuple[str, float | None]]]] = {
        "figures.json": _of_figures,
        "mirror.json": _of_mirror,
        "load.json": _of_load,
        "capacity.json": _of_capacity,
    }
    for name, read in readers.items():
        path = results / name
        if not path.exists():
            continue
        for cost, value in read(json.loads(path.read_text(encoding="utf-8"))):
            if value is not None:
                found[cost], sources[cost] = value, name
    return replace(Costs(), **found, sources=sources)


def _of_figures(document: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    """Give the costs with our defaults, which flush as we ship."""
    for line in document["body"]["lines"]:
        run = line["run"]
        if line["kind"] != _OWN or line["flush"] != _SHIPPED:
            continue
        match run["do"], run["client"], run["batch"]:
            case "produce", "sync", 1:
                yield "producer_single_us", run["client_cpu_us"]
                yield "broker_produce_single_us", run["server_cpu_us"]
            case "produce", "sync", batch if batch == BATCH:
                yield "producer_us", run["client_cpu_us"]
                yield "broker_produce_us", run["server_cpu_us"]
            case "consume", "batches", _:
                yield "consumer_us", run["client_cpu_us"]
                yield "broker_fetch_us", run["server_cpu_us"]


def _of_mirror(document: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    yield "mirror_us", _least(document, "mirror", "messages", system="plain")


def _of_load(document: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    yield "load_us", _least(document, "load", "rows")


def _least(document: Mapping[str, Any], line: str, unit: str, **like: str) -> float | None:
    """Return the least CPU time for one of what a line counts."""
    samples = [each for each in document["samples"] if {**each, "line": line, **like} == each]
    return min((each["cpu_s"] / each[unit] * 1e6 for each in samples), default=None)


def _of_capacity(document: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    for what, cpu_us in document["body"]["zk_cpu_us"].items():
        yield f"zk_{what}_us", cpu_us
