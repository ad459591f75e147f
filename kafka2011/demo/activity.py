"""A made-up activity stream of a site like LinkedIn: page views, searches, clicks (paper, sections 1 and 4)."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGES = ("/home", "/profile", "/jobs", "/groups", "/inbox", "/network", "/companies", "/news")
_WORDS = ("kafka", "hadoop", "log", "zookeeper", "engineer", "data", "messaging", "offset", "broker", "netdb")
_EVENTS = ("PageView", "Search", "Click")
_WEIGHTS = (70, 12, 18)
_SERVERS = 12
_MEMBERS = 2000
_FIRST_TIME_MS = 1_307_836_800_000  # 12 June 2011, the day of the workshop
_MEAN_GAP_MS = 4.0


def activity_lines(count: int, seed: int = 2011) -> Iterator[bytes]:
    """Yield `count` events as JSON lines with time and server, the same ones for the same seed."""
    choice = random.Random(seed)  # noqa: S311 - it makes up page views
    time_ms = float(_FIRST_TIME_MS)
    for _ in range(count):
        time_ms += choice.expovariate(1 / _MEAN_GAP_MS)
        event: dict[str, object] = {
            "event": choice.choices(_EVENTS, _WEIGHTS)[0],
            "time": int(time_ms),
            "server": f"frontend-{choice.randrange(_SERVERS):02d}",
            "member": f"member-{int(choice.paretovariate(1.2)) % _MEMBERS}",
        }
        if event["event"] == "PageView":
            event["page"] = choice.choice(_PAGES)
        elif event["event"] == "Search":
            event["query"] = " ".join(choice.sample(_WORDS, choice.randint(1, 3)))
        else:
            event["page"] = choice.choice(_PAGES)
            event["position"] = choice.randrange(10)
        yield json.dumps(event).encode()
