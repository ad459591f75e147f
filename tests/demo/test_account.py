"""The demo's account is right about what is missing, repeated and out of order."""

from __future__ import annotations

from kafka2011.demo.account import DELIVERED_AGAIN, SENT_AGAIN, account_for
from kafka2011.demo.records import MessagePlace, ReceivedLine
from zk.cluster import TopicPartition


def line(number: int, offset: int, *, broker: int = 0, partition: int = 0, index: int = 0) -> ReceivedLine:
    return ReceivedLine(MessagePlace(TopicPartition("t", broker, partition), offset, index), number)


def test_logs_that_hold_every_line_once_are_good() -> None:
    """Lines spread over partitions in order: nothing to complain of."""
    account = account_for("logs", 4, [line(1, 0), line(3, 9), line(4, 9, index=1), line(2, 0, broker=1)])
    assert (account.of, account.received, account.missing) == ("logs", 4, ())
    assert (account.repeated, account.out_of_order) == (0, 0)
    assert account.is_good(exactly_once=True)


def test_a_missing_line_is_named() -> None:
    """A line in no log is missing, and the account is not good."""
    account = account_for("logs", 3, [line(1, 0), line(3, 9)])
    assert account.missing == (2,)
    assert not account.is_good(exactly_once=False)


def test_a_line_sent_twice_is_repeated_but_not_out_of_order() -> None:
    """A resend lies behind later lines; only first copies count for the order."""
    account = account_for("logs", 2, [line(1, 0), line(2, 1), line(1, 2)])
    assert dict(account.repeats) == {SENT_AGAIN: 1}
    assert account.out_of_order == 0
    assert account.is_good(exactly_once=False)
    assert not account.is_good(exactly_once=True)


def test_lines_that_lie_in_the_wrong_order_are_counted() -> None:
    """Order is judged in each partition by itself."""
    account = account_for("logs", 3, [line(2, 0), line(1, 1), line(3, 0, partition=1)])
    assert account.out_of_order == 1
    assert not account.is_good(exactly_once=False)


def test_repeats_of_a_group_are_explained() -> None:
    """The same place again was delivered again; another place holds what was sent again."""
    account = account_for("group g", 2, [line(1, 0), line(2, 10), line(1, 0), line(2, 10), line(1, 20)])
    assert dict(account.repeats) == {DELIVERED_AGAIN: 2, SENT_AGAIN: 1}
    assert account.is_good(exactly_once=False)


def test_first_deliveries_of_a_partition_must_go_forward() -> None:
    """A later delivery of an earlier place that nobody had before is out of order, in a compressed set too."""
    assert account_for("group g", 2, [line(1, 10), line(2, 0)]).out_of_order == 1
    assert account_for("group g", 2, [line(1, 10, index=1), line(2, 10)]).out_of_order == 1
