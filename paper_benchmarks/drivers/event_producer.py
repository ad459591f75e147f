"""A producer of page views as `kafka2011 generate` makes them, in sets that a codec may compress."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kafka2011 import Codec, MessageSet, SyncProducer
from kafka2011.pipeline.event_types import EVENT_TYPES
from kafka2011.pipeline.events import EventEncoder
from kafka2011.pipeline.generate import Profile, generate
from kafka2011.pipeline.schemas import KnownSchemas
from paper_benchmarks.worker import work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from paper_benchmarks.worker import Work

_TOPIC = "page_views"
_DIFFERENT = 20_000
_RATE = 10_000


def page_views(count: int) -> list[bytes]:
    """Return the payloads of so many page views, each with its schema's fingerprint and all of its header."""
    encoder = EventEncoder(KnownSchemas(EVENT_TYPES))
    found: list[bytes] = []
    for _, topic, event in generate(Profile(rate=_RATE)):
        if topic == _TOPIC:
            found.append(encoder.encode(topic, {**event, "published_at": event["time"]}))
            if len(found) == count:
                break
    return found


@contextmanager
def prepare(job: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Work]]:
    """Make the events; the work is to send `messages` of them in sets of `batch`, by `codec`, to `topic`."""
    batch, codec = job["batch"], Codec[job["codec"].upper()]
    events = page_views(min(job["messages"], _DIFFERENT // batch * batch))
    lists = [events[start : start + batch] for start in range(0, len(events), batch)]
    with SyncProducer(job["host"], job["port"]) as producer:

        def run() -> Mapping[str, Any]:
            sent_bytes = 0
            for number in range(job["messages"] // batch):
                sent = MessageSet(lists[number % len(lists)], codec)
                producer.send(job["topic"], sent, 0)
                sent_bytes += len(bytes(sent))
            producer.close()
            return {"sent_bytes": sent_bytes}

        yield {"event_bytes": sum(map(len, events)) / len(events)}, run


if __name__ == "__main__":
    work(prepare)
