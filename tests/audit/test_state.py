"""What the audit keeps of windows that it has judged for good."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kafka2011.audit.compare import TierCount, WindowAccount
from kafka2011.audit.expected import Heard
from kafka2011.audit.scan import AGAIN_MS
from kafka2011.audit.state import AuditState, AuditStateError, ReadPlace, until_when

if TYPE_CHECKING:
    from pathlib import Path

TIERS = ("producer", "live")


def account(start_ms: int, missing: int = 0) -> WindowAccount:
    return WindowAccount(
        "views", start_ms, (TierCount("producer", 5, 4, 0, 4), TierCount("live", 4, 4 - missing, missing, 1, missing))
    )


STATE = AuditState(
    home="here",
    tiers=TIERS,
    topics=("views",),
    from_ms=None,
    window_ms=10,
    until_ms=40,
    place=ReadPlace(30, {(0, 0): 100, (1, 2): 2**40}, {(0, 0): 200, (1, 2): 2**41}),
    windows={account(10): False, account(20, 1): True, account(30): False},
)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    """Without a file there is nothing yet, nor before anything was judged."""
    path = tmp_path / "audit.json"
    assert AuditState.load(path, TIERS, ["views"], None) is None
    for each in (STATE, replace(STATE, until_ms=None, windows={}, place=ReadPlace(None, {}, {}))):
        each.save(path)
        assert AuditState.load(path, TIERS, ["views"], None) == each
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("tiers", "topics", "from_ms"),
    [
        (("live", "producer"), ["views"], None),
        (TIERS, [], None),
        (TIERS, ["views", "a"], None),
        (TIERS, ["views"], 0),
    ],
)
def test_a_state_of_something_else_is_refused(
    tmp_path: Path, tiers: tuple[str, ...], topics: list[str], from_ms: int | None
) -> None:
    """Its windows were compared in another way."""
    path = tmp_path / "audit.json"
    STATE.save(path)
    with pytest.raises(AuditStateError, match=r"audit.json is of tiers producer,live and topics views: name another"):
        AuditState.load(path, tiers, topics, from_ms)
    replace(STATE, from_ms=5).save(path)
    with pytest.raises(AuditStateError, match="and topics views, from @5 on: name another"):
        AuditState.load(path, tiers, topics, from_ms)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "its version is 2, and 1 is understood"),
        ({"windows": [["views", 10, False, [[1, 2, 3, 4, 5]]]]}, "argument 2 is shorter"),
        ({"windows": [["views", "x", False, []]]}, "invalid literal"),
        ({"starts": [[0, 0]]}, "not enough values"),
        ({"until_ms": "soon"}, "invalid literal"),
        ({"tiers": 5}, "TypeError"),
    ],
)
def test_a_damaged_state_is_refused(tmp_path: Path, change: dict[str, object], words: str) -> None:
    """The error names the file."""
    path = tmp_path / "audit.json"
    STATE.save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(AuditStateError, match=rf"audit.json is no state of an audit: .*{words}"):
        AuditState.load(path, TIERS, ["views"], None)


def test_a_file_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    """Such as a directory."""
    with pytest.raises(AuditStateError, match="cannot read"):
        AuditState.load(tmp_path, TIERS, ["views"], None)
    with pytest.raises(AuditStateError, match="cannot write"):
        STATE.save(tmp_path / "none" / "audit.json")


def test_windows_that_end_later_are_left_out() -> None:
    """As they are of those that are judged now."""
    assert list(STATE.ended_by(40).windows) == [account(10), account(20, 1), account(30)]
    assert STATE.ended_by(39).windows == {account(10): False, account(20, 1): True}
    assert STATE.ended_by(19).windows == {}


def test_windows_are_judged_for_good_half_an_hour_later() -> None:
    """And that is never taken back: reports that come later have everything read again."""
    assert until_when(None, None) is None
    assert until_when(AGAIN_MS + 50, None) == 50
    assert until_when(AGAIN_MS + 50, 40) == 50
    assert until_when(AGAIN_MS + 50, 60) == 60
    assert until_when(None, 60) == 60


def test_a_state_is_of_one_declaration(tmp_path: Path) -> None:
    """Each topic has tiers of its own there. Another declaration begins with a file of its own, and so does none."""
    path = tmp_path / "audit.json"
    clicks = WindowAccount("clicks", 10, (TierCount("collect", 3, 3, 0, 0),))
    state = replace(
        STATE,
        tiers=(),
        windows={**STATE.windows, clicks: True},
        pipeline="one",
        heard=frozenset({Heard("a", "b", "c")}),
    )
    state.save(path)
    assert AuditState.load(path, (), ["views"], None, "one") == state
    with pytest.raises(AuditStateError, match="is of another declared pipeline: remove it"):
        AuditState.load(path, (), ["views"], None, "two")
    with pytest.raises(AuditStateError, match="is of a declared pipeline: remove it"):
        AuditState.load(path, TIERS, ["views"], None)
    STATE.save(path)
    with pytest.raises(AuditStateError, match="is of no declared pipeline: remove it"):
        AuditState.load(path, (), ["views"], None, "one")
