"""Every log gets keys that spread its lines."""

from __future__ import annotations

from collections import Counter

import pytest

from kafka2011.demo.activity import activity_lines
from kafka2011.demo.keys import key_of, keys_of
from kafka2011.producer.partitioner import DefaultPartitioner

PARTITIONS = 9


def test_lines_of_one_member_or_client_share_a_key() -> None:
    """Made-up events are keyed by member, other logs by their first word."""
    assert key_of(b'83.149.9.216 - - [17/May/2015] "GET /"') == "83.149.9.216"
    assert key_of(b'{"event": "Click", "member": "member-7"}') == "member-7"
    assert key_of(b"") == ""


@pytest.mark.parametrize(
    "lines",
    [
        list(activity_lines(3000)),
        [b"10.0.%d.%d GET /" % (number % 7, number * number % 251) for number in range(1000)],
        [b"client-%d line %d" % (number % 17, number) for number in range(600)],
    ],
)
def test_keys_that_spread_are_kept(lines: list[bytes]) -> None:
    """Events by member, an access log by client: their own keys."""
    assert keys_of(lines, PARTITIONS) == ([key_of(line) for line in lines], True)


@pytest.mark.parametrize(
    "lines",
    [
        [b"2026-%02d-%02d 10:00:00 status installed" % (n // 900 + 1, n // 30 % 30 + 1) for n in range(3000)],
        [b"INFO %d" % number for number in range(3000)],
        [b"Start-Date: 1", b"Commandline: apt", b"", b"End-Date: 2"] * 200,
        [b"10.0.0.%d x" % number for number in range(500)] + [b"INFO x"] * 500,
    ],
)
def test_a_log_whose_keys_come_one_at_a_time_gets_others(lines: list[bytes]) -> None:
    """A date or a constant in front, and one partition would get all: keys by number go to every one, all the time."""
    keys, are_own = keys_of(lines, PARTITIONS)
    assert not are_own
    partition_of = DefaultPartitioner().partition
    for start in range(0, len(lines), 100):
        counts = Counter(partition_of(key, PARTITIONS) for key in keys[start : start + 100])
        assert len(counts) == PARTITIONS
        assert max(counts.values()) < 40


@pytest.mark.parametrize("count", [1, 2, 29, 31, 59])
def test_few_lines_have_keys_too(count: int) -> None:
    """However short the log, each line has a key."""
    assert len(keys_of([b"x"] * count, PARTITIONS)[0]) == count
