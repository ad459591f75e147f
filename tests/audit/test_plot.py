"""The picture of the audit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from kafka2011.audit.compare import TierCount, WindowAccount
from kafka2011.audit.plot import MAX_TOPICS, plot, steps
from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from pathlib import Path


WINDOW_MS = 10_000
DAY_MS = 86_400_000


def account(topic: str, window: int, missing: int) -> WindowAccount:
    tiers = (TierCount("producer", 10, 10, 0, 0), TierCount("live", 10, 10 - missing, missing, 0))
    return WindowAccount(topic, 1_700_000_000_000 + 10_000 * window, tiers)


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_every_topic_tier_and_gap_is_drawn(tmp_path: Path) -> None:
    """The ending of the file says which kind of picture it is."""
    accounts = [account(topic, window, window * number) for number, topic in enumerate(("a", "b")) for window in (0, 1)]
    plot(accounts, WINDOW_MS, tmp_path / "audit.svg")
    drawn = text_of(tmp_path / "audit.svg")
    assert drawn.count("<!-- producer -->") == 2
    assert drawn.count("<!-- live -->") == 2
    assert drawn.count("<!-- missing -->") == 1
    plot([], WINDOW_MS, tmp_path / "empty.png")
    assert (tmp_path / "empty.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    """An unknown kind of picture, and more topics than one picture can show."""
    with pytest.raises(KafkaError, match=r"cannot draw into .*audit\.xyz"):
        plot([account("a", 0, 0)], WINDOW_MS, tmp_path / "audit.xyz")
    with pytest.raises(KafkaError, match="51 topics are too many"):
        plot([account(str(number), 0, 0) for number in range(MAX_TOPICS + 1)], WINDOW_MS, tmp_path / "audit.png")


def test_a_window_is_a_step_and_nothing_between_windows_is_zero() -> None:
    """A line from one window to the next would show messages where none were."""
    edges, values = steps([(10_000, 5), (20_000, 7), (90_000, 3)], WINDOW_MS)
    assert [round(each * DAY_MS) for each in edges] == [10_000, 20_000, 30_000, 90_000, 100_000]
    assert values == [5, 7, 0, 3]


def test_a_tier_has_one_colour_in_all_topics(tmp_path: Path) -> None:
    """Whatever other tiers a topic has; what is missing has a colour of its own, and is drawn last."""
    few = WindowAccount("b", 1_700_000_000_000, (TierCount("live", 10, 10, 0, 0), TierCount("load", 10, 9, 1, 0)))
    plot([account("a", 0, 0), few], WINDOW_MS, tmp_path / "audit.svg")
    drawn = text_of(tmp_path / "audit.svg").lower()
    assert [drawn.count(f"stroke: {colour}") > 0 for colour in ("#0072b2", "#e69f00", "#009e73")] == [True] * 3
    assert drawn.rindex("fill: #d55e00") > drawn.index("stroke: #009e73")


@pytest.mark.parametrize("start_ms", [9_467_081_280_000_000, -(10**15), 2**62, -(2**63)])
def test_a_time_that_no_calendar_has_is_left_out(
    tmp_path: Path, start_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    """As that of an event of the year 300,000; the windows beside it are drawn."""
    plot([account("a", 0, 0), account("a", 1, 0)._replace(start_ms=start_ms)], WINDOW_MS, tmp_path / "audit.svg")
    assert "<!-- live -->" in text_of(tmp_path / "audit.svg")
    assert "1 windows are not drawn" in caplog.text


@pytest.mark.parametrize("years", [(2, 9998), (2, 2), (9998, 9998)])
def test_the_first_and_the_last_time_that_can_be_drawn(tmp_path: Path, years: tuple[int, int]) -> None:
    """The axis has room for them."""
    times = [int(datetime(year, 12, 31, tzinfo=UTC).timestamp() * 1000) for year in years]
    plot([account("a", 0, 1)._replace(start_ms=each) for each in dict.fromkeys(times)], WINDOW_MS, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 0


def test_names_are_no_formulas(tmp_path: Path) -> None:
    """A report may name anything."""
    plot([account("$x^{", 0, 0)], WINDOW_MS, tmp_path / "audit.svg")
    assert "$x^{" in text_of(tmp_path / "audit.svg")
