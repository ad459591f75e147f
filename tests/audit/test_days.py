"""What the audit has concluded of each day, on its way to the page of reports."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING

import pytest

from kafka2011.audit.compare import TierCount, WindowAccount
from kafka2011.audit.days import AuditDocumentError, by_day, read_days
from kafka2011.audit.scan import Unknown
from kafka2011.audit.verdict import Verdict

if TYPE_CHECKING:
    from pathlib import Path

DAY_MS = 24 * 3_600_000
FIRST_MS = 15_137 * DAY_MS  # 2011-06-12


def window(topic: str, start_ms: int, *missing: int) -> WindowAccount:
    tiers = (TierCount(f"tier{number}", 10, 10, lost, 0) for number, lost in enumerate(missing))
    return WindowAccount(topic, start_ms, tuple(tiers))


def test_each_day_has_the_verdict_of_its_windows() -> None:
    """A gap goes before unknowns, which hold from their time on, and for their topic; what is missing is summed up."""
    gap = window("views", FIRST_MS + 20_000, 0, 3)
    accounts = [
        window("views", FIRST_MS, 0, 0),
        gap,
        window("views", FIRST_MS + DAY_MS, 0, 0),
        window("views", FIRST_MS + 2 * DAY_MS, 0, 2),
        window("clicks", FIRST_MS + 2 * DAY_MS, 0, 0),
    ]
    unknowns = [("views", Unknown(FIRST_MS + 2 * DAY_MS + 5, "tier1 is silent"))]
    found = by_day(Verdict(accounts, [gap], unknowns, 0, None), FIRST_MS + 2 * DAY_MS + 50_000)
    assert [(each.day.day, each.topic, each.verdict, each.why) for each in found] == [
        (12, "views", "gap", None),
        (13, "views", "complete", None),
        (14, "clicks", "complete", None),
        (14, "views", "cannot tell", "tier1 is silent"),
    ]
    assert found[0].day == date(2011, 6, 12)
    assert found[0].tiers == (("tier0", 20, 0), ("tier1", 20, 3))


def test_an_unknown_of_ever_and_one_that_begins_after_the_last_window() -> None:
    """The first is about every day, the other about none."""
    accounts = [window("views", FIRST_MS, 0, 0)]
    for since_ms, concluded in ((None, "cannot tell"), (FIRST_MS + 10_000, "complete")):
        verdict = Verdict(accounts, [], [("views", Unknown(since_ms, "silence"))], 0, None)
        assert [each.verdict for each in by_day(verdict, FIRST_MS + 10_000)] == [concluded]


def test_they_are_read_back(tmp_path: Path) -> None:
    """From the document that the command prints."""
    days = by_day(Verdict([window("views", FIRST_MS, 0, 3)], [], [], 0, None), FIRST_MS + DAY_MS)
    path = tmp_path / "audit.json"
    path.write_text(json.dumps({"until_ms": 5, "days": [each.to_json() for each in days], "totals": []}))
    assert read_days(path) == (5, days)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kafka2011: error", "it is not JSON"),
        ("[]", "not an object"),
        ('{"until_ms": 5}', "it has no 'days'"),
        ('{"until_ms": 5, "days": [{"verdict": "well", "tiers": []}]}', "'well' is no verdict"),
    ],
)
def test_what_is_no_such_document(text: str, why: str, tmp_path: Path) -> None:
    """It is named, with what is wrong."""
    path = tmp_path / "audit.json"
    path.write_text(text)
    with pytest.raises(AuditDocumentError, match=f"audit.json is not what .* prints: .*{why}"):
        read_days(path)
    with pytest.raises(AuditDocumentError, match=r"cannot read .*nowhere"):
        read_days(tmp_path / "nowhere")
