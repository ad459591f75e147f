"""The inputs of results: events of topics, up to a position recorded with the results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import date

    from pyspark.sql import DataFrame


T = TypeVar("T")


class ReportInputs(Protocol):
    """Events up to a place that does not move while they are used."""

    kind: str
    """Of tables or of brokers: results of one are not continued with the other."""

    through: Mapping[str, Any]
    """How far each topic goes, as JSON; topics without a table, or a schema, are left out."""

    quarantined: Mapping[str, int]
    """Of each topic, how many messages wait in quarantine, where that is known: no report counts them."""

    def goes_on(self, after: Mapping[str, Any]) -> bool:
        """Say whether these are the same events as an earlier `through` named, with others after them."""

    def touched(self, topic: str, after: Any, reach_s: int) -> set[date]:
        """Return the days that a topic's events belong to which an earlier `through` did not have.

        An event belongs to the day when it happened, and to that of `reach_s` before.
        """

    def learns_from(self, error: Exception) -> bool:
        """Find out what a failed job did not know; say whether the job may end otherwise when it runs again."""

    def events(self, topic: str, dates: Collection[date] | None) -> DataFrame:
        """Return a topic's events of some days, or of all, as `event_frames.dated` does; repeats included."""


def with_lookups(inputs: ReportInputs, work: Callable[[], T]) -> T:
    """Run work on events, again as long as the inputs learn from its failures; return its result."""
    while True:
        try:
            return work()
        except Exception as error:
            if not inputs.learns_from(error):
                raise
