"""What the audit has concluded of each day, for those who read no windows: complete, a gap, or nobody can tell.

Days are those of `published_at`, in UTC. A document of them goes from `kafka2011 audit --json` to the page of reports.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from kafka2011.errors import KafkaError
from kafka2011.json_document import read_document

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kafka2011.audit.compare import WindowAccount
    from kafka2011.audit.verdict import Verdict

COMPLETE, GAP, CANNOT_TELL = "complete", "gap", "cannot tell"

_DAY_MS = 24 * 3_600_000


class AuditDocumentError(KafkaError):
    """A file is not what `kafka2011 audit --json` prints; the text names it."""


class TierDay(NamedTuple):
    """How many messages a tier has counted, and how many it misses."""

    tier: str
    counted: int
    missing: int


class DayVerdict(NamedTuple):
    """What the audit says of one topic on one day, and why it cannot tell, if so."""

    day: date
    topic: str
    verdict: str
    why: str | None
    tiers: tuple[TierDay, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in the document."""
        return {**self._asdict(), "day": self.day.isoformat(), "tiers": [tier._asdict() for tier in self.tiers]}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Read it back."""
        verdict = str(document["verdict"])
        if verdict not in {COMPLETE, GAP, CANNOT_TELL}:
            raise ValueError(f"{verdict!r} is no verdict")
        tiers = tuple(
            TierDay(str(tier["tier"]), int(tier["counted"]), int(tier["missing"])) for tier in document["tiers"]
        )
        why = None if document["why"] is None else str(document["why"])
        return cls(date.fromisoformat(document["day"]), str(document["topic"]), verdict, why, tiers)


class AuditedDays(NamedTuple):
    """All days that an audit has judged, in windows that ended by a time."""

    until_ms: int
    days: list[DayVerdict]


def by_day(verdict: Verdict, until_ms: int) -> list[DayVerdict]:
    """Return what was concluded of each day and topic in which a window was compared."""
    windows: dict[tuple[int, str], list[WindowAccount]] = {}
    for account in verdict.accounts:
        windows.setdefault((account.start_ms // _DAY_MS, account.topic), []).append(account)
    gaps = {(account.start_ms // _DAY_MS, account.topic) for account in verdict.gaps}
    days = []
    for (number, topic), accounts in sorted(windows.items()):
        end_ms = min((number + 1) * _DAY_MS, until_ms)
        whys = [
            unknown.why
            for of, unknown in verdict.unknowns
            if of == topic and (unknown.since_ms is None or unknown.since_ms < end_ms)
        ]
        concluded = GAP if (number, topic) in gaps else CANNOT_TELL if whys else COMPLETE
        day = datetime.fromtimestamp(number * _DAY_MS / 1000, UTC).date()
        days.append(DayVerdict(day, topic, concluded, whys[0] if whys else None, _tiers(accounts)))
    return days


def _tiers(accounts: Iterable[WindowAccount]) -> tuple[TierDay, ...]:
    days_of_tiers: dict[str, TierDay] = {}
    for account in accounts:
        for count in account.tiers:
            before = days_of_tiers.get(count.tier, TierDay(count.tier, 0, 0))
            missing = count.missing or count.missing_since_first
            days_of_tiers[count.tier] = TierDay(count.tier, before.counted + count.distinct, before.missing + missing)
    return tuple(days_of_tiers.values())


def read_days(path: Path) -> AuditedDays:
    """Read the days from what `kafka2011 audit --json` printed. Raises AuditDocumentError."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise AuditDocumentError(f"cannot read {path}: {error.strerror}") from error
    return read_document(
        text,
        lambda document: AuditedDays(
            int(document["until_ms"]), [DayVerdict.from_json(day) for day in document["days"]]
        ),
        AuditDocumentError,
        f"{path} is not what `kafka2011 audit --json` prints",
    )
