"""The generator of events."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import islice
from typing import Any

import pytest

from kafka2011.events.codec import EventEncoder
from kafka2011.events.generate import Generated, Profile, synthetic_events
from kafka2011.events.machine import Machine
from kafka2011.events.schemas import KnownSchemas
from kafka2011.events.types import EVENT_TYPES

BUSY = Profile(rate=500, users=200, seed=7)


@pytest.fixture(scope="module")
def stream() -> list[Generated]:
    """Make a minute of a busy site."""
    return list(synthetic_events(BUSY, 60))


def of_topic(stream: list[Generated], topic: str) -> list[dict[str, Any]]:
    return [event for _, of, event in stream if of == topic]


def test_a_seed_gives_the_same_events(stream: list[Generated]) -> None:
    """To the last byte, in this process and in any other; another seed gives others."""
    assert list(synthetic_events(BUSY, 60)) == stream
    ids = {event["id"] for _, _, event in stream}
    assert not ids & {event["id"] for _, _, event in synthetic_events(Profile(rate=500, users=200, seed=8), 60)}


def test_more_seconds_go_on_where_fewer_end() -> None:
    """What happens is the same; only what was late is no longer published at the end."""
    few, more = (
        sorted(synthetic_events(Profile(seed=1, late=0, repeated=0), seconds), key=lambda each: each.at_s)
        for seconds in (5, 9)
    )
    assert more[: len(few)] == few


def test_an_endless_stream_gives_events_as_they_are_asked_for() -> None:
    """Without making all of it first."""
    assert len(list(islice(synthetic_events(BUSY), 2000))) == 2000


def test_every_event_fits_its_schema(stream: list[Generated]) -> None:
    """But for what the publisher fills in."""
    encoder = EventEncoder(KnownSchemas(EVENT_TYPES))
    for _, topic, event in stream:
        encoder.encode(topic, {**event, "published_at": 0})
    assert {topic for _, topic, _ in stream} == set(EVENT_TYPES)


def test_events_come_in_the_order_in_which_they_are_published(stream: list[Generated]) -> None:
    """And within the time that was asked for."""
    at_s = [each.at_s for each in stream]
    assert at_s == sorted(at_s)
    assert 0 < at_s[0] <= at_s[-1] <= 60


def test_the_rate_is_the_mean_of_a_day_and_follows_its_rhythm() -> None:
    """More in the first half of the day than in the second."""
    profile = Profile(rate=200, seed=3, day_s=60, late=0, repeated=0)
    at_s = [at for at, topic, _ in synthetic_events(profile, 60) if topic != "server_stats"]
    assert len(at_s) == pytest.approx(200 * 60, rel=0.05)
    first = sum(at < 30 for at in at_s)
    assert first / len(at_s) == pytest.approx(0.5 + 0.6 / 3.1416, abs=0.03)


def test_late_events_happened_before_and_repeated_ones_have_one_id() -> None:
    """At the rates that were asked for."""
    profile = Profile(rate=500, seed=5, late=0.1, repeated=0.05)
    stream = list(synthetic_events(profile, 60))
    late = [each for each in stream if each.at_s - (each.event["time"] - profile.start_us) / 1e6 > 1e-5]
    by_id = Counter(event["id"] for _, _, event in stream)
    repeats = sum(by_id.values()) - len(by_id)
    assert repeats / len(by_id) == pytest.approx(0.045, abs=0.01)  # those that are late are not repeated
    assert (len(late) - repeats) / len(by_id) == pytest.approx(0.1, abs=0.01)
    events: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for _, _, event in stream:
        events[event["id"]].append(event)
    assert all(event == same[0] for same in events.values() for event in same)


def test_without_late_and_repeated_events_there_are_none() -> None:
    """Each is published once, when it happens."""
    stream = list(synthetic_events(Profile(seed=5, late=0, repeated=0), 30))
    assert max(Counter(event["id"] for _, _, event in stream).values()) == 1
    assert all(at_s == pytest.approx((event["time"] - BUSY.start_us) / 1e6, abs=1e-5) for at_s, _, event in stream)


def test_members_click_some_of_what_they_were_shown(stream: list[Generated]) -> None:
    """A click has its impression, of the same session, item, place and search; most impressions have no click."""

    def shown(event: dict[str, Any]) -> tuple[object, ...]:
        return tuple(event[name] for name in ("session_id", "member_id", "server", "item", "position", "search_id"))

    impressions = {shown(each) for each in of_topic(stream, "impressions")}
    clicks = [shown(each) for each in of_topic(stream, "clicks")]
    assert sum(click in impressions for click in clicks) >= 0.98 * len(clicks)  # but for late ones past the end
    assert 0.01 < len(clicks) / len(impressions) < 0.3


def test_impressions_of_a_search_name_it(stream: list[Generated]) -> None:
    """So that searches can be joined with what was clicked."""
    searches = {each["id"] for each in of_topic(stream, "searches")}
    named = {each["search_id"] for each in of_topic(stream, "impressions")} - {None}
    assert named <= searches
    assert named


def test_a_session_is_one_members_on_one_server(stream: list[Generated]) -> None:
    """Whatever it does."""
    sessions: dict[str, set[tuple[int, str]]] = defaultdict(set)
    for _, topic, event in stream:
        if topic != "server_stats":
            sessions[event["session_id"]].add((event["member_id"], event["server"]))
    assert all(len(who) == 1 for who in sessions.values())
    assert {server for [(_, server)] in sessions.values()} == {"web-1", "web-2", "web-3", "web-4"}
    assert all(1 <= member <= 200 for [(member, _)] in sessions.values())


def test_paths_follow_links(stream: list[Generated]) -> None:
    """A visit begins at home, and every further page has one before it as its referrer."""
    by_session: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for view in sorted(of_topic(stream, "page_views"), key=lambda each: int(each["time"])):
        by_session[view["session_id"]].append(view)
    views = [view for visited in by_session.values() for view in visited[1:]]
    followed = sum(
        view["referrer"] in {f"https://www.example.com{each['url']}" for each in by_session[view["session_id"]]}
        for view in views
    )
    assert followed >= 0.98 * len(views)
    assert {visited[0]["url"] for visited in by_session.values()} == {"/home"}


def test_servers_count_their_requests(stream: list[Generated]) -> None:
    """Every ten seconds each server tells how many it has served since the last time."""
    stats = of_topic(stream, "server_stats")
    assert Counter(each["server"] for each in stats) == dict.fromkeys(("web-1", "web-2", "web-3", "web-4"), 6)
    views = len({each["id"] for each in of_topic(stream, "page_views")})
    assert sum(each["requests"] for each in stats) == pytest.approx(views, rel=0.02)
    assert all(0 <= each["cpu_percent"] <= 100 for each in stats)


def test_this_machine_is_measured() -> None:
    """As a server that serves nobody; what is in use is part of what there is."""
    stats = Machine().stats()
    EventEncoder(KnownSchemas(EVENT_TYPES)).encode(
        "server_stats", {"time": 0, "published_at": 0, "server": "", "id": "", **stats}
    )
    assert 0 < stats["memory_used_bytes"] < stats["memory_total_bytes"]
    assert 0 < stats["disk_used_bytes"] < stats["disk_total_bytes"]
