"""How long messages take from when they were due to when a stream hands them out: a sender at a rate, and a reader.

Both run on one machine, so the sender's monotonic clock, which each message carries, is the reader's too. The time
counts from when a message was due: a sender that is held up does not make the messages that wait for it look quick.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafka2011 import ConsumerConnector, SyncProducer
from paper_benchmarks.measuring.payloads import PAYLOAD_BYTES
from paper_benchmarks.measuring.worker import work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from paper_benchmarks.measuring.worker import Work

    Prepared = Iterator[tuple[Mapping[str, Any], Work]]

QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 1.0)
_STAMP_BYTES = 8
_NEVER = bytes(_STAMP_BYTES)
"""The stamp of what only warms up."""


def quantiles(values: Sequence[float]) -> list[tuple[float, float]]:
    """Return the value below which each share of the sorted values lies, the next higher one where none lies there."""
    ordered = sorted(values)
    return [(share, ordered[min(int(share * len(ordered)), len(ordered) - 1)]) for share in QUANTILES]


@contextmanager
def _sending(job: Mapping[str, Any]) -> Prepared:
    filling = os.urandom(PAYLOAD_BYTES - _STAMP_BYTES)
    with SyncProducer(job["server"]["host"], job["server"]["port"]) as producer:
        producer.send(job["topic"], _NEVER + filling, 0)

        def run() -> Mapping[str, Any]:
            step_ns = 1e9 / job["rate"]
            began_ns = time.monotonic_ns()
            for number in range(job["messages"]):
                due_ns = began_ns + int(number * step_ns)
                while (early_ns := due_ns - time.monotonic_ns()) > 0:
                    time.sleep(early_ns / 1e9)
                producer.send(job["topic"], due_ns.to_bytes(_STAMP_BYTES) + filling, 0)
            producer.close()
            return {"late_ms": (time.monotonic_ns() - due_ns) / 1e6}

        yield {}, run


@contextmanager
def _delivering(job: Mapping[str, Any]) -> Prepared:
    config = {
        "zk.connect": job["server"]["zk_connect"],
        "groupid": secrets.token_hex(4),
        "fetcher.backoff.ms": job["backoff_ms"],
    }
    with ConsumerConnector(config) as consumer:
        [stream] = consumer.create_message_streams({job["topic"]: 1})[job["topic"]]
        next(stream)

        def run() -> Mapping[str, Any]:
            found: list[float] = []
            for message in stream:
                stamp = message.payload[:_STAMP_BYTES]
                if stamp != _NEVER:
                    found.append((time.monotonic_ns() - int.from_bytes(stamp)) / 1e6)
                    if len(found) == job["messages"]:
                        break
            return {"latencies_ms": quantiles(found)}

        yield {}, run


def prepare(job: Mapping[str, Any]) -> Any:
    """Send `messages` to `topic` at `rate` a second, or take as many of it."""
    return _sending(job) if job["do"] == "send" else _delivering(job)


if __name__ == "__main__":
    work(prepare)
