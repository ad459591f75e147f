"""The picture of a cluster that browsers get: rows of named fields, with a limit on how many. Pure."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from kafka2011.admin.snapshot.cluster_snapshot import member_of
from kafka2011.ui.lag import LEARNING, OK, SEVERITY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka2011.admin.replicas import BrokerReplicas
    from kafka2011.admin.snapshot.cluster_snapshot import BrokerInfo, ClusterSnapshot, GroupInfo, GroupPartition
    from kafka2011.ui.history import RebalanceHistory
    from kafka2011.ui.lag import Lag, LagBook
    from zk.cluster import TopicPartition

MOST_ROWS = 5000
"""So many partitions are shown, and so many of all groups together."""
NOBODY = "nobody reads"
"""The state of a group without members that is not at the end: no rule has to be asked."""
_WORST = (*SEVERITY, NOBODY)
_OF_REPLICAS = ("name", "role", "is_in_sync", "bytes_behind", "seconds_behind")


def rows_of(snapshot: ClusterSnapshot) -> dict[str, list[GroupPartition]]:
    """List the partitions of each group that it subscribes to, owns, or has an offset of, by group."""
    return {
        name: [
            row
            for row in snapshot.group_partitions(name)
            if row.is_subscribed or row.owner is not None or row.committed is not None
        ]
        for name in sorted(snapshot.groups)
    }


def picture(
    snapshot: ClusterSnapshot,
    by_group: Mapping[str, Sequence[GroupPartition]],
    lags: LagBook,
    history: RebalanceHistory,
) -> dict[str, Any]:
    """Return the picture: brokers, topics with their partitions, groups with theirs, and how much was left out.

    `by_group` is what `rows_of` says of the snapshot.
    """
    partitions = snapshot.partitions()
    left = MOST_ROWS
    groups: list[dict[str, Any]] = []
    omitted = max(0, len(partitions) - MOST_ROWS)
    for name, rows in by_group.items():
        groups.append(_group(name, snapshot.groups[name], rows, left, lags, history))
        omitted += max(0, len(rows) - left)
        left -= min(left, len(rows))
    return {
        "brokers": [
            _broker(info, [where for where in partitions if where.broker_id == number], snapshot, by_group)
            for number, info in snapshot.brokers.items()
        ],
        "topics": sorted(snapshot.topics),
        "partitions": [_partition(where, snapshot) for where in islice(partitions, MOST_ROWS)],
        "groups": groups,
        "omitted": omitted,
    }


def _partition(where: TopicPartition, snapshot: ClusterSnapshot) -> dict[str, Any]:
    _, _, earliest, latest = snapshot.partition_ends(where)
    return {**_named(where), "earliest": earliest, "end": latest}


def _named(where: TopicPartition) -> dict[str, Any]:
    return {"topic": where.topic, "broker": where.broker_id, "partition": where.znode_name}


def _broker(
    info: BrokerInfo,
    partitions: Sequence[TopicPartition],
    snapshot: ClusterSnapshot,
    by_group: Mapping[str, Sequence[GroupPartition]],
) -> dict[str, Any]:
    """Say what a broker holds, how much of it each group has yet to read, and who has a copy."""
    number = info.broker.id
    held = [snapshot.log_offsets[where] for where in partitions if where in snapshot.log_offsets]
    unread: dict[str, int] = {}
    for name, rows in by_group.items():
        if total := sum(max(0, row.lag_bytes or 0) for row in rows if row.where.broker_id == number):
            unread[name] = total
    return {
        "id": number,
        "address": info.broker.address,
        "since_ms": info.since_ms,
        "error": info.error,
        "replicas": _replicas(snapshot.replicas.get(number)),
        "partitions": len(partitions),
        "bytes": sum(latest - earliest for earliest, latest in held),
        "unread": unread,
    }


def _replicas(broker: BrokerReplicas | None) -> list[dict[str, Any]]:
    replicas = () if broker is None else broker.replicas
    return [{name: getattr(replica, name) for name in _OF_REPLICAS} for replica in replicas]


def _group(
    name: str,
    group: GroupInfo,
    rows: Sequence[GroupPartition],
    most: int,
    lags: LagBook,
    history: RebalanceHistory,
) -> dict[str, Any]:
    of_rows = [lags.lag(name, row.where) for row in rows]
    states = [_state(row, lag, has_members=bool(group.members)) for row, lag in zip(rows, of_rows, strict=True)]
    seconds = [lag.lag_s for lag in of_rows if lag.lag_s is not None]
    last = history.last(name)
    return {
        "name": name,
        "members": [
            {
                "id": member,
                "subscription": info.subscription,
                "since_ms": info.since_ms,
                "client": None if info.client is None else [info.client.client_id, info.client.host],
            }
            for member, info in sorted(group.members.items())
        ],
        "state": max(states, key=_WORST.index, default=OK),
        "lag_bytes": sum(lag.lag_bytes or 0 for lag in of_rows),
        "lag_s": round(max(seconds), 1) if seconds else None,
        "points": lags.points(name),
        "ownerless": sum(row.owner is None and row.end is not None for row in rows) if group.members else 0,
        "partitions": [
            _group_partition(row, lag, state)
            for row, lag, state in islice(zip(rows, of_rows, states, strict=True), most)
        ],
        "last": None if last is None else last.document(with_steps=False),
    }


def _group_partition(row: GroupPartition, lag: Lag, state: str) -> dict[str, Any]:
    return {
        **row.columns(),
        **_named(row.where),
        "owner": None if row.owner is None else member_of(row.owner),
        "owned_since_ms": row.owned_since_ms,
        "committed_at_ms": row.committed_at_ms,
        "lag_bytes": lag.lag_bytes,
        "lag_s": None if lag.lag_s is None else round(lag.lag_s, 1),
        "state": state,
    }


def _state(row: GroupPartition, lag: Lag, *, has_members: bool) -> str:
    if lag.lag_bytes is None:  # nothing is committed, which is no wonder while there is nothing to read
        return OK if row.end is not None and row.earliest == row.end else LEARNING
    if not has_members:
        return NOBODY if lag.lag_bytes else OK
    return lag.state
