"""The demo's account is right about what is missing, repeated and out of order, and about takeovers."""

from __future__ import annotations

from kafka2011.demo.account import (
    IN_A_REBALANCE,
    SENT_AGAIN,
    Fault,
    Logged,
    account_of_group,
    account_of_logs,
    after_kill,
    latency_percentiles_ms,
    takeover_of,
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
            Logged(Place(TopicPartition("t", 0, 0), 0, 0), 1),
            Logged(Place(TopicPartition("t", 0, 0), 9, 0), 3),
            Logged(Place(TopicPartition("t", 1, 0), 0, 0), 2),
        ],
    )
    assert (account.received, account.missing, account.repeated, account.out_of_order) == (3, (), 0, 0)
    assert account.is_good(exactly_once=True)


def test_a_missing_line_is_named() -> None:
    """A line in no log is missing, and the account is not good."""
    account = account_of_logs(
        3, [Logged(Place(TopicPartition("t", 0, 0), 0, 0), 1), Logged(Place(TopicPartition("t", 0, 0), 9, 0), 3)]
    )
    assert account.missing == (2,)
    assert not account.is_good(exactly_once=False)


def test_a_line_sent_twice_is_repeated_but_not_out_of_order() -> None:
    """A resend lies behind later lines; only first copies count for the order."""
    account = account_of_logs(
        2, [Logged(Place(TopicPartition("t", 0, 0), n, 0), line) for n, line in enumerate((1, 2, 1))]
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
            Logged(Place(TopicPartition("t", 0, 0), 0, 0), 2),
            Logged(Place(TopicPartition("t", 0, 0), 1, 0), 1),
            Logged(Place(TopicPartition("t", 0, 1), 0, 0), 3),
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


def test_a_takeover_ends_when_the_last_partition_of_the_dead_member_is_read_again() -> None:
    """Each partition that the killed member read counts, and messages must flow ten seconds later."""
    fault = Fault("kill -9", 10_000, member="m1")
    before = [
        receipt(9, 1, partition=0, offset=0),
        receipt(9, 2, partition=1, offset=0),
        receipt(9, 3, partition=2, offset=0, member="m2"),
    ]
    after = [receipt(12, 4, partition=0, offset=9, member="m2"), receipt(13, 5, partition=1, offset=9, member="m2")]
    still = [receipt(24, 6, partition=1, offset=19, member="m2")]
    takeover = takeover_of(fault, "g", before + after + still)
    assert (takeover.seconds, takeover.flows_after) == (3.0, True)
    assert takeover.is_good
    assert not takeover_of(fault, "g", before + after).is_good
    assert takeover_of(fault, "g", before).seconds is None


def test_a_broker_is_back_when_messages_sent_after_the_kill_are_read_from_it() -> None:
    """What was fetched before the kill does not count."""
    fault = Fault("kill -9", 10_000, broker_id=1)
    old = Receipt(10_100, Place(TopicPartition("t", 1, 0), 10, 0), 2, 9_900, "m1")
    receipts = [
        receipt(9, 1, offset=0, broker=1),
        old,
        receipt(14, 3, offset=20, broker=1),
        receipt(25, 4, offset=30, broker=1),
    ]
    assert takeover_of(fault, "g", receipts).seconds == 4.0


def test_a_member_has_joined_when_it_delivers() -> None:
    """The time from its start to its first delivery."""
    fault = Fault("start", 10_000, member="m2")
    receipts = [
        receipt(9, 1, offset=0),
        receipt(11.5, 2, offset=9, member="m2"),
        receipt(22, 3, offset=19, member="m2"),
    ]
    assert takeover_of(fault, "g", receipts).seconds == 1.5


def test_latency_is_that_of_first_deliveries() -> None:
    """A repeat does not make a line late."""
    fast = Receipt(1_010, Place(TopicPartition("t", 0, 0), 0, 0), 1, 1_000, "m1")
    again = Receipt(9_000, Place(TopicPartition("t", 0, 0), 0, 0), 1, 1_000, "m2")
    assert latency_percentiles_ms([fast, again])["max_ms"] == 10
    assert latency_percentiles_ms([]) == {}
