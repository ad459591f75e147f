"""All reports computed in plain Python from a list of events: what the jobs on Spark must come to."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Event = Mapping[str, Any]
    Row = dict[str, Any]

_GAP_S = 1800
_WITHIN_US = 3600 * 1_000_000
_SCRAPER_RATE = 60


def plain_reports(events: Iterable[tuple[str, Event]], own_sites: Iterable[str] = ()) -> dict[str, list[Row]]:
    """Return the rows of each report, in any order; `date` is text."""
    of: dict[str, dict[tuple[str, int], Event]] = defaultdict(dict)
    for topic, event in events:
        of[topic].setdefault((event["id"], event["time"]), event)
    topics = {topic: list(found.values()) for topic, found in of.items()}
    viewed = _grouped(topics.get("page_views", []), lambda view: view.get("parse_error") is None)
    views = viewed.get(True, [])
    searched = _search_clicks(topics.get("searches", []), topics.get("clicks", []))
    return {
        "page_views": _page_views(views),
        "visitors": _visitors(views),
        "sessions": _sessions(views),
        "referrers": _referrers(views, {site.lower() for site in own_sites}),
        "search_clicks": searched,
        "searches": _searches(searched),
        "server_errors": _server_errors(views, topics.get("server_stats", [])),
        "scrapers": _scrapers(views),
        "unreadable_lines": _unreadable_lines(viewed.get(False, [])),
    }


def _when(event: Event) -> tuple[str, int]:
    time = datetime.fromtimestamp(event["time"] // 1_000_000, UTC)
    return time.date().isoformat(), time.hour


def _second(event: Event) -> int:
    return int(event["time"] // 1_000_000)


def _grouped(rows: Iterable[Any], key: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return found


def _visitor(view: Event) -> str | None:
    if view.get("member_id") is not None:
        return f"member {view['member_id']}"
    if view.get("remote_host") is None:
        return None
    return " ".join(filter(None, ["host", view["remote_host"], view.get("user_agent")]))


def _page_views(views: list[Event]) -> list[Row]:
    def page(view: Event) -> str | None:
        url = view.get("url")
        return None if url is None else url.split("#")[0].split("?")[0]

    return [
        {
            "date": date,
            "hour": hour,
            "page": name,
            "views": len(found),
            "response_bytes": sum(view.get("response_bytes") or 0 for view in found),
        }
        for (date, hour, name), found in _grouped(views, lambda view: (*_when(view), page(view))).items()
    ]


def _visitors(views: list[Event]) -> list[Row]:
    rows = []
    by_hour = _grouped(views, _when)
    by_day = _grouped(views, lambda view: (_when(view)[0], None))
    for (date, hour), found in [*by_hour.items(), *by_day.items()]:
        visitors = {_visitor(view) for view in found} - {None}
        members = {view.get("member_id") for view in found} - {None}
        rows.append({"date": date, "hour": hour, "visitors": len(visitors), "members": len(members)})
    return rows


def _sessions(views: list[Event]) -> list[Row]:
    sessions: list[list[Event]] = []
    with_id = [view for view in views if view.get("session_id") is not None]
    sessions += _grouped(with_id, lambda view: (_when(view)[0], view["session_id"])).values()
    others = [view for view in views if view.get("session_id") is None and _visitor(view) is not None]
    for found in _grouped(others, lambda view: (_when(view)[0], _visitor(view))).values():
        found.sort(key=_second)
        open_session: list[Event] = []
        for view in found:
            if open_session and _second(view) - _second(open_session[-1]) > _GAP_S:
                sessions.append(open_session)
                open_session = []
            open_session.append(view)
        sessions.append(open_session)
    rows = []
    for (date, hour), of_hour in _grouped(sessions, lambda session: min(map(_when, session))).items():
        rows.append(
            {
                "date": date,
                "hour": hour,
                "sessions": len(of_hour),
                "views": sum(map(len, of_hour)),
                "bounces": sum(len(session) == 1 for session in of_hour),
                "duration_s": sum(max(map(_second, each)) - min(map(_second, each)) for each in of_hour),
            }
        )
    return rows


def _referrers(views: list[Event], own_sites: set[str]) -> list[Row]:
    came = [view for view in views if view.get("referrer") is not None]
    rows = []
    for (date, site), found in _grouped(came, lambda view: (_when(view)[0], _site(view["referrer"]))).items():
        if site not in own_sites:
            visitors = {_visitor(view) for view in found} - {None}
            rows.append({"date": date, "site": site, "views": len(found), "visitors": len(visitors)})
    return rows


def _site(referrer: str) -> str:
    parts = urlsplit(referrer)
    return (parts.hostname or "") if parts.scheme else ""


def _search_clicks(searches: list[Event], clicks: list[Event]) -> list[Row]:
    by_search = _grouped(clicks, lambda click: click.get("search_id"))
    rows = []
    for search in searches:
        found = [
            click for click in by_search.get(search["id"], []) if 0 <= click["time"] - search["time"] <= _WITHIN_US
        ]
        date, hour = _when(search)
        rows.append(
            {
                "date": date,
                "hour": hour,
                "search_id": search["id"],
                "query": search["query"].strip(" ").lower(),
                "results": search["results"],
                "clicks": len(found),
                "first_click_s": min((c["time"] - search["time"] for c in found), default=0) / 1e6 if found else None,
                "best_position": min((click["position"] for click in found), default=None),
            }
        )
    return rows


def _searches(searched: list[Row]) -> list[Row]:
    return [
        {
            "date": date,
            "hour": hour,
            "query": query,
            "searches": len(found),
            "found_nothing": sum(row["results"] == 0 for row in found),
            "clicked": sum(row["clicks"] > 0 for row in found),
            "clicks": sum(row["clicks"] for row in found),
        }
        for (date, hour, query), found in _grouped(
            searched, lambda row: (row["date"], row["hour"], row["query"])
        ).items()
    ]


def _server_errors(views: list[Event], stats: list[Event]) -> list[Row]:
    seen = _grouped(views, lambda event: (*_when(event), event["server"]))
    told = _grouped(stats, lambda event: (*_when(event), event["server"]))
    rows = []
    for place in seen.keys() | told.keys():
        statuses = [view.get("status") or 0 for view in seen.get(place, [])]
        date, hour, server = place
        rows.append(
            {
                "date": date,
                "hour": hour,
                "server": server,
                "views": len(statuses),
                "client_errors": sum(400 <= status < 500 for status in statuses),
                "server_errors": sum(status >= 500 for status in statuses),
                "told_requests": sum(event["requests"] for event in told.get(place, [])),
                "told_errors": sum(event["errors"] for event in told.get(place, [])),
            }
        )
    return rows


def _scrapers(views: list[Event]) -> list[Row]:
    hosts = [view for view in views if view.get("remote_host") is not None]
    rows = []
    for (date, host, agent), found in _grouped(
        hosts, lambda view: (_when(view)[0], view["remote_host"], view.get("user_agent"))
    ).items():
        counts = Counter(map(_second, found))
        best, first = max((sum(counts[end - back] for back in range(60)), -end) for end in counts)
        if best > _SCRAPER_RATE:
            rows.append(
                {
                    "date": date,
                    "remote_host": host,
                    "user_agent": agent,
                    "views": len(found),
                    "most_per_minute": best,
                    "at_s": -first % 86_400,
                }
            )
    return rows


def _unreadable_lines(events: list[Event]) -> list[Row]:
    return [
        {
            "date": date,
            "reason": reason,
            "lines": len(found),
            "example": min((event.get("line") or "")[:200] for event in found),
        }
        for (date, reason), found in _grouped(events, lambda event: (_when(event)[0], event["parse_error"])).items()
    ]
