"""What the demo sends can be read back."""

from __future__ import annotations

from kafka2011.demo.activity import activity_lines
from kafka2011.demo.records import PlacedLine, numbered
from kafka2011.message.message_set import Message
from zk.cluster import TopicPartition


def test_a_numbered_line_keeps_its_tabs() -> None:
    """The number stands before the first tab, whatever the line holds."""
    line = PlacedLine.of(Message("t", 1, 2, 30, 40, 0, numbered(7, b"a\tb\t")))
    assert line == ((TopicPartition("t", 1, 2), 30, 0), 7)


def test_the_activity_is_the_same_every_time() -> None:
    """A seed gives one stream, with the three kinds of event of the paper."""
    lines = list(activity_lines(500))
    assert lines == list(activity_lines(500))
    for event in (b"PageView", b"Search", b"Click"):
        assert any(event in line for line in lines)
