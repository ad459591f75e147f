"""What a report is: frames that become one, what its results depend on besides events, and its section of the page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kafka2011.reports.sections import Section

_LOGIC = 2
"""Raise it with a change that makes other results of the same events: then all days are derived again."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class ReportSetting(Generic[T_co]):
    """Something besides events that results depend on. Where it is changed, all days are derived again."""

    name: str
    default: T_co
    option: str = ""
    """Its option of `kafka2011 report`; one without is always at its default there."""
    metavar: str | None = None
    meaning: str = ""


class ReportSettings:
    """What was chosen; all other settings are at their defaults."""

    def __init__(self, chosen: Mapping[ReportSetting[Any], Any] | None = None) -> None:
        self._chosen = dict(chosen or {})

    def __getitem__(self, setting: ReportSetting[T]) -> T:
        value: T = self._chosen.get(setting, setting.default)
        return value

    def to_json(self, reports: Iterable[Report]) -> dict[str, Any]:
        """Return those of some reports as they are written down with results; the order of several values is none."""
        values = {setting.name: self[setting] for report in reports for setting in report.settings}
        return {
            "logic": _LOGIC,
            **{name: sorted(value) if isinstance(value, tuple) else value for name, value in values.items()},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One report: each day of it can be made of events around that day alone."""

    name: str
    topics: tuple[str, ...]
    make: Callable[[Mapping[str, DataFrame], ReportSettings], DataFrame]
    """Takes a frame for each topic, as `event_frames.dated` gives it; returns one with a column `date`."""
    order: tuple[str, ...]
    """The columns that rows of a day are sorted by."""
    settings: tuple[ReportSetting[Any], ...] = ()
    reach_s: Mapping[str, ReportSetting[int]] = field(default_factory=dict)
    """Of topics whose events may belong to the day before: how long after its end they still matter."""
    reads_unreadable: bool = False
    """Whether it is made of the lines of logs that could not be read; all others are made without them."""
    counted: str = ""
    """The column whose sum is the number of events of a day, for the count of days in the future."""
    section: Callable[[pa.Table, ReportSettings], Section] | None = None
    """Takes the results of some days; without one, the page does not show the report."""

    def reach_of(self, topic: str, settings: ReportSettings) -> int:
        """Return how long after the end of a day, in seconds, events of a topic still matter to it."""
        return settings[self.reach_s[topic]] if topic in self.reach_s else 0
