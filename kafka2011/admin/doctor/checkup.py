"""What the doctor has seen of a cluster, and what it finds wrong. Pure values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zk.cluster import Broker, TopicPartition


class Finding(NamedTuple):
    """One thing that is wrong: where, what, and what to do about it."""

    where: str
    what: str
    remedy: str


class Ends(NamedTuple):
    """The first offset of a partition, and its flushed end."""

    earliest: int
    latest: int


@dataclass(frozen=True, slots=True)
class SeenServer:
    """A ZooKeeper server: what it answers to `srvr`, nothing where that is forbidden, or why it does not answer."""

    address: str
    fields: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class SeenBroker:
    """A registered broker: when ZooKeeper took its node, and why it does not answer."""

    broker: Broker
    registered_ms: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class SeenGroup:
    """A consumer group: its members, when they registered, what it owns and has committed, and who is in the way."""

    name: str
    registered_ms: Mapping[str, int]
    committed: Mapping[TopicPartition, int]
    owners: Mapping[TopicPartition, str]
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """What a broker was asked for, as in `delete topic views`, or why it refuses to do it; and how long ago."""

    broker_id: int
    topic: str
    what: str
    refusal: str | None
    age_s: float


@dataclass(frozen=True, slots=True)
class SeenReplicas:
    """The replicas of a broker id, by name: who leads, who is in sync, who lives, and what the others are behind by.

    `behind_bytes` has those that live and are not in sync; None where nobody says.
    """

    broker_id: int
    leader: str | None
    in_sync: Sequence[str]
    alive: Sequence[str]
    behind_bytes: Mapping[str, int | None] = field(default_factory=dict)
    error: str = ""
    """Why the leader does not answer."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A cluster at one moment."""

    servers: Sequence[SeenServer] = ()
    brokers: Mapping[int, SeenBroker] = field(default_factory=dict)
    topics: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Of each topic, how many partitions each live broker has."""
    ends: Mapping[TopicPartition, Ends] = field(default_factory=dict)
    groups: Mapping[str, SeenGroup] = field(default_factory=dict)
    malformed: Sequence[str] = ()
    """What is wrong with znodes that cannot be read."""
    requests: Sequence[SeenRequest] = ()
    """What brokers were asked for and have not done."""
    replicas: Sequence[SeenReplicas] = ()
    open_nodes: Sequence[str] = ()
    """Znodes that anybody may change, where zk.connect names a user whose they should be."""
