"""The picture of a cluster that browsers get: plain lists and texts, with a limit on how many. Pure."""

from __future__ import annotations

from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from kafka2011.admin.snapshot.cluster_snapshot import member_of
from kafka2011.ui.lag import LEARNING, OK, SEVERITY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka2011.admin.snapshot.cluster_snapshot import Ends, SeenCluster, SeenGroup
    from kafka2011.ui.history import History
    from kafka2011.ui.lag import Lag, LagBook
    from zk.cluster import TopicPartition

MOST_ROWS = 5000
"""So many partitions are shown, and so many of all groups together."""
ReplicaRow: TypeAlias = tuple[str, str, bool, int | None, float | None]
"""A replica's name, its role, whether it is in sync, and how many bytes and seconds it is behind."""
NOBODY = "nobody reads"
"""The state of a group without members that is not at the end: no rule has to be asked."""
_WORST = (*SEVERITY, NOBODY)


def picture(
    seen: SeenCluster,
    ends: Mapping[TopicPartition, Ends],
    errors: Mapping[int, str],
    lags: LagBook,
    history: History,
    replicas: Mapping[int, Sequence[ReplicaRow]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the picture: brokers, topics with their partitions, groups with theirs, and how much was left out.

    `replicas` has those of each replicated broker.
    """
    partitions = seen.partitions()
    left = MOST_ROWS
    groups: list[dict[str, Any]] = []
    omitted = max(0, len(partitions) - MOST_ROWS)
    for name in sorted(seen.groups):
        group = seen.groups[name]
        its = group.partitions(seen.topics)
        groups.append(_group(name, group, its, left, ends, lags, history))
        omitted += max(0, len(its) - left)
        left -= min(left, len(its))
    return {
        "brokers": [
            {
                "id": number,
                "address": each.broker.address,
                "since_ms": each.since_ms,
                "error": errors.get(number, ""),
                "replicas": replicas.get(number, []),
                **_held(number, seen, partitions, ends),
            }
            for number, each in seen.brokers.items()
        ],
        "topics": sorted(seen.topics),
        "partitions": [
            [where.topic, where.broker_id, where.partition, *ends.get(where, (None, None))]
            for where in islice(partitions, MOST_ROWS)
        ],
        "groups": groups,
        "omitted": omitted,
    }


def _held(
    number: int, seen: SeenCluster, partitions: list[TopicPartition], ends: Mapping[TopicPartition, Ends]
) -> dict[str, Any]:
    """Say what a broker alone has: how much, and how much of it each group has yet to read."""
    its = [where for where in partitions if where.broker_id == number]
    held = [ends[where] for where in its if where in ends]
    unread: dict[str, int] = {}
    for name, group in seen.groups.items():
        offsets = group.offsets
        behind = [ends[where].end - offsets[where].offset for where in its if where in offsets and where in ends]
        if total := sum(each for each in behind if each > 0):
            unread[name] = total
    return {"partitions": len(its), "bytes": sum(end - first for first, end in held), "unread": unread}


def _group(
    name: str,
    group: SeenGroup,
    its: list[TopicPartition],
    most: int,
    ends: Mapping[TopicPartition, Ends],
    lags: LagBook,
    history: History,
) -> dict[str, Any]:
    found = {where: lags.lag(name, where) for where in its}
    rows = []
    for where in its[:most]:
        owner, committed, lag = group.owners.get(where), group.offsets.get(where), found[where]
        rows.append(
            [
                *where,
                None if owner is None else member_of(owner.stream_id),
                None if owner is None else owner.since_ms,
                None if committed is None else committed.offset,
                None if committed is None else committed.at_ms,
                lag.lag_bytes,
                None if lag.lag_s is None else round(lag.lag_s, 1),
                _state(group, lag, ends.get(where)),
            ]
        )
    seconds = [each.lag_s for each in found.values() if each.lag_s is not None]
    states = [_state(group, each, ends.get(where)) for where, each in found.items()]
    last = history.last(name)
    return {
        "name": name,
        "members": [
            {"id": member, "subscription": each.subscription, "since_ms": each.since_ms}
            for member, each in sorted(group.members.items())
        ],
        "state": max(states, key=_WORST.index, default=OK),
        "lag_bytes": sum(each.lag_bytes or 0 for each in found.values()),
        "lag_s": round(max(seconds), 1) if seconds else None,
        "points": lags.points(name),
        "ownerless": sum(1 for where in its if where not in group.owners and where in ends) if group.members else 0,
        "partitions": rows,
        "last": None if last is None else last._replace(steps=[])._asdict(),
    }


def _state(group: SeenGroup, lag: Lag, ends: Ends | None) -> str:
    if lag.lag_bytes is None:  # nothing is committed, which is no wonder while there is nothing to read
        return OK if ends is not None and ends.first == ends.end else LEARNING
    if not group.members:
        return NOBODY if lag.lag_bytes else OK
    return lag.state
