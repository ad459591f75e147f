"""Stage 7: which stream of a group owns which partition (Algorithm 1)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kafka2011.consumer.rebalance import assign
from kafka2011.consumer.topic_count import stream_ids
from kafka2011.lab import paper
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka2011.lab.bench import Bench

_RANDOM_GROUPS = 3


def grade(bench: Bench) -> None:
    """Try the stage. Raises WrongError."""
    one, two = "g_web1-1307836800000-0c0ffee0", "g_web2-1307836800000-0c0ffee1"
    groups: dict[str, tuple[Mapping[int, int], Mapping[str, int]]] = {
        "One stream owns all partitions": ({0: 3}, {one: 1}),
        "Two streams own half of the partitions each": ({0: 4}, {one: 1, two: 1}),
        "The first streams own one more": ({0: 5}, {one: 1, two: 1, "g_z": 1}),
        "A member has several streams": ({0: 4}, {one: 3, two: 1}),
        "Partitions of several brokers": ({0: 2, 1: 3}, {one: 1, two: 1}),
        "Partition 0-10 comes before 0-2": ({0: 12}, {one: 1, two: 1}),
        "Partition 10-0 comes before 2-0": ({2: 2, 10: 2}, {one: 1, two: 1}),
        "Stream 10 of a member comes before its stream 2": ({0: 12}, {one: 11}),
        "More streams than partitions": ({0: 2}, {one: 2, two: 2}),
        "No streams": ({0: 2}, {}),
        "No brokers": ({}, {one: 1}),
        "Nothing at all": ({}, {}),
    }
    choice = random.Random(2011)  # noqa: S311 - the same for each student
    for title, (brokers, members) in groups.items():
        try_group(bench, title, brokers, members, choice)
    for number in range(1, _RANDOM_GROUPS + 1):
        brokers = {choice.randrange(20): choice.randrange(15) for _ in range(choice.randrange(1, 5))}
        members = {f"g_{choice.randrange(100)}": choice.randrange(1, 13) for _ in range(choice.randrange(1, 5))}
        try_group(bench, f"Random group {number}", brokers, members, choice)


def try_group(
    bench: Bench, title: str, brokers: Mapping[int, int], members: Mapping[str, int], choice: random.Random
) -> None:
    """Try one group: partitions by broker, and streams by member. Raises WrongError."""
    lines = [f"broker {broker} {count}" for broker, count in brokers.items()]
    lines += [f"member {member} {count}" for member, count in members.items()]
    choice.shuffle(lines)
    partitions = TopicPartition.all_of("views", brokers)
    streams = [stream for member, count in members.items() for stream in stream_ids(member, count)]
    owners = {where.znode_name: stream for stream, share in assign(partitions, streams).items() for where in share}
    wanted = "".join(f"{partition} {owners[partition]}\n" for partition in sorted(owners))
    with bench.check(title, paper.ALGORITHM):
        sent = "".join(f"{line}\n" for line in lines)
        bench.compare_output("assign", stdin=sent.encode(), wanted=wanted.encode())
