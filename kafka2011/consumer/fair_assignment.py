"""A division of all topics of a group together, so that each member has as much as the next. Not in 0.7. Pure.

0.7 divides each topic by itself and gives what is left over to the first streams: of many topics with few partitions,
most members get nothing. Here partitions are spread over the members, and those of a member over its streams, so that
nobody could pass one on to somebody who would then still have less.

Who gets which follows from names alone, so all who read the same registries agree. Each pair of a partition and a
member has a score, and the best pairs come first. A member that comes or goes changes nobody else's scores, so few
partitions move.
"""

from __future__ import annotations

from collections import Counter, deque
from hashlib import blake2b
from heapq import heapreplace
from itertools import pairwise
from typing import TYPE_CHECKING

from kafka2011.consumer.topic_count import stream_ids

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kafka2011.consumer.topic_count import TopicCount
    from zk.cluster import TopicPartition

    Takers = Mapping[TopicPartition, Sequence[str]]

RULE = "fair"
"""How members say that they divide like this. Another outcome would need another word: who says the same must agree."""


def assign_fairly(
    partitions: Iterable[TopicPartition], members: Mapping[str, TopicCount]
) -> dict[str, list[TopicPartition]]:
    """Divide the partitions of all topics among the streams of a group, by stream id.

    A member gets partitions of topics that it subscribes to; one with twice as many streams gets twice as many.
    """
    streams: dict[str, dict[str, int]] = {}  # how many, by topic and member
    takers: dict[TopicPartition, list[str]] = {}
    for where in sorted(partitions):
        if where.topic not in streams:
            counts = {member: members[member].streams_of(where.topic) for member in sorted(members)}
            streams[where.topic] = {member: count for member, count in counts.items() if count}
        if streams[where.topic]:
            takers[where] = list(streams[where.topic])
    weights: Counter[str] = Counter()
    for of_topic in streams.values():
        weights |= Counter(of_topic)
    shares: dict[str, list[TopicPartition]] = {}
    for member, owned in _spread(takers, weights).items():
        ids = stream_ids(member, weights[member])
        shares |= _spread({w: ids[: streams[w.topic][member]] for w in owned}, Counter(ids))
    return shares


class FairShares:
    """The same for whoever asks again and again: nothing is computed while nothing has changed."""

    def __init__(self) -> None:
        self._asked: object = None
        self._owners: dict[TopicPartition, str] = {}

    def owners(
        self, partitions: Mapping[str, Sequence[TopicPartition]], members: Mapping[str, TopicCount]
    ) -> Mapping[TopicPartition, str]:
        """Return the stream that each partition belongs to; `partitions` are by topic."""
        if (partitions, members) != self._asked:
            shares = assign_fairly((where for of_topic in partitions.values() for where in of_topic), members)
            self._owners = {where: stream for stream, share in shares.items() for where in share}
            self._asked = (partitions, members)
        return self._owners


def _spread(takers: Takers, weights: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
    """Give each partition to one of those who may take it, to each as many as its weight says."""
    scores = {where: {name: _score(where, name) for name in names} for where, names in takers.items()}
    shares: dict[str, list[TopicPartition]] = {name: [] for name in sorted(weights)}
    left = dict.fromkeys(takers)
    quota = _Quota(len(left), weights)
    pairs = ((score, where, name) for where, by_name in scores.items() for name, score in by_name.items())
    for _, where, name in sorted(pairs, reverse=True):
        if where in left and quota.take(name):
            shares[name].append(where)
            del left[where]
    for where in left:  # there are some only where not all may take all
        shares[min(takers[where], key=lambda name: ((len(shares[name]) + 1) / weights[name], name))].append(where)
    while path := _improvement(shares, takers, weights):
        for giver, taker in pairwise(path):
            given = max((w for w in shares[giver] if taker in scores[w]), key=lambda where: scores[where][taker])
            shares[giver].remove(given)
            shares[taker].append(given)
    return shares


def _score(where: TopicPartition, name: str) -> bytes:
    return blake2b(f"{where} {name}".encode(), digest_size=8).digest()


class _Quota:
    """How many each may take if all may take all: as weights say, and of those left over, who comes first takes one."""

    def __init__(self, count: int, weights: Mapping[str, int]) -> None:
        taken = Counter(dict.fromkeys(weights, 0))
        turns = sorted((1 / weight, name) for name, weight in weights.items())
        last = -1.0  # whose turn is the last; nobody's yet
        for _ in range(count):
            last, name = turns[0]
            taken[name] += 1
            heapreplace(turns, ((taken[name] + 1) / weights[name], name))
        self._room = {name: number - (number / weights[name] == last) for name, number in taken.items()}
        self._extra = {name for name, number in self._room.items() if (number + 1) / weights[name] == last}
        self._left_over = count - sum(self._room.values())

    def take(self, name: str) -> bool:
        """Count one more for somebody; False where that is too many."""
        if self._room[name]:
            self._room[name] -= 1
        elif self._left_over and name in self._extra:
            self._extra.remove(name)
            self._left_over -= 1
        else:
            return False
        return True


def _improvement(
    shares: Mapping[str, Collection[TopicPartition]], takers: Takers, weights: Mapping[str, int]
) -> list[str]:
    """Find who could pass one partition on, over others, to somebody who would then still have less; [] if nobody."""
    has = {name: len(share) / weights[name] for name, share in shares.items()}
    would_have = {name: (len(share) + 1) / weights[name] for name, share in shares.items()}
    for giver in sorted(shares, key=lambda name: (-has[name], name)):
        if has[giver] <= min(would_have.values()):
            break
        paths = {giver: [giver]}
        reached = deque([giver])
        while reached:
            name = reached.popleft()
            for taker in sorted({taker for where in shares[name] for taker in takers[where]} - paths.keys()):
                paths[taker] = [*paths[name], taker]
                if would_have[taker] < has[giver]:
                    return paths[taker]
                reached.append(taker)
    return []
