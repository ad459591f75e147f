"""What a replica tells Prometheus: whether it leads, and of those that follow it how far they are behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka2011.metrics.metric import counter, gauge

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka2011.metrics.metric import Metric, Samples
    from kafka2011.replica.standing import Standing

_BY_REPLICA = ("broker", "replica")

LEADS = gauge("broker_replica_leads", "1 if this replica leads, else 0; absent without replica.name.", *_BY_REPLICA)
EPOCH = gauge("broker_replica_epoch", "The newest epoch that this replica knows.", *_BY_REPLICA)
IN_SYNC = gauge(
    "broker_replica_in_sync",
    "1 if a replica has on disk all that may be read, else 0; the leader tells of itself and of those that are alive.",
    *_BY_REPLICA,
)
BEHIND_BYTES = gauge(
    "broker_replica_behind_bytes",
    "What a follower has yet to bring to its disk, as its leader knows, once the follower has asked for something.",
    *_BY_REPLICA,
)
BEHIND_TIME = gauge(
    "broker_replica_behind_seconds",
    "How long ago a follower last had all that there was then, as its leader knows.",
    *_BY_REPLICA,
)
TAKEOVERS = counter("broker_replica_takeovers", "Times that this process began to lead.", *_BY_REPLICA)
CUT = counter(
    "broker_replica_cut_bytes",
    "Bytes that this process removed from ends of logs because its leader does not have them; it keeps a copy.",
    *_BY_REPLICA,
)
OBSTACLES = gauge(
    "broker_replica_stopped_partitions",
    "Partitions that this follower cannot copy for now, as when its leader's bytes are damaged; others go on.",
    *_BY_REPLICA,
)
IN_TROUBLE = gauge(
    "broker_replica_in_trouble",
    "1 if something that may need an operator keeps this replica from leading or following, else 0.",
    *_BY_REPLICA,
)

REPLICA_METRICS: tuple[Metric, ...] = (
    *(LEADS, EPOCH, IN_SYNC, BEHIND_BYTES, BEHIND_TIME),
    *(TAKEOVERS, CUT, OBSTACLES, IN_TROUBLE),
)


class ReplicaFacts(NamedTuple):
    """What a replica is now. `followers` are those that are alive, None for one that has not asked for anything yet.

    They are None unless it leads. `obstacles` counts the partitions that it cannot copy.
    """

    name: str
    epoch: int
    takeovers: int
    cut_bytes: int
    followers: Mapping[str, Standing | None] | None
    obstacles: int = 0
    is_in_trouble: bool = False


def replica_samples(facts: ReplicaFacts, broker: str) -> Samples:
    """Return what a replica says of itself and its followers now."""
    me, followers = (broker, facts.name), facts.followers
    known = {(broker, name): standing for name, standing in (followers or {}).items() if standing is not None}
    is_in_sync = {
        (broker, name): standing is not None and standing.is_in_sync for name, standing in (followers or {}).items()
    }
    return {
        LEADS: {me: float(followers is not None)},
        EPOCH: {me: float(facts.epoch)},
        IN_SYNC: {} if followers is None else {me: 1.0, **{who: float(flag) for who, flag in is_in_sync.items()}},
        BEHIND_BYTES: {who: float(standing.bytes_behind) for who, standing in known.items()},
        BEHIND_TIME: {who: standing.seconds_behind for who, standing in known.items()},
        TAKEOVERS: {me: float(facts.takeovers)},
        CUT: {me: float(facts.cut_bytes)},
        OBSTACLES: {me: float(facts.obstacles)},
        IN_TROUBLE: {me: float(facts.is_in_trouble)},
    }
