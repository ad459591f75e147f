"""The fair division: all have as much as the next, all members compute the same, and few partitions move."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import product
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka2011.consumer import fair_assignment
from kafka2011.consumer.fair_assignment import FairShares, assign_fairly
from kafka2011.consumer.topic_count import TopicCount, stream_ids
from kafka2011.consumer.topic_filter import Whitelist
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

names = st.text("abcdefghij-_0123456789", min_size=1, max_size=12)
partitions = st.lists(st.builds(TopicPartition, names, st.integers(0, 3), st.integers(0, 12)), max_size=60, unique=True)


def everything(streams: int = 1) -> TopicCount:
    return TopicCount.filtered(Whitelist(".*"), streams)


def group(members: int, streams: int = 1, seed: int = 0) -> dict[str, TopicCount]:
    random = Random(seed)
    return {
        f"mirror_host{random.randrange(90)}-{random.randrange(10**12)}": everything(streams) for _ in range(members)
    }


def topics(count: int) -> list[TopicPartition]:
    return [TopicPartition(f"topic-{number}", 0, 0) for number in range(count)]


def owners(partitions: list[TopicPartition], members: dict[str, TopicCount]) -> dict[TopicPartition, str]:
    """Say which member has each partition."""
    shares = assign_fairly(partitions, members)
    return {where: stream.rpartition("-")[0] for stream, share in shares.items() for where in share}


def loads(partitions: list[TopicPartition], members: dict[str, TopicCount]) -> list[int]:
    found = Counter(dict.fromkeys(members, 0)) + Counter()
    found.update(owners(partitions, members).values())
    return sorted((found[member] for member in members), reverse=True)


def test_many_topics_of_one_partition_go_to_all_members() -> None:
    """By 0.7's rule the first stream would get all of them."""
    assert loads(topics(24), group(4)) == [6, 6, 6, 6]


@given(partitions, st.lists(names, min_size=1, max_size=8, unique=True), st.integers(1, 5))
def test_who_wants_the_same_has_the_same(every: list[TopicPartition], members: list[str], streams: int) -> None:
    """Give or take one, by members and by streams; and each partition is somebody's."""
    shares = assign_fairly(every, dict.fromkeys(members, everything(streams)))
    assert sorted(where for share in shares.values() for where in share) == sorted(every)
    of_members = loads(every, dict.fromkeys(members, everything(streams)))
    of_streams = [len(shares.get(stream, ())) for member in members for stream in stream_ids(member, streams)]
    assert max(of_members) - min(of_members) <= 1
    assert max(of_streams) - min(of_streams) <= 1


@given(partitions, st.dictionaries(names, st.dictionaries(names, st.integers(1, 3), min_size=1), max_size=5), st.data())
def test_all_members_compute_the_same(
    every: list[TopicPartition], wanted: dict[str, dict[str, int]], data: st.DataObject
) -> None:
    """In whichever order they have read members and partitions."""
    members = {member: TopicCount.static(of_member) for member, of_member in wanted.items()}
    shares = assign_fairly(every, members)
    order = data.draw(st.permutations(sorted(members)))
    again = assign_fairly(data.draw(st.permutations(every)), {member: members[member] for member in order})
    assert again == shares


few = st.lists(
    st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 1), st.integers(0, 2)), max_size=6, unique=True
)
subscriptions = st.dictionaries(
    st.sampled_from(["x", "y", "z"]), st.dictionaries(st.sampled_from("abc"), st.integers(1, 2), min_size=1), min_size=1
)


@given(few, subscriptions)
def test_a_member_gets_only_what_it_subscribes_to(
    every: list[TopicPartition], wanted: dict[str, dict[str, int]]
) -> None:
    """In streams that it has for the topic; and what anybody subscribes to is somebody's."""
    shares = assign_fairly(every, {member: TopicCount.static(of_member) for member, of_member in wanted.items()})
    for stream, share in shares.items():
        member, _, number = stream.rpartition("-")
        assert all(int(number) < wanted[member].get(where.topic, 0) for where in share)
    subscribed = {topic for of_member in wanted.values() for topic in of_member}
    assert sorted(w for share in shares.values() for w in share) == sorted(w for w in every if w.topic in subscribed)


@given(few, st.dictionaries(st.sampled_from(["x", "y", "z"]), st.sets(st.sampled_from("abc"), min_size=1), min_size=1))
def test_no_division_is_fairer(every: list[TopicPartition], wanted: dict[str, set[str]]) -> None:
    """Of all there are, where members subscribe to different topics: the one with most has as little as can be."""
    members = {member: TopicCount.static(dict.fromkeys(of_member, 1)) for member, of_member in wanted.items()}
    takers = [[m for m in sorted(wanted) if where.topic in wanted[m]] for where in every]
    best = min(
        sorted((Counter(way)[member] for member in wanted), reverse=True) for way in product(*filter(None, takers))
    )
    assert loads(every, members) == best


def test_a_member_with_more_streams_gets_more() -> None:
    """As by 0.7's rule."""
    members = {"a": everything(3), "b": everything(1), "c": everything(2)}
    found = Counter(owners(topics(24), members).values())
    assert found == {"a": 12, "b": 4, "c": 8}


def test_nothing_is_divided_among_nobody() -> None:
    """And members without partitions have none."""
    assert assign_fairly(topics(3), {}) == {}
    assert not any(assign_fairly([], group(2)).values())
    assert not any(assign_fairly(topics(1), {"a": TopicCount.static({"other": 1})}).values())


@pytest.mark.parametrize(("count", "members"), [(24, 3), (24, 4), (100, 4), (100, 10), (400, 16)])
def test_few_partitions_move_when_a_member_comes_or_goes(count: int, members: int) -> None:
    """At least its share has to; on average less than twice as much does, and never three times."""
    moved = []
    for seed in range(10):
        with_it = group(members + 1, seed=seed)
        without = dict(list(with_it.items())[:-1])
        before, after = owners(topics(count), without), owners(topics(count), with_it)
        moved.append(sum(before[where] != after[where] for where in before))
    share = -(-count // (members + 1))
    assert sum(moved) / len(moved) < 2 * share
    assert max(moved) < 3 * share


def test_few_partitions_move_when_a_topic_comes_or_goes() -> None:
    """Where one takes one more, another may have to take one less, and so on, but not far."""
    moved = []
    for seed in range(20):
        members, every = group(7, seed=seed), topics(101)
        before, after = owners(every[1:], members), owners(every, members)
        moved.append(sum(before[where] != after[where] for where in before))
    assert sum(moved) / len(moved) < 5


def test_the_outcome_is_that_of_other_versions() -> None:
    """Members of all versions that say `fair` must agree: a change that fails this needs another word."""
    members = {"g_a": everything(2), "g_b": everything(1), "g_c": TopicCount.static({"views": 1})}
    every = [TopicPartition(topic, broker, 0) for topic in ("views", "clicks") for broker in range(4)]
    found = {stream: [str(where) for where in share] for stream, share in assign_fairly(every, members).items()}
    assert found == {
        "g_a-0": ["clicks/1-0", "clicks/2-0"],
        "g_a-1": ["clicks/3-0", "views/3-0"],
        "g_b-0": ["clicks/0-0", "views/2-0"],
        "g_c-0": ["views/1-0", "views/0-0"],
    }


def test_all_outcomes_are_those_of_other_versions() -> None:
    """Of groups in which not all want the same, and not all have as many streams."""
    random = Random(7)
    found = hashlib.sha256()
    for _ in range(40):
        members = {f"g_{number}": everything(random.randrange(1, 5)) for number in range(random.randrange(1, 6))}
        for number in range(random.randrange(4)):
            wanted = random.sample(range(12), random.randrange(1, 6))
            members[f"g_x{number}"] = TopicCount.static({f"topic-{each}": random.randrange(1, 4) for each in wanted})
        if random.random() < 0.5:
            members = {member: count for member, count in members.items() if count.topic_filter is None}
        every = [TopicPartition(f"topic-{n}", b, 0) for n in range(12) for b in range(random.randrange(4))]
        for stream, share in sorted(assign_fairly(every, members).items()):
            found.update(f"{stream}: {', '.join(map(str, sorted(share)))}\n".encode())
    assert found.hexdigest()[:16] == "b90fd1e135755da3"


def test_nothing_is_computed_again_while_nothing_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member at rest looks every ten seconds."""
    calls: list[object] = []

    def counted(
        partitions: Iterable[TopicPartition], members: Mapping[str, TopicCount]
    ) -> dict[str, list[TopicPartition]]:
        calls.append(members)
        return assign_fairly(partitions, members)

    monkeypatch.setattr(fair_assignment, "assign_fairly", counted)
    shares = FairShares()
    every = {"topic-0": topics(1)}
    for _ in range(3):
        assert list(shares.owners(every, group(2))) == topics(1)
    assert len(calls) == 1
    shares.owners(every, group(3))
    assert len(calls) == 2
