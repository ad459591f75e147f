"""What the page says of each report: a text, pictures, a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.compute as pc

from kafka2011.warehouse.reports import tables
from kafka2011.warehouse.reports.charts import bars_chart, hours_chart

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    import pyarrow as pa

    from kafka2011.warehouse.reports.catalog import ReportSettings

TOP = 15
_LINE_HOURS = 3
"""A line over fewer hours says nothing."""
_SMALLEST_SHARE = 0.0005
_UNREADABLE = "(no address)"


class Chart(NamedTuple):
    """A picture: its address, what stands under it, and what it shows in words."""

    address: str
    caption: str
    alt: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text; the first cell of a row is its name."""

    caption: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    numeric: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """One report on the page."""

    name: str
    title: str
    text: str
    charts: list[Chart] = field(default_factory=list)
    table: Table | None = None


class Figure(NamedTuple):
    """One number at the top of the page."""

    label: str
    value: str


def table_of(caption: str, columns: dict[str, bool], rows: Sequence[tuple[object, ...]]) -> Table:
    """Return a table; of each column it is said whether it holds numbers."""
    texts = [tuple(shown(cell) for cell in row) for row in rows]
    return Table(caption, tuple(columns), texts, tuple(columns.values()))


def shown(cell: object) -> str:
    """Return a cell as text in which nothing is invisible; whole numbers get their thousands."""
    if cell is None:
        return "-"
    if isinstance(cell, int):
        return f"{cell:,}"
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in str(cell))


def share(part: int, whole: int) -> str:
    """Return a part of a whole in percent."""
    if not whole:
        return "-"
    return f"{100 * part / whole:.1f}%" if not part or part / whole >= _SMALLEST_SHARE else "<0.1%"


def sections_of(directory: Path, days: list[str], settings: ReportSettings) -> tuple[list[Section], list[Figure]]:
    """Make all sections of the results of some days in a directory, and the numbers above them."""
    made = (
        _page_views(directory, days),
        _visitors(directory, days),
        _sessions(directory, days, settings),
        _referrers(directory, days),
        _searches(directory, days, settings),
        _server_errors(directory, days),
        _scrapers(directory, days, settings),
    )
    return [section for section, _ in made], [figure for _, figures in made for figure in figures]


_Made = tuple[Section, list[Figure]]


def _page_views(directory: Path, days: list[str]) -> _Made:
    rows = tables.read_days(directory, "page_views", days, ("hour", "page", "views", "response_bytes"))
    views = tables.total(rows, "views")
    found = tables.top(rows, ["page"], "views", ("views", "response_bytes"), TOP)
    of_pages = [(shown(row["page"] or _UNREADABLE), row["views"], row["response_bytes"]) for row in found]
    charts = _by_hour(rows, {"views": "page views"}, "Page views by hour, UTC.")
    charts += _bars(of_pages, ("page views",), "The pages that were viewed most.")
    columns = {"Page": False, "Views": True, "Share": True, "Bytes sent": True}
    table = table_of("Most viewed pages", columns, [(p, v, share(v, views), b) for p, v, b in of_pages])
    text = (
        f"{shown(views)} page views of {shown(_distinct(rows, 'page'))} pages. A page is an address without its query."
    )
    return Section("page_views", "Page views", text if views else _NOTHING, charts, table), [
        Figure("page views", shown(views))
    ]


def _visitors(directory: Path, days: list[str]) -> _Made:
    rows = tables.read_days(directory, "visitors", days, ("hour", "visitors", "members"))
    if not rows.num_rows:
        return Section("visitors", "Unique visitors", _NOTHING), []
    of_days = rows.filter(pc.is_null(rows["hour"])).sort_by("date").to_pylist()
    charts = _by_hour(rows.filter(pc.is_valid(rows["hour"])), {"visitors": "visitors"}, "Visitors of each hour, UTC.")
    table = table_of(
        "Visitors of each day",
        {"Day": False, "Visitors": True, "Of them members": True},
        [(row["date"], row["visitors"], row["members"]) for row in of_days],
    )
    text = "A visitor is a member, or else an address with a browser. Those of a day are counted once."
    last = of_days[-1]
    return Section("visitors", "Unique visitors", text, charts, table), [
        Figure("visitors on the last day", shown(last["visitors"]))
    ]


def _sessions(directory: Path, days: list[str], settings: ReportSettings) -> _Made:
    names = ("sessions", "views", "bounces", "duration_s")
    rows = tables.read_days(directory, "sessions", days, ("hour", *names))
    if not rows.num_rows:
        return Section("sessions", "Sessions", _NOTHING), []
    of_days = sorted(tables.top(rows, ["date"], "sessions", names, len(days)), key=lambda row: str(row["date"]))
    table = table_of(
        "Sessions that began on each day",
        {"Day": False, "Sessions": True, "Views in each": True, "Mean length": True, "Of one view": True},
        [
            (
                row["date"],
                row["sessions"],
                f"{row['views'] / row['sessions']:.1f}",
                f"{row['duration_s'] / row['sessions']:,.0f} s",
                share(row["bounces"], row["sessions"]),
            )
            for row in of_days
        ],
    )
    text = (
        "Views with one session id; for visitors without one, views with at most"
        f" {settings.session_gap_s // 60} minutes between them. Sessions end at midnight, UTC."
    )
    charts = _by_hour(rows, {"sessions": "sessions"}, "Sessions by the hour in which they began, UTC.")
    count = tables.total(rows, "sessions")
    return Section("sessions", "Sessions", text, charts, table), [Figure("sessions", shown(count))]


def _referrers(directory: Path, days: list[str]) -> _Made:
    rows = tables.read_days(directory, "referrers", days, ("site", "views"))
    found = tables.top(rows, ["site"], "views", ("views",), TOP)
    of_sites = [(shown(row["site"] or "(no site)"), row["views"]) for row in found]
    views = tables.total(rows, "views")
    table = table_of(
        "Sites that most views came from",
        {"Site": False, "Views": True, "Share": True},
        [(site, count, share(count, views)) for site, count in of_sites],
    )
    text = f"{shown(views)} page views named where they came from: {shown(_distinct(rows, 'site'))} sites."
    charts = _bars(of_sites, ("page views",), "The sites that most page views came from.")
    return Section("referrers", "Referrers", text if views else _NOTHING, charts, table), []


def _searches(directory: Path, days: list[str], settings: ReportSettings) -> _Made:
    names = ("searches", "found_nothing", "clicked", "clicks")
    rows = tables.read_days(directory, "searches", days, ("hour", "query", *names))
    searches, clicked = tables.total(rows, "searches"), tables.total(rows, "clicked")
    if not searches:
        return Section("searches", "Searches", _NOTHING), []
    found = tables.top(rows, ["query"], "searches", names, TOP)
    bars = [(shown(row["query"]), row["clicked"], row["searches"] - row["clicked"]) for row in found]
    charts = _by_hour(rows, {"searches": "searches", "clicked": "with a click"}, "Searches by hour, UTC.")
    charts += _bars(bars, ("with a click", "without"), "What was searched for most, and whether a result was clicked.")
    table = table_of(
        "Most frequent searches",
        {"Query": False, "Searches": True, "Found nothing": True, "Clicks": True, "Click-through": True},
        [
            (
                shown(row["query"]),
                row["searches"],
                share(row["found_nothing"], row["searches"]),
                row["clicks"],
                share(row["clicked"], row["searches"]),
            )
            for row in found
        ],
    )
    text = (
        f"{shown(searches)} searches. The click-through, {share(clicked, searches)}, is the share of them of which a"
        f" result was clicked within {settings.click_within_s // 60} minutes."
    )
    return Section("searches", "Searches", text, charts, table), [
        Figure("searches", shown(searches)),
        Figure("click-through", share(clicked, searches)),
    ]


def _server_errors(directory: Path, days: list[str]) -> _Made:
    names = ("views", "client_errors", "server_errors", "told_requests", "told_errors")
    rows = tables.read_days(directory, "server_errors", days, ("hour", "server", *names))
    if not rows.num_rows:
        return Section("server_errors", "Errors of servers", _NOTHING), []
    found = tables.top(rows, ["server"], "views", names, TOP)
    charts = _bars(
        [(shown(row["server"]), row["server_errors"], row["client_errors"]) for row in found],
        ("5xx", "4xx"),
        "Page views answered with an error, by server.",
    )
    table = table_of(
        "Servers, by the number of page views",
        {
            "Server": False,
            "Views": True,
            "4xx": True,
            "5xx": True,
            "5xx share": True,
            "Requests it told of": True,
            "Errors it told of": True,
        },
        [
            (
                shown(row["server"]),
                row["views"],
                row["client_errors"],
                row["server_errors"],
                share(row["server_errors"], row["views"]),
                row["told_requests"],
                row["told_errors"],
            )
            for row in found
        ],
    )
    errors, views = tables.total(rows, "server_errors"), tables.total(rows, "views")
    text = "As the status of page views tells, and as servers themselves tell every few seconds."
    return Section("server_errors", "Errors of servers", text, charts, table), [
        Figure("answered with 5xx", share(errors, views))
    ]


def _scrapers(directory: Path, days: list[str], settings: ReportSettings) -> _Made:
    columns = ("remote_host", "user_agent", "views", "most_per_minute", "at_s")
    rows = tables.read_days(directory, "scrapers", days, columns)
    found: list[dict[str, Any]] = []
    if rows.num_rows:
        found = rows.take(pc.select_k_unstable(rows, TOP, [("most_per_minute", "descending")])).to_pylist()
    limit = settings.scraper_views_per_minute
    text = f"Clients, an address with a browser each, that viewed more than {limit} pages within a minute."
    table = table_of(
        "The fastest clients",
        {"Address": False, "Browser": False, "Most in a minute": True, "At": False, "Views that day": True},
        [
            (
                row["remote_host"],
                row["user_agent"],
                row["most_per_minute"],
                f"{row['date']} {row['at_s'] // 3600:02d}:{row['at_s'] // 60 % 60:02d}:{row['at_s'] % 60:02d}",
                row["views"],
            )
            for row in found
        ],
    )
    bars = [(f"{row['remote_host']} on {row['date']}", row["most_per_minute"]) for row in found]
    charts = _bars(bars, ("page views in a minute",), "The most page views within a minute of the fastest clients.")
    count = rows.num_rows
    return Section("scrapers", "Scrapers", text if count else f"{text} There were none.", charts, table), [
        Figure("scrapers", shown(count))
    ]


_NOTHING = "There is nothing for these days."


def _distinct(rows: pa.Table, column: str) -> int:
    return int(pc.count_distinct(rows[column]).as_py()) if rows.num_rows else 0


def _by_hour(rows: pa.Table, names: dict[str, str], caption: str) -> list[Chart]:
    hours, columns = tables.hourly(rows, tuple(names))
    if len(hours) < _LINE_HOURS:
        return []
    first, *_ = columns.values()
    best = max(range(len(hours)), key=first.__getitem__)
    word = next(iter(names.values()))
    alt = (
        f"{caption} A line from {hours[0]:%Y-%m-%d %H:00} to {hours[-1]:%Y-%m-%d %H:00}; at most {shown(first[best])}"
        f" {word}, at {hours[best]:%Y-%m-%d %H:00}."
    )
    return [Chart(hours_chart(hours, {names[name]: values for name, values in columns.items()}), caption, alt)]


def _bars(rows: Sequence[tuple[Any, ...]], names: tuple[str, ...], caption: str) -> list[Chart]:
    if not rows:
        return []
    labels = [str(row[0]) for row in rows]
    series = {name: [float(row[1 + number]) for row in rows] for number, name in enumerate(names)}
    alt = f"{caption} Bars; the first is {labels[0]} with {shown(sum(int(v) for v in rows[0][1 : 1 + len(names)]))}."
    return [Chart(bars_chart(labels, series), caption, alt)]
