"""A stream of events like a social network's; the same seed gives the same events (paper, section 1).

Members come in sessions, follow links from page to page, search, see results, and click some of them. Sessions take
turns at random; a turn is one page with everything on it. Event times follow the rate and its daily rhythm. Some events
are published late, and some twice. Servers report their state every ten seconds.

Nothing here waits, sends or reads a clock: `at_s` says when to publish, and the caller publishes.
"""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka2011.events.event_ids import EventIds

if TYPE_CHECKING:
    from collections.abc import Iterator

    Turn = list[tuple[str, dict[str, Any]]]
    """The events of one page: topic and fields of each."""

DEFAULT_START_US = 1_307_836_800_000_000
"""2011-06-12 00:00 UTC, the day the paper was presented; fixed, so that a seed gives the same times too."""

_EVENT_EVERY_S = 1.0  # in one session, on average: a page every few seconds
_MAX_SESSIONS = 100_000
_RHYTHM = 0.6  # how far the rate rises above its mean, and falls below it
_STATS_EVERY_S = 10.0
_LATE_BY_S = 30.0
_REPEATED_AFTER_S = 2.0
_MOST_RESULTS = 100_000
_ITEMS = 10_000
_GIB = 1 << 30

_WORDS = ("engineer", "kafka", "data", "manager", "athens", "hadoop", "scala", "sales", "designer", "intern", "analyst")
_ORIGINS = (None, None, "https://search.example/", "https://mail.example/", "https://news.example/")
_AGENTS = (
    "Mozilla/5.0 (Windows NT 6.1; rv:5.0) Gecko/20100101 Firefox/5.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_6_7) AppleWebKit/534.30 Chrome/12.0.742.91 Safari/534.30",
    "Mozilla/5.0 (compatible; MSIE 9.0; Windows NT 6.1; Trident/5.0)",
)
_END = ""
_LINKS: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
    "/home": (("/search", "/profile", "/jobs", "/inbox", _END), (35, 25, 15, 15, 10)),
    "/search": (("/search", "/home", "/profile", _END), (30, 20, 20, 30)),
    "/profile": (("/profile", "/home", "/search", _END), (30, 20, 15, 35)),
    "/jobs": (("/jobs", "/home", "/search", _END), (40, 15, 15, 30)),
    "/inbox": (("/home", "/profile", _END), (40, 20, 40)),
}
_SUGGESTING = {"/home": "profile", "/profile": "profile", "/jobs": "jobs"}
"""The pages that show something more to click, and what they show."""
_CLICKED_OF_FOUND = 0.45
_CLICKED_OF_SUGGESTED = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Describes a stream of synthetic events."""

    rate: float = 100.0
    """Members' events per second, averaged over a day."""
    users: int = 1000
    """How many members there are; the first ones come more often."""
    servers: int = 4
    seed: int = 0
    start_us: int = DEFAULT_START_US
    """When it begins, in microseconds since 1970."""
    day_s: float = 600.0
    """The length of the day that the rate follows."""
    late: float = 0.01
    """The share of events that are published late, by half a minute on average."""
    repeated: float = 0.001
    """The share of events that are published twice, with one id."""


class Generated(NamedTuple):
    """Holds an event to publish, its topic, and when to publish it, in seconds after the start."""

    at_s: float
    topic: str
    event: dict[str, Any]


@dataclass(slots=True)
class _Server:
    name: str
    requests: int = 0
    errors: int = 0
    disk_used_bytes: int = field(default=40 * _GIB)


def synthetic_events(profile: Profile, seconds: float = math.inf) -> Iterator[Generated]:
    """Yield the events of the first `seconds` seconds of a stream, in order of `at_s`.

    Events that are still held back at the end come last. The same `profile` gives the same events.
    """
    rng = random.Random(profile.seed)  # noqa: S311  # must be repeatable
    held: list[tuple[float, int, Generated]] = []  # to be published later, ordered by when
    order = 0
    for generated in _in_time(profile, rng, seconds):
        while held and held[0][0] <= generated.at_s:
            yield heapq.heappop(held)[2]
        chance = rng.random()
        if chance >= profile.late:
            yield generated
        if chance < profile.late or rng.random() < profile.repeated:
            order += 1
            at_s = generated.at_s + rng.expovariate(1 / (_LATE_BY_S if chance < profile.late else _REPEATED_AFTER_S))
            heapq.heappush(held, (at_s, order, generated._replace(at_s=at_s)))
    while held:
        generated = heapq.heappop(held)[2]
        yield generated._replace(at_s=min(generated.at_s, seconds))


generate = synthetic_events
"""The name of `synthetic_events` in release 0.2.0, for programs that import it."""


def _in_time(profile: Profile, rng: random.Random, seconds: float) -> Iterator[Generated]:
    """Yield the events in the order in which they happen."""
    servers = [_Server(f"web-{number}") for number in range(1, profile.servers + 1)]
    ids = EventIds(rng.getrandbits(60))
    count = min(max(int(profile.rate * _EVENT_EVERY_S), 1), _MAX_SESSIONS)
    sessions = [_session(profile, rng, ids, rng.choice(servers)) for _ in range(count)]
    at_s, stats_at_s = 0.0, _STATS_EVERY_S
    while True:
        chosen = rng.randrange(count)
        turn = next(sessions[chosen], None)
        if turn is None:
            sessions[chosen] = _session(profile, rng, ids, rng.choice(servers))
            continue
        for topic, event in turn:
            phase = 2 * math.pi * at_s / profile.day_s
            at_s += rng.expovariate(profile.rate * (1 + _RHYTHM * math.sin(phase)))
            while stats_at_s <= min(at_s, seconds):
                yield from _stats(profile, rng, ids, servers, stats_at_s)
                stats_at_s += _STATS_EVERY_S
            if at_s > seconds:
                return
            yield Generated(at_s, topic, {"time": profile.start_us + int(at_s * 1_000_000), **event})


def _session(profile: Profile, rng: random.Random, ids: EventIds, server: _Server) -> Iterator[Turn]:
    """Yield the turns of one visit by one member."""
    who = {
        "server": server.name,
        "member_id": 1 + int(profile.users * rng.random() ** 2),
        "session_id": f"{rng.getrandbits(64):016x}",
    }
    browser = {
        "user_agent": rng.choice(_AGENTS),
        "remote_host": f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}",
    }
    page, url, referrer = "/home", "/home", rng.choice(_ORIGINS)
    while page != _END:
        query = " ".join(rng.sample(_WORDS, rng.randint(1, 2))) if page == "/search" else ""
        if query:
            url = f"/search?q={query.replace(' ', '+')}"
        turn: Turn = [("page_views", {**_view(rng, ids, server, url, referrer), **who, **browser})]
        shown: list[dict[str, Any]] = []
        if query:
            results = min(int(rng.paretovariate(0.7)) - 1, _MOST_RESULTS)
            new = {"id": ids.next()}
            turn.append(("searches", {**new, **who, "query": query, "results": results}))
            shown = _shown(rng, who, rng.choice(("profile", "jobs")), min(results, 5), new["id"])
        elif page in _SUGGESTING:
            shown = _shown(rng, who, _SUGGESTING[page], 2)
        turn += [("impressions", {"id": ids.next(), **impression}) for impression in shown]
        yield turn
        referrer = f"https://www.example.com{url}"
        if shown and rng.random() < (_CLICKED_OF_FOUND if query else _CLICKED_OF_SUGGESTED):
            [clicked] = rng.choices(shown, [1 / impression["position"] for impression in shown])
            yield [("clicks", {"id": ids.next(), **clicked})]
            url = f"/{clicked['item']}"
            page = f"/{clicked['item'].partition('/')[0]}"
        else:
            targets, weights = _LINKS[page]
            [page] = rng.choices(targets, weights)
            url = f"{page}/{rng.randrange(profile.users) + 1}" if page in {"/profile", "/jobs"} else page


def _view(rng: random.Random, ids: EventIds, server: _Server, url: str, referrer: str | None) -> dict[str, Any]:
    [status] = rng.choices((200, 404, 500), (987, 10, 3))
    server.requests += 1
    server.errors += status == 500
    size = int(rng.lognormvariate(9, 1))
    view = {"method": "GET", "url": url, "protocol": "HTTP/1.1", "status": status, "response_bytes": size}
    return {"id": ids.next(), **view, "referrer": referrer}


def _shown(
    rng: random.Random, who: dict[str, Any], kind: str, count: int, search_id: str | None = None
) -> list[dict[str, Any]]:
    return [
        {**who, "item": f"{kind}/{1 + int(_ITEMS * rng.random() ** 3)}", "position": position, "search_id": search_id}
        for position in range(1, count + 1)
    ]


def _stats(
    profile: Profile, rng: random.Random, ids: EventIds, servers: list[_Server], at_s: float
) -> Iterator[Generated]:
    """Yield the state of each server, and reset its counts."""
    for server in servers:
        load = server.requests * profile.servers / (profile.rate * _STATS_EVERY_S)
        server.disk_used_bytes += server.requests * 300
        event = {
            "time": profile.start_us + int(at_s * 1_000_000),
            "server": server.name,
            "id": ids.next(),
            "cpu_percent": round(min(100.0, 5 + 60 * load + rng.gauss(0, 3) ** 2), 1),
            "memory_used_bytes": int((3 + load + rng.random()) * _GIB),
            "memory_total_bytes": 16 * _GIB,
            "disk_used_bytes": server.disk_used_bytes,
            "disk_total_bytes": 500 * _GIB,
            "requests": server.requests,
            "errors": server.errors,
        }
        server.requests = server.errors = 0
        yield Generated(at_s, "server_stats", event)
