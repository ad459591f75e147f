"""The page of all reports, and one of each day: files of HTML that open without a network, pictures included."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib.resources import files
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kafka2011.errors import missing_extra
from kafka2011.reports import charts, tables
from kafka2011.reports.catalog import REPORTS
from kafka2011.reports.sections import TOP, shown, table_of

try:
    from jinja2 import Environment, StrictUndefined
except ImportError as error:
    raise missing_extra(error) from error

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from kafka2011.audit.days import AuditedDays
    from kafka2011.reports.report import ReportSettings
    from kafka2011.reports.results import Derivation
    from kafka2011.reports.sections import TextTable

FILE = "report.html"
DEFAULT_DAYS = 7
_CLOCK_TOLERANCE = timedelta(days=1)
"""Time by which the clock of a host that dates events may be ahead of the clock of the derivation."""


def write_page(
    directory: Path,
    derivation: Derivation,
    settings: ReportSettings,
    days: int = DEFAULT_DAYS,
    quarantined: Mapping[str, int] = MappingProxyType({}),
    audited: AuditedDays | None = None,
) -> None:
    """Write the page of the newest days of the results in a directory, beside them, and a page of each of these days.

    Days in the future are not among the newest: they are counted under their own heading. `quarantined` messages of
    each topic are named where their number is known, and what the audit has concluded where it ran. Pages that are
    there are replaced. Raises OSError.
    """
    dated = sorted({day for report in REPORTS for day in tables.days_of(directory, report.name)})
    last = _last_day(derivation)
    every = [day for day in dated if day <= last]
    future = _count_events(directory, [day for day in dated if day > last])
    chosen = every[-days:]
    pages = {FILE: chosen, **({_file_of(day): [day] for day in chosen} if len(chosen) > 1 else {})}
    links = {name: "All" if name == FILE else of[0] for name, of in pages.items()} if len(pages) > 1 else {}
    template = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=False).from_string(
        files(__package__).joinpath("page.html.j2").read_text(encoding="utf-8")
    )
    for name, of in pages.items():
        text = template.render(
            title="Reports",
            subtitle=_subtitle(of, len(every), is_chosen=name != FILE),
            here=name,
            days=links,
            sections={
                report.name: report.section(tables.read_days(directory, report.name, of), settings)
                for report in REPORTS
                if report.section is not None
            },
            data={report.name for report in REPORTS if (directory / report.name).is_dir()},
            draw=charts.draw,
            future=_future(future),
            future_text=_future_text(future, last),
            source=_source(derivation, quarantined),
            source_text=_source_text(derivation),
            audit=_audit(audited, of),
            audit_text=_audit_text(audited),
            made=f"Derivation {derivation.number}, made at {_time(derivation.derived_at_ms)}.",
        )
        new = directory / f"{name}.new"
        new.write_text(text, encoding="utf-8")
        new.replace(directory / name)


def _file_of(day: str) -> str:
    return f"report-{day}.html"


def _last_day(derivation: Derivation) -> str:
    """Return the last day that is not in the future of a derivation, as text."""
    derived_at = datetime.fromtimestamp(derivation.derived_at_ms / 1000, UTC)
    return (derived_at + _CLOCK_TOLERANCE).date().isoformat()


def _count_events(directory: Path, days: Iterable[str]) -> dict[str, list[int]]:
    """Return the number of events of each day, by each report that counts them."""
    counted = [report for report in REPORTS if report.counted]
    return {
        day: [tables.total(tables.read_days(directory, report.name, [day]), report.counted) for report in counted]
        for day in days
    }


def _future(events: Mapping[str, list[int]]) -> TextTable | None:
    """Return the table of the first days in the future; None if there are none."""
    if not events:
        return None
    columns = {
        "Day": False,
        **{report.name.replace("_", " ").capitalize(): True for report in REPORTS if report.counted},
    }
    rows = [(day, *counts) for day, counts in islice(events.items(), TOP)]
    return table_of(f"Days in the future ({len(rows)} of {len(events)})", columns, rows)


def _future_text(events: Mapping[str, list[int]], last: str) -> str:
    total = sum(map(sum, events.values()))
    return (
        f"{shown(total)} events are dated after {last}, on {shown(len(events))} days. The other sections"
        " leave them out. Their results are in the Parquet files."
    )


def _subtitle(days: list[str], every: int, *, is_chosen: bool) -> str:
    if not days:
        return "There are no events yet."
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    more = f" (the newest {len(days)} of {every} days)" if every > len(days) and not is_chosen else ""
    return f"{when}, UTC{more}. Each event counts once, however often it was published."


def _source(derivation: Derivation, quarantined: Mapping[str, int]) -> TextTable:
    """Return the table of what the results were derived from."""
    if derivation.kind == "tables":
        rows: list[tuple[Any, ...]] = []
        for topic, place in sorted(derivation.through.items()):
            before = derivation.after.get(topic)
            complete = place.get("complete_through_ms")
            new = place["commit"] - (before["commit"] if before else 0)
            written = place.get("written_at_ms")
            rows.append(
                (
                    topic,
                    place["commit"],
                    new,
                    quarantined.get(topic),
                    None if written is None else _time(written),
                    "unknown" if complete is None else _time(complete),
                )
            )
        columns = {
            "Topic": False,
            "Through commit": True,
            "New commits": True,
            "In quarantine": True,
            "Loaded at": False,
            "Complete through": False,
        }
        return table_of("Source tables of these results", columns, rows)
    rows = [
        (topic, where, *offsets) for topic, of in sorted(derivation.through.items()) for where, offsets in of.items()
    ]
    columns = {"Topic": False, "Partition": False, "From offset": True, "To offset": True}
    return table_of("Source partitions of these results", columns, rows)


def _audit(audited: AuditedDays | None, days: list[str]) -> TextTable | None:
    """Return the table of what the audit has concluded of these days; None where there was none."""
    if audited is None:
        return None
    rows: list[tuple[Any, ...]] = []
    for day in days:
        of_day = [audited_day for audited_day in audited.days if audited_day.day.isoformat() == day]
        for audited_day in of_day:
            first, *rest = audited_day.tiers
            missing = ", ".join(f"{tier.tier} {shown(tier.missing)}" for tier in rest)
            verdict = audited_day.verdict if audited_day.why is None else f"{audited_day.verdict}: {audited_day.why}"
            rows.append((day, audited_day.topic, verdict, first.counted, missing or None))
        if not of_day:
            rows.append((day, "all", "not audited: no counts of that day", None, None))
    columns = {"Day": False, "Topic": False, "Audit": False, "Published": True, "Missing, by tier": False}
    return table_of("The audit's verdict for these days", columns, rows)


def _audit_text(audited: AuditedDays | None) -> str:
    if audited is None:
        return "This page has no audit: whether events are missing is unknown. Use --audit."
    return (
        f"The audit compared the counts of all tiers up to {_time(audited.until_ms)}. Its days are those on which"
        " events were published, which may be later than those of their own time."
    )


def _source_text(derivation: Derivation) -> str:
    anew = sorted({day for days in derivation.days.values() for day in days})
    if not derivation.after:
        return "All days were derived again from the events."
    return f"Days with new events, derived again: {len(anew)}. The other days did not change."


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
