"""The states of a replica: starting, following, leading, stopped. Each has what it needs, and nothing else.

starting ──▶ following        starting ──▶ leading ──all that it had can be read──▶ registered as the broker
▲            │                ▲           │
└────────────┘                └───────────┘ the state was written by another, or the session has ended:
all clients' connections end first
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kafka2011.broker.replication.follower import Follower
from kafka2011.errors import KafkaError
from kafka2011.replica.codec import EXACT_PARTITIONS
from kafka2011.replica.following import Following
from kafka2011.replica.segments import REPLICA_SEGMENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from gevent.threadpool import ThreadPool

    from kafka2011.broker.registrar import BrokerRegistrar, LeaderSession
    from kafka2011.broker.replication.knowledge import Knowledge
    from kafka2011.broker.replication.leading import Leading
    from kafka2011.broker.replication.replica_log import ReplicaLogs
    from kafka2011.broker.replication.session import ReplicaSession
    from kafka2011.broker.requests.parking import Parking
    from kafka2011.config import BrokerConfig
    from kafka2011.log.log import Log
    from kafka2011.replica.state import Follow, Lead, ReplicaState, Wait
    from zk.replicas import Member

logger = logging.getLogger(__name__)

CLIENTS_END_S = 30.0
"""How long what clients have begun may take to end; then the broker stops, before it changes a byte."""


@dataclass(frozen=True, slots=True)
class ReplicaParts:
    """What a replica works with, whatever it is.

    `new_registrar` makes the registrar of a session in which this replica leads, and is told whom to tell that it has
    failed. `end_clients` ends all connections, and says whether nothing is done for them any more. `on_failure` is told
    when the broker cannot go on. In `threads` it waits for other processes.
    """

    config: BrokerConfig
    logs: ReplicaLogs
    knowledge: Knowledge
    parking: Parking
    request_flush: Callable[[Log], None]
    new_registrar: Callable[[Callable[[BaseException], None], LeaderSession], BrokerRegistrar]
    end_clients: Callable[[float], bool]
    on_failure: Callable[[BaseException], None]
    threads: ThreadPool

    def close_clients(self) -> None:
        """End all connections of clients. Raises KafkaError if what they have begun does not end."""
        if not self.end_clients(CLIENTS_END_S):
            raise KafkaError(f"what clients have begun does not end within {CLIENTS_END_S:g} s")


class RoleState(Protocol):
    """What a replica is now."""

    @property
    def leading(self) -> Leading | None:
        """Its term, if it leads."""

    @property
    def registrar(self) -> BrokerRegistrar | None:
        """What registers it as the broker, while it leads."""

    @property
    def obstacle(self) -> str | None:
        """Why it neither leads, as the registered broker, nor follows; None if it does."""

    @property
    def trouble(self) -> str:
        """What of that others have to know, operators too; empty if nothing."""

    def is_still(self, role: Lead | Follow | Wait) -> bool:
        """Say whether this is what the znodes say that it has to be."""

    def go_on(self) -> None:
        """Do what there is to do now. Raises ZkError, LeadLostError and KafkaError."""

    def note_readable(self) -> None:
        """Note up to which offsets its logs could be read, as it knows now."""

    def end(self) -> None:
        """Be this no longer; when it returns, nobody appends or reads, and what could be read is on disk."""


class StartingState:
    """It does not know yet what it is to be, or waits until it may be that. Nothing is read or appended."""

    leading = None
    registrar = None

    def __init__(self, reason: str = "has not found out yet who leads", trouble: str = "") -> None:
        self.obstacle = reason
        self.trouble = trouble

    def is_still(self, _role: Lead | Follow | Wait) -> bool:
        """Say no: it has to find out."""
        return False

    def go_on(self) -> None:
        """Do nothing."""

    def note_readable(self) -> None:
        """Note nothing."""

    def end(self) -> None:
        """Be something else from now on."""


class StoppedState(StartingState):
    """It has ended, or was never started."""

    def __init__(self) -> None:
        super().__init__("is stopped")


class FollowerState:
    """It follows one leader in one epoch, which is on its disk before it asks anything. Raises ReplicaStateError."""

    leading = None
    registrar = None

    def __init__(
        self,
        parts: ReplicaParts,
        session: ReplicaSession,
        role: Follow,
        state: ReplicaState,
        version: int,
        leader: Member,
    ) -> None:
        self._parts = parts
        parts.knowledge.enter(state, version)
        following = Following(
            parts.knowledge.me,
            role,
            logs=dict(parts.logs.all()),
            readable=parts.knowledge.known.readable,
            new_log=parts.logs.make,
            note_exact=parts.logs.note_exact if EXACT_PARTITIONS in leader.speaks else None,
            asks_before_cuts=REPLICA_SEGMENT in leader.speaks,
        )
        self._follower = Follower(
            following,
            parts.logs,
            (leader.host, leader.port),
            session.client.security.path if leader.by_tls else "",
            parts.config.brokerid,
            parts.on_failure,
            parts.threads,
            can_ask_about_damage=REPLICA_SEGMENT in leader.speaks,
        )
        self._follower.start()

    @property
    def obstacle(self) -> str | None:
        """Why it does not follow; None if it does."""
        return self._follower.obstacle

    @property
    def trouble(self) -> str:
        """What an operator has to decide before it can follow; empty if nothing."""
        return self._follower.trouble

    def is_still(self, role: Lead | Follow | Wait) -> bool:
        """Say whether it is to follow the same leader in the same epoch."""
        return role == self._follower.following.role

    def go_on(self) -> None:
        """Do nothing: the follower has a greenlet of its own."""

    def note_readable(self) -> None:
        """Note what the leader has said of what can be read."""
        self._parts.knowledge.note_readable(self._follower.following.readable())

    def end(self) -> None:
        """Take nothing more of what the leader answers."""
        self._follower.end()
        self.note_readable()
        self._parts.knowledge.store()


def why_not_follow(session: ReplicaSession, role: Follow, leader: Member | None) -> str | None:
    """Say why a leader cannot be followed, whose member node is this one; None if it can."""
    if leader is None or leader.disk != role.leader.disk:
        return f"the leader {role.leader} has no znode among the members"
    if leader.by_tls and session.client.security.brokers is None:
        return f"the leader {role.leader} listens over TLS only, and zk.connect names no security file"
    return None
