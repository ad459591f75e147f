"""The picture of the audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafka2011.audit.compare import TierCount, WindowAccount
from kafka2011.audit.plot import MAX_TOPICS, plot
from kafka2011.errors import KafkaError

if TYPE_CHECKING:
    from pathlib import Path


def account(topic: str, window: int, missing: int) -> WindowAccount:
    tiers = (TierCount("producer", 10, 10, 0, 0), TierCount("live", 10, 10 - missing, missing, 0))
    return WindowAccount(topic, 1_700_000_000_000 + 10_000 * window, tiers)


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_every_topic_tier_and_gap_is_drawn(tmp_path: Path) -> None:
    """The ending of the file says which kind of picture it is."""
    accounts = [account(topic, window, window * number) for number, topic in enumerate(("a", "b")) for window in (0, 1)]
    plot(accounts, tmp_path / "audit.svg")
    drawn = text_of(tmp_path / "audit.svg")
    assert drawn.count("<!-- producer -->") == 2
    assert drawn.count("<!-- live -->") == 2
    assert drawn.count("<!-- missing -->") == 1
    plot([], tmp_path / "empty.png")
    assert (tmp_path / "empty.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    """An unknown kind of picture, and more topics than one picture can show."""
    with pytest.raises(KafkaError, match=r"cannot draw into .*audit\.xyz"):
        plot([account("a", 0, 0)], tmp_path / "audit.xyz")
    with pytest.raises(KafkaError, match="51 topics are too many"):
        plot([account(str(number), 0, 0) for number in range(MAX_TOPICS + 1)], tmp_path / "audit.png")
