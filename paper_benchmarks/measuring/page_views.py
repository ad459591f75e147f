"""Events as `kafka2011 generate` makes them."""

from __future__ import annotations

from itertools import islice
from typing import Any

from kafka2011.events.generate import Profile, synthetic_events

TOPIC = "page_views"
_RATE = 10_000


def page_views(count: int) -> list[dict[str, Any]]:
    """Return page views as the generator makes them, with all that a publisher fills in."""
    made = (event for _, topic, event in synthetic_events(Profile(rate=_RATE)) if topic == TOPIC)
    return [{**event, "published_at": event["time"]} for event in islice(made, count)]
