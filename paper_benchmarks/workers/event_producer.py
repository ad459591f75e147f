"""A producer of page views as `kafka2011 generate` makes them, in sets that a codec may compress."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from kafka2011 import Codec, MessageSet, SyncProducer
from kafka2011.events.codec import EventEncoder
from kafka2011.events.generate import Profile, generate
from kafka2011.events.schemas import KnownSchemas
from kafka2011.events.types import EVENT_TYPES
from paper_benchmarks.measuring.worker import work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from paper_benchmarks.measuring.worker import Work

TOPIC = "page_views"
_DIFFERENT = 20_000
_RATE = 10_000


def page_views(count: int) -> list[dict[str, Any]]:
    """Return page views as the generator makes them, with all that a publisher fills in."""
    made = (event for _, topic, event in generate(Profile(rate=_RATE)) if topic == TOPIC)
    return [{**event, "published_at": event["time"]} for event in islice(made, count)]


@contextmanager
def prepare(job: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Work]]:
    """Make the events; the work is to send `messages` of them in sets of `batch`, by `codec`, to `topic`."""
    batch, codec = job["batch"], Codec[job["codec"].upper()]
    views = page_views(min(job["messages"], _DIFFERENT // batch * batch))
    events = EventEncoder(KnownSchemas(EVENT_TYPES)).encode_all(TOPIC, views)
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
