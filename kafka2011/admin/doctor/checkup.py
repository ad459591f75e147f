"""What the doctor's checks get, and what they find. Pure values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.admin.snapshot.cluster_snapshot import ClusterSnapshot
from zk.protection import Protection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zk.broker_clocks import ComparedClock
    from zk.cluster import TopicPartition
    from zk.gateways import GatewayStatus


class Finding(NamedTuple):
    """One thing that is wrong: where, what, and what to do about it."""

    where: str
    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class ZooKeeperServer:
    """A ZooKeeper server: what it answers to `srvr`, nothing where that is forbidden, or why it does not answer."""

    address: str
    fields: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """What a broker was asked for, as in `delete topic views`, or why it refuses to do it; and how long ago."""

    broker_id: int
    topic: str
    what: str
    refusal: str | None
    age_s: float


@dataclass(frozen=True, slots=True)
class Checkup:
    """A cluster at one moment, and what the doctor alone asks of it."""

    cluster: ClusterSnapshot = field(default_factory=ClusterSnapshot)
    servers: Sequence[ZooKeeperServer] = ()
    malformed: Sequence[str] = ()
    """What is wrong with znodes that cannot be read."""
    requests: Sequence[PendingRequest] = ()
    """What brokers were asked for and have not done."""
    clocks: Mapping[int, ComparedClock] = field(default_factory=dict)
    """Of brokers, by id; those of Kafka 0.7 note none."""
    misplaced: Mapping[str, Mapping[TopicPartition, str]] = field(default_factory=dict)
    """By group, why its members cannot go on at an offset that lies within the log."""
    claimed: frozenset[int] = frozenset()
    """Brokers that a gateway serves."""
    gateways: Mapping[int, GatewayStatus] = field(default_factory=dict)
    """The status of each gateway, by its number."""
    deleted_topics: int = 0
    """The number of deleted topics whose message numbers gateways keep, so that none is given again."""
    protection: Protection = field(default_factory=Protection)
    """Who may change which znodes, where zk.connect names a user whose they should be."""
