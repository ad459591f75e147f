"""What the demo sends can be read back."""

from __future__ import annotations

from kafka2011.demo.records import ReceivedLine, numbered
from kafka2011.message.message_set import Message
from zk.cluster import TopicPartition


def test_a_numbered_line_keeps_its_tabs() -> None:
    """The number stands before the first tab, whatever the line holds."""
    line = ReceivedLine.of(Message("t", 1, 2, 30, 40, 0, numbered(7, b"a\tb\t")))
    assert line == ((TopicPartition("t", 1, 2), 30, 0), 7)
