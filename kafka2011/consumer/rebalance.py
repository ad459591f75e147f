"""Algorithm 1 of the paper as a function: which partitions of a topic each stream takes (section 3.2).

Every member computes the same from the same registries, so nobody needs to be told.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from kafka2011.consumer.topic_count import stream_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafka2011.consumer.topic_count import TopicCount
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


def owners_by_topic(
    partitions: Mapping[str, Iterable[TopicPartition]], members: Mapping[str, TopicCount]
) -> dict[TopicPartition, str]:
    """Divide the partitions of each topic by itself, as 0.7 does; return the stream that each belongs to."""
    owners: dict[TopicPartition, str] = {}
    for topic, every in partitions.items():
        streams = [s for member, count in members.items() for s in stream_ids(member, count.streams_of(topic))]
        for stream, share in assign(every, streams).items():
            owners.update(dict.fromkeys(share, stream))
    return owners
