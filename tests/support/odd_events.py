"""Events as a generator makes them, and others that no generator makes, around two midnights. By seed."""

from __future__ import annotations

import random
import uuid
from typing import Any

from kafka2011.collect.access_log import page_view
from kafka2011.events.generate import Profile, synthetic_events

MIDNIGHT_US = 1_307_836_800_000_000
"""2011-06-12, 00:00 UTC."""

DAY_US = 86_400 * 1_000_000
Events = list[tuple[str, dict[str, Any]]]

_NAMES = ("/home", "/a?q=1", "/a#b", "/ü/$x$", "<script>alert(1)</script>", None)
_REFERRERS = (None, "", "-", "https://Search.example:8080/a?b", "http://me@mail.example", "android-app://x", "nonsense")
_AGENTS = (None, "curl", "Mozilla/5.0 \u202e & <b>")
_NO_VIEWS = (
    "",
    "nothing of the kind <b>",
    '192.0.2.7 - - [12/Jun/2011:00:00:00 +0000] "" 400 0 "-" "-"',
    "\u202e" * 300,
)
_STATUSES = (None, 200, 301, 404, 499, 500, 599)


def odd_events(seed: int) -> Events:
    """Return events of three days, in the order of publication; some come twice, and some a day late."""
    rng = random.Random(f"odd {seed}")  # apart from the generator's, or ids would be the same
    profile = Profile(rate=20, users=30, seed=seed, start_us=MIDNIGHT_US - 10_000_000, late=0.05, repeated=0.05)
    events: Events = [(each.topic, each.event) for each in synthetic_events(profile, 30)]
    for _ in range(150):
        at_us = (
            MIDNIGHT_US + rng.choice((-1, 0, 1)) * DAY_US + rng.choice((rng.randrange(DAY_US), rng.randrange(10**9)))
        )
        events.append(("page_views", _view(rng, at_us)))
        events += _search(rng, at_us)
    scraper = {"remote_host": "192.0.2.7", "user_agent": "scraper/1.0"}
    for number in range(100):
        events.append(("page_views", {**_view(rng, MIDNIGHT_US + number * 700_000), **scraper}))
    quiet = {"member_id": None, "session_id": None, "remote_host": "192.0.2.9", "user_agent": "slow reader"}
    for later_s in (0, 1800, 3601):  # two sessions: half an hour of silence is not too long, a second more is
        events.append(("page_views", {**_view(rng, MIDNIGHT_US + later_s * 1_000_000), **quiet}))
    for _ in range(30):
        at_us = MIDNIGHT_US + rng.choice((-1, 0, 1)) * DAY_US
        line = {**page_view(rng.choice(_NO_VIEWS)), "time": at_us, "id": _new(rng)}
        events.append(("page_views", {"server": "web-1", **line}))
    rng.shuffle(events)
    events += rng.sample(events, 20)
    return [(topic, {"published_at": event["time"], "server": "web-1", **event}) for topic, event in events]


def _new(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def _view(rng: random.Random, at_us: int) -> dict[str, Any]:
    return {
        "time": at_us,
        "id": _new(rng),
        "server": rng.choice(("web-1", "web-2")),
        "member_id": rng.choice((None, None, 1, 2)),
        "session_id": rng.choice((None, None, None, "one", "two")),
        "url": rng.choice(_NAMES),
        "referrer": rng.choice(_REFERRERS),
        "status": rng.choice(_STATUSES),
        "response_bytes": rng.choice((None, 0, 1000)),
        "remote_host": rng.choice((None, "192.0.2.1", "192.0.2.2")),
        "user_agent": rng.choice(_AGENTS),
    }


def _search(rng: random.Random, at_us: int) -> Events:
    search = {
        "time": at_us,
        "id": _new(rng),
        "query": rng.choice((" Kafka", "kafka", "ÄÖ x")),
        "results": rng.choice((0, 3)),
    }
    events: Events = [("searches", search)]
    for _ in range(rng.choice((0, 1, 2))):
        later_us = rng.choice((-1, 0, 1_500_000, 3_600_000_000, 3_600_000_001, rng.randrange(4 * 10**9)))
        click = {"time": at_us + later_us, "id": _new(rng), "item": "jobs/1", "position": rng.randint(1, 5)}
        events.append(("clicks", {**click, "search_id": rng.choice((search["id"], search["id"], None))}))
    return events
