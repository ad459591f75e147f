"""The demo's account is right about what is missing, repeated and out of order, and about takeovers."""

from __future__ import annotations

from kafka2011.demo.account import (
    IN_A_REBALANCE,
    SENT_AGAIN,
    Logged,
    account_of_group,
    account_of_logs,
    after_kill,
    latency_percentiles_ms,
)
from kafka2011.demo.records import Place, Receipt
from zk.cluster import TopicPartition


def receipt(
    at_s: float, number: int, *, partition: int = 0, offset: int, member: str = "m1", broker: int = 0
) -> Receipt:
    received_ms = int(at_s * 1000)
    return Receipt(
        received_ms, Place(TopicPartition("t", broker, partition), offset, 0), number, received_ms - 5, member
    )


def test_logs_that_hold_every_line_once_are_good() -> None:
    """Lines spread over partitions in order: nothing to complain of."""
    account = account_of_logs(
        3,
        [
            Logged(Place(TopicPartition("t", 0, 0), 0, 0), 1, 0),
            Logged(Place(TopicPartition("t", 0, 0), 9, 0), 3, 0),
            Logged(Place(TopicPartition("t", 1, 0), 0, 0), 2, 0),
        ],
    )
    assert (account.received, account.missing, account.repeated, account.out_of_order) == (3, (), 0, 0)
    assert account.is_good(exactly_once=True)


def test_a_missing_line_is_named() -> None:
    """A line in no log is missing, and the account is not good."""
    account = account_of_logs(
        3, [Logged(Place(TopicPartition("t", 0, 0), 0, 0), 1, 0), Logged(Place(TopicPartition("t", 0, 0), 9, 0), 3, 0)]
    )
    assert account.missing == (2,)
    assert not account.is_good(exactly_once=False)


def test_a_line_sent_twice_is_repeated_but_not_out_of_order() -> None:
    """A resend lies behind later lines; only first copies count for the order."""
    account = account_of_logs(
        2, [Logged(Place(TopicPartition("t", 0, 0), n, 0), line, 0) for n, line in enumerate((1, 2, 1))]
    )
    assert dict(account.repeats) == {SENT_AGAIN: 1}
    assert account.out_of_order == 0
    assert account.is_good(exactly_once=False)
    assert not account.is_good(exactly_once=True)


def test_lines_that_lie_in_the_wrong_order_are_counted() -> None:
    """Order is judged in each partition by itself."""
    account = account_of_logs(
        3,
        [
            Logged(Place(TopicPartition("t", 0, 0), 0, 0), 2, 0),
            Logged(Place(TopicPartition("t", 0, 0), 1, 0), 1, 0),
            Logged(Place(TopicPartition("t", 0, 1), 0, 0), 3, 0),
        ],
    )
    assert account.out_of_order == 1
    assert not account.is_good(exactly_once=False)


def test_repeats_of_a_group_are_explained() -> None:
    """The same place again: after a kill or in a rebalance; another place: sent again."""
    receipts = [
        receipt(1, 1, offset=0),
        receipt(2, 2, offset=10, member="m2"),
        receipt(3, 1, offset=0, member="m3"),  # m1 was killed before it committed
        receipt(4, 2, offset=10, member="m3"),  # m2 gave it up with the message in hand
        receipt(5, 1, offset=20, member="m3"),  # the producer sent line 1 twice
    ]
    account = account_of_group("g", 2, receipts, killed=["m1"])
    assert dict(account.repeats) == {after_kill("m1"): 1, IN_A_REBALANCE: 1, SENT_AGAIN: 1}
    assert account.is_good(exactly_once=False)


def test_first_deliveries_of_a_partition_must_go_forward() -> None:
    """A later delivery of an earlier offset that nobody had before is out of order."""
    account = account_of_group("g", 2, [receipt(1, 2, offset=10), receipt(2, 1, offset=0)], killed=[])
    assert account.out_of_order == 1


def test_latency_is_that_of_first_deliveries() -> None:
    """A repeat does not make a line late."""
    fast = Receipt(1_010, Place(TopicPartition("t", 0, 0), 0, 0), 1, 1_000, "m1")
    again = Receipt(9_000, Place(TopicPartition("t", 0, 0), 0, 0), 1, 1_000, "m2")
    assert latency_percentiles_ms([fast, again])["max_ms"] == 10
    assert latency_percentiles_ms([]) == {}
