"""What chaos's producers and members write down is read back as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.chaos import schedule
from integration.chaos.records import (
    MessageId,
    Place,
    identify,
    outcome_line,
    payload_of,
    read_member,
    read_sent,
    receipt_line,
    sent_line,
    tenure_line,
    whole_lines,
)
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from pathlib import Path

WHERE = TopicPartition("chaos-1", 2, 1)


def test_a_value_of_the_java_producer_names_its_message() -> None:
    """The name leaves out the partition."""
    assert identify(b"today.java-3-17") == (MessageId("today.java", 17), "-")
    assert MessageId("today.java", 17).is_of_today
    for value in (b"today.java-3-17 ", b"today.java-3-", b"today-java-3-17", b"xtoday.java-3-17", b"today.java-3-1x"):
        assert identify(value) is None


def test_a_payload_names_its_message() -> None:
    """Each byte counts: with any other one it is nobody's payload."""
    seen = set()
    for number in range(300):
        payload = payload_of(MessageId("keyed.1", number), "k7")
        assert identify(payload) == (MessageId("keyed.1", number), "k7")
        seen.add(len(payload))
    payload = payload_of(MessageId("keyed.1", 3), "k7")
    for position in range(len(payload)):
        assert identify(payload[:position] + bytes([payload[position] ^ 1]) + payload[position + 1 :]) is None
    assert identify(payload[:-1]) is identify(payload + b"0") is identify(b"") is None
    assert max(seen) > 5000


def test_lines_of_a_producer() -> None:
    """What was sent, and what became of it, if anybody knows."""
    lines = [
        sent_line(1.5, 0, "chaos-1", "k1", ""),
        sent_line(2.5, 1, "chaos-1", "-", "2-0"),
        outcome_line(3.5, 0, "confirmed", 2),
        b"X 4.0 {}\n",
    ]
    first, second = read_sent("keyed.1", [line.decode() for line in lines])
    assert first == (("keyed.1", 0), "chaos-1", "k1", "", 1.5, "confirmed", 3.5, 2)
    assert second == (("keyed.1", 1), "chaos-1", "-", "2-0", 2.5, "", 0.0, 0)


def test_lines_of_a_member() -> None:
    """What was handed out, which partitions came and went, and the rest by its first word."""
    payload = payload_of(MessageId("keyed.1", 7), "k")
    lines = [
        tenure_line(1.5, "assigned", [WHERE, WHERE._replace(partition=0)]),
        receipt_line(2.5, Place(WHERE, 100, 3), 200, payload),
        receipt_line(2.5, Place(WHERE, 200, 0), 300, payload + b"?"),
        b"E 3.5 KafkaError and more\n",
        b"P 4.5\n",
    ]
    found = read_member("a", [line.decode() for line in lines])
    assert found.tenures == [(1.5, "a", "assigned", (WHERE, WHERE._replace(partition=0)))]
    assert found.receipts == [
        (2.5, "a", (WHERE, 100, 3), 200, ("keyed.1", 7)),
        (2.5, "a", (WHERE, 200, 0), 300, None),
    ]
    assert found.others == [("E", 3.5, "KafkaError and more\n"), ("P", 4.5, "")]


def test_a_torn_line(tmp_path: Path) -> None:
    """What kill -9 left of a last line is not read."""
    path = tmp_path / "notes"
    assert list(whole_lines(path)) == []
    path.write_text("one\ntwo\nthr")
    assert list(whole_lines(path)) == ["one\n", "two\n"]


def test_a_schedule_comes_of_its_seed() -> None:
    """The same seed draws the same faults, which have all ended in time; JSON keeps them."""
    faults = schedule.draw_schedule(7, 600)
    assert faults == schedule.draw_schedule(7, 600) != schedule.draw_schedule(8, 600)
    assert all(fault.at_s + fault.lasts_s <= 600.01 for fault in faults)
    assert {fault.kind for fault in faults} == set(schedule.WEIGHTS)
    assert schedule.from_json(schedule.to_json(7, 600, faults)) == (7, 600, faults)
