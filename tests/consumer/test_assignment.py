"""Algorithm 1 as a function: which partitions of a topic each stream takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.consumer.rebalance import assign
from kafka2011.consumer.topic_count import TopicCount, stream_ids
from tests.support.znodes_of_07 import TWO_MEMBERS
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from random import Random

partitions = st.sets(st.builds(TopicPartition, st.just("t"), st.integers(0, 120), st.integers(0, 30)), max_size=60)
streams = st.sets(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=3), max_size=20)


def on_broker_0(count: int) -> list[TopicPartition]:
    return [TopicPartition("t", 0, number) for number in range(count)]


def names(shares: dict[str, list[TopicPartition]]) -> dict[str, list[str]]:
    return {stream: [where.znode_name for where in share] for stream, share in shares.items()}


def test_partitions_are_sorted_as_strings() -> None:
    """As 0.7 does it: 0-10 comes before 0-2, so the shares are not what numbers would give."""
    assert names(assign(on_broker_0(12), ["a", "b"])) == {
        "a": ["0-0", "0-1", "0-10", "0-11", "0-2", "0-3"],
        "b": ["0-4", "0-5", "0-6", "0-7", "0-8", "0-9"],
    }


def test_the_first_streams_take_one_more() -> None:
    """With N = |P| div |C| and R = |P| mod |C|, and the streams sorted as strings too."""
    assert names(assign(on_broker_0(5), ["c-2", "c-10", "c-1"])) == {
        "c-1": ["0-0", "0-1"],
        "c-10": ["0-2", "0-3"],
        "c-2": ["0-4"],
    }


def test_more_streams_than_partitions_leave_the_last_ones_idle() -> None:
    """A partition is the smallest unit of parallelism."""
    assert names(assign(on_broker_0(1), ["a", "b", "c"])) == {"a": ["0-0"], "b": [], "c": []}


def test_without_streams_nobody_takes_anything() -> None:
    """And without partitions nobody has anything to take."""
    assert assign(on_broker_0(3), []) == {}
    assert assign([], ["a"]) == {"a": []}


@given(partitions, streams, st.randoms())
def test_every_member_computes_the_same_fair_contiguous_shares(
    partitions: set[TopicPartition], streams: set[str], random: Random
) -> None:
    """One owner each, shares that differ by at most one, in whatever order the registries were listed."""
    listed = sorted(partitions)
    shares = assign(listed, sorted(streams))
    shuffled, mixed_up = listed.copy(), sorted(streams)
    random.shuffle(shuffled)
    random.shuffle(mixed_up)
    assert assign(shuffled, mixed_up) == shares
    assert set(shares) == streams
    if streams:
        joined = [where for stream in sorted(shares) for where in shares[stream]]
        assert joined == sorted(partitions, key=lambda where: where.znode_name)
        sizes = [len(shares[stream]) for stream in sorted(shares)]
        assert max(sizes) - min(sizes) <= 1
        assert sizes == sorted(sizes, reverse=True)


def test_two_members_of_07_shared_the_partitions_just_so() -> None:
    """The owner nodes that two members of a running 0.7.2 wrote are those that we compute from their ids nodes."""
    data = {znode.path: znode.data or "" for znode in TWO_MEMBERS}
    ids, owners = "/consumers/gstatic/ids/", "/consumers/gstatic/owners/"
    members = {path.removeprefix(ids): TopicCount.parse(text) for path, text in data.items() if path.startswith(ids)}
    computed: dict[str, str] = {}
    for topic, partitions in {"cap": 1, "multi": 3}.items():
        every = [s for member, count in members.items() for s in stream_ids(member, count.streams_of(topic))]
        for stream, share in assign([TopicPartition(topic, 0, number) for number in range(partitions)], every).items():
            computed |= {f"{owners}{topic}/{where.znode_name}": stream for where in share}
    assert computed == {path: text for path, text in data.items() if path.startswith(owners) and text}
    assert len(computed) == 4


@pytest.mark.parametrize("count", [1, 9, 10])
def test_stream_ids_are_numbered_from_0(count: int) -> None:
    """`{consumer}-{number}`."""
    assert stream_ids("g_h-1-abcd", count) == [f"g_h-1-abcd-{number}" for number in range(count)]
