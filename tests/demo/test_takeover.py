"""Takeovers are judged by the lines that there were to read, and members by what they owned."""

from __future__ import annotations

from kafka2011.demo.account import Logged
from kafka2011.demo.records import Place, Receipt
from kafka2011.demo.takeover import FLOW_AFTER_S, Fault, Owned, takeover_of
from zk.cluster import TopicPartition

FIRST, SECOND, THIRD = (TopicPartition("t", broker_id, 0) for broker_id in range(3))
KILLED = Fault("kill -9", 10_000, member="m1")
STARTED = Fault("start", 10_000, member="m2")
BROKER = Fault("kill -9", 10_000, broker_id=1)
LATER_S = 14 + FLOW_AFTER_S


def line(sent_s: float, where: TopicPartition) -> Logged:
    """Return a line, whose number is when it was sent."""
    number = int(sent_s * 1000)
    return Logged(Place(where, number, 0), number, number)


def receipt(of: Logged, received_s: float, member: str) -> Receipt:
    return Receipt(int(received_s * 1000), of.place, of.number, of.sent_ms, member)


def owned(at_s: float, **owners: TopicPartition | tuple[TopicPartition, ...]) -> Owned:
    by_partition = {
        where: member
        for member, its in owners.items()
        for where in ((its,) if isinstance(its, TopicPartition) else its)
    }
    return Owned(int(at_s * 1000), by_partition)


def test_a_killed_members_partitions_are_read_by_others() -> None:
    """It is over when the last of them is read again; ten seconds later lines must still flow."""
    lines = [line(9, FIRST), line(11, FIRST), line(12, SECOND), line(12, THIRD), line(LATER_S, FIRST)]
    owners = [owned(5, m1=(FIRST, SECOND), m2=THIRD)]
    receipts = [
        receipt(lines[0], 9, "m1"),
        receipt(lines[1], 12, "m2"),
        receipt(lines[2], 13, "m3"),
        receipt(lines[3], 12, "m2"),
    ]
    late = receipt(lines[4], LATER_S, "m2")
    takeover = takeover_of(KILLED, "g", [*receipts, late], lines, owners)
    assert (takeover.seconds, takeover.flows_after, takeover.is_good) == (3.0, True, True)
    assert not takeover_of(KILLED, "g", receipts, lines, owners).is_good
    unread = takeover_of(KILLED, "g", [receipts[0], receipts[1], late], lines, owners)
    assert (unread.seconds, unread.is_good) == (None, False)


def test_partitions_that_get_nothing_owe_nothing() -> None:
    """A log that goes to other partitions says nothing against a member."""
    owners = [owned(5, m1=(FIRST, SECOND), m2=THIRD)]
    lines = [line(9, FIRST), line(11, THIRD)]
    receipts = [receipt(lines[0], 9, "m1"), receipt(lines[1], 11, "m2")]
    quiet = takeover_of(KILLED, "g", receipts, lines, owners)
    assert (quiet.seconds, quiet.flows_after, quiet.is_owed, quiet.is_good) == (None, None, False, True)
    assert takeover_of(BROKER, "g", receipts, lines, owners).is_good
    assert takeover_of(STARTED, "g", receipts, lines, [owned(5, m1=FIRST), owned(11.5, m1=FIRST, m2=SECOND)]).is_good


def test_lines_that_end_soon_need_not_flow_later() -> None:
    """Where nothing is sent ten seconds later, nothing can be read."""
    lines = [line(11, FIRST)]
    takeover = takeover_of(KILLED, "g", [receipt(lines[0], 14, "m2")], lines, [owned(5, m1=FIRST)])
    assert (takeover.seconds, takeover.flows_after, takeover.is_good) == (4.0, None, True)


def test_a_broker_is_back_when_messages_sent_after_the_kill_are_read_from_it() -> None:
    """What was fetched before the kill does not count."""
    lines = [line(9.9, SECOND), line(11, SECOND), line(LATER_S, SECOND)]
    receipts = [receipt(lines[0], 10.1, "m1"), receipt(lines[1], 14, "m1"), receipt(lines[2], LATER_S, "m1")]
    takeover = takeover_of(BROKER, "g", receipts, lines, [])
    assert (takeover.seconds, takeover.is_good) == (4.0, True)
    assert not takeover_of(BROKER, "g", receipts[:1], lines, []).is_good


def test_a_member_has_joined_when_it_delivers_what_it_owns() -> None:
    """A member that owns partitions with lines must deliver some; one that owns none has failed to join."""
    lines = [line(9, FIRST), line(12, SECOND), line(LATER_S, SECOND)]
    owners = [owned(5, m1=(FIRST, SECOND)), owned(11, m1=FIRST, m2=SECOND)]
    receipts = [receipt(lines[0], 9, "m1"), receipt(lines[1], 12.5, "m2"), receipt(lines[2], LATER_S, "m2")]
    takeover = takeover_of(STARTED, "g", receipts, lines, owners)
    assert (takeover.seconds, takeover.flows_after, takeover.is_good) == (2.5, True, True)
    assert not takeover_of(STARTED, "g", receipts[:1], lines, owners).is_good
    assert not takeover_of(STARTED, "g", receipts, lines, owners[:1]).is_good


def test_what_is_sent_while_a_partition_moves_on_may_be_the_next_owners() -> None:
    """A member that owned a partition for a moment need not have delivered what came in that moment."""
    lines = [line(12, SECOND)]
    owners = [owned(11, m1=FIRST, m2=SECOND), owned(13, m1=(FIRST, SECOND))]
    assert takeover_of(STARTED, "g", [receipt(lines[0], 14, "m1")], lines, owners).is_good
