"""What the demo sends and notes can be read back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka2011.demo.activity import activity_lines
from kafka2011.demo.records import Place, Receipt, number_and_time, numbered, read_receipts
from kafka2011.message.message_set import Message
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path


def test_a_numbered_line_keeps_its_tabs() -> None:
    """Number and time stand before the first two tabs, whatever the line holds."""
    number, sent_ms = number_and_time(numbered(7, b"a\tb\t"))
    assert number == 7
    assert sent_ms > 1_500_000_000_000


def test_receipts_survive_a_torn_last_line(tmp_path: Path) -> None:
    """A member that was killed in the middle of a write leaves whole receipts before it."""
    message = Message("t", 1, 2, 30, 40, 0, numbered(5, b"x"))
    made = Receipt.of(message, "reports-1")
    path = tmp_path / "reports-1.receipts"
    path.write_bytes(made.to_line() + made.to_line()[:-3])
    assert list(read_receipts(path)) == [made]
    assert made.place == Place(TopicPartition("t", 1, 2), 30, 0)
    assert list(read_receipts(tmp_path / "none.receipts")) == []


def test_the_activity_is_the_same_every_time() -> None:
    """A seed gives one stream, with the three kinds of event of the paper."""
    lines = list(activity_lines(500))
    assert lines == list(activity_lines(500))
    for event in (b"PageView", b"Search", b"Click"):
        assert any(event in line for line in lines)
