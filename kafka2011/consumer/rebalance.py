"""Algorithm 1 of the paper as a function: which partitions of a topic each stream takes (section 3.2).

Every member computes the same from the same registries, so nobody needs to be told.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zk.cluster import TopicPartition


def assign(partitions: Iterable[TopicPartition], streams: Iterable[str]) -> dict[str, list[TopicPartition]]:
    """Divide the partitions of one topic among all streams of a group, by stream id.

    Both are sorted as strings, partitions by their `znode_name` as in 0.7: `0-10` comes before `0-2`. With
    N = |P| div |C| and R = |P| mod |C|, stream j takes N partitions from j*N + min(j, R) on, and the first R streams
    take one more.
    """
    sorted_partitions = sorted(partitions, key=attrgetter("znode_name"))
    sorted_streams = sorted(streams)
    if not sorted_streams:
        return {}
    share, rest = divmod(len(sorted_partitions), len(sorted_streams))
    shares: dict[str, list[TopicPartition]] = {}
    for j, stream in enumerate(sorted_streams):
        start = j * share + min(j, rest)
        shares[stream] = sorted_partitions[start : start + share + (1 if j < rest else 0)]
    return shares
