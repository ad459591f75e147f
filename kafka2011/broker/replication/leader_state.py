"""The state of a replica that leads: it has the state in ZooKeeper written, and registers as the broker when it may."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING

import gevent

from kafka2011.broker.registrar import LeaderSession
from kafka2011.broker.replication.catch_up import CatchUp
from kafka2011.broker.replication.leading import Leading
from kafka2011.replica.in_sync import LeadLostError, StateRead
from kafka2011.replica.lineage import DRAW_BYTES
from kafka2011.replica.state import ReadableFloor, Replica, ReplicaState
from kafka2011.replica.term import Term, TermRules
from zk import paths
from zk.clock import SYSTEM_CLOCK
from zk.errors import NodeExists, NoNode, VersionConflict, ZkError, ZkUnavailable
from zk.replicas import Member

if TYPE_CHECKING:
    from kafka2011.broker.registrar import BrokerRegistrar
    from kafka2011.broker.replication.session import ReplicaSession
    from kafka2011.broker.replication.states import ReplicaParts
    from kafka2011.replica.state import Follow, Lead, Wait
    from zk.nodes import Check
    from zk.replicas import ReplicaNodes

logger = logging.getLogger(__name__)

Members = Mapping[Replica, Member]
"""Replicas that are alive, with what their znodes say."""

REGISTER_RETRY_S = 0.2
NOTE_FLOOR_S = 5.0
"""How often the leader notes how much can be read: a disk that goes back by less is known by its epoch alone."""
HAND_OVER_S = 3.0
"""How long a leader that stops lets followers get what only it has."""
HAND_OVER_LOOK_S = 0.02
FETCH_BYTES = 8 * 1024 * 1024
"""What a follower is given at once; a single message may be larger."""


class LeaderState:
    """It leads in one epoch, in one session, until `end`."""

    trouble = ""

    def __init__(self, parts: ReplicaParts, session: ReplicaSession, leading: Leading, register_from_s: float) -> None:
        self._parts = parts
        self._session = session
        self._register_from_s = register_from_s
        self._troubles: dict[Replica, str] = {}
        self._floor: ReadableFloor | None = None
        self._note_floor_from_s = inf  # before a look has told what is noted
        self.leading = leading
        self.registrar: BrokerRegistrar | None = None

    @classmethod
    def take(
        cls,
        parts: ReplicaParts,
        session: ReplicaSession,
        role: Lead,
        members: Members,
        former: Replica | None,
    ) -> LeaderState:
        """Take the lead from the former leader. What is not answered is found out with the next look.

        Raises VersionConflict, NodeExists and NoNode when somebody else was faster, LeadLostError when somebody has
        come who has seen a newer state, and ZkError.
        """
        config, me = parts.config, parts.knowledge.me
        state, version = role.write
        version = session.registry.lead(state.text, version, str(me))
        if why := parts.knowledge.why_too_old(state, version, members_of(session.read())):
            raise LeadLostError(why)
        parts.knowledge.enter(state, version)
        parts.logs.flush()
        now_s = SYSTEM_CLOCK.monotonic_s()
        term = Term(
            me,
            state,
            version,
            TermRules(config.replica_lag_time_max_ms / 1000, config.min_insync_replicas, FETCH_BYTES),
            logs=dict(parts.logs.all()),
            readable=parts.knowledge.known.readable,
            now_s=now_s,
            exact_counts=parts.logs.exact_counts,
        )
        term.note_members(_able(members), _sessions(members))
        session.lease.renew()
        leading = Leading(
            term,
            parts.logs,
            session.lease,
            catch_up=CatchUp(config.replica_max_bytes_per_second),
            parking=parts.parking,
            request_flush=parts.request_flush,
            clock=SYSTEM_CLOCK,
        )
        leading.followers = members.keys() - {me}
        gap_s = 0 if former in {None, me} else config.replica_address_gap_ms / 1000
        logger.info("replica %s leads in epoch %d; in sync: %s", me, term.epoch, _names(state))
        return cls(parts, session, leading, now_s + gap_s)

    @property
    def obstacle(self) -> str | None:
        """Why it is not registered as the broker; None if it is."""
        registrar = self.registrar
        return None if registrar is not None and registrar.is_registered else "leads, and is not registered yet"

    def is_still(self, _role: Lead | Follow | Wait) -> bool:
        """Say yes: `check` says when it is over."""
        return True

    def check(self, nodes: ReplicaNodes, state: ReplicaState, members: Members) -> None:
        """Note who else is alive. Raises LeadLostError when the znodes say that another leads."""
        term = self.leading.term
        if not nodes.is_mine or state.epoch != term.epoch:
            raise LeadLostError(f"epoch {state.epoch} has begun, led by {state.leader}")
        if why := self._parts.knowledge.why_too_old(state, nodes.version, members):
            raise LeadLostError(why)
        term.note_members(_able(members), _sessions(members))
        self.leading.followers = members.keys() - {self._parts.knowledge.me}
        troubles = {replica: member.trouble for replica, member in members.items() if member.trouble}
        for replica, trouble in troubles.items() - self._troubles.items():
            logger.error("replica %s cannot be in sync: %s", replica, trouble)
        self._troubles = troubles
        self._floor = floor_of(nodes, self._parts.config.brokerid)
        self._note_floor_from_s = min(self._note_floor_from_s, SYSTEM_CLOCK.monotonic_s())

    def end_clients_without_lease(self) -> None:
        """End clients' connections while the lease has run out: they find out who leads now; it may come back."""
        if not self.leading.has_lease and self.leading.may_serve:
            self._parts.close_clients()

    def go_on(self) -> None:
        """Have the state written as it should be, and register once that may be. Raises LeadLostError and ZkError."""
        leading, term = self.leading, self.leading.term
        leading.note_logs()
        leading.publish(term.advance(SYSTEM_CLOCK.monotonic_s()))
        while (wanted := term.wanted(SYSTEM_CLOCK.monotonic_s())) is not None:
            if isinstance(wanted, StateRead):
                nodes = self._session.read()
                assert wanted.after_sync, "every read is after a sync"
                if nodes.state is None:
                    raise LeadLostError("the state has gone")
                state = ReplicaState.of(nodes.state, "ZooKeeper")
                if state.epoch == term.epoch:
                    self._parts.knowledge.enter(state, nodes.version)  # before what it allows is done
                term.found(state, nodes.version)
            else:
                logger.info("replica %s: in sync from now on: %s", self._parts.knowledge.me, _names(wanted.state))
                self._write(term, wanted.state, wanted.version)
            term.advance(SYSTEM_CLOCK.monotonic_s())
            leading.publish_all()
        self._register_when_due()
        self._note_floor_when_due(term)

    def _note_floor_when_due(self, term: Term) -> None:
        """Note how much everybody in sync has, for replicas whose disk goes back to an older state."""
        now_s, version = SYSTEM_CLOCK.monotonic_s(), term.state_version
        if version is None or now_s < self._note_floor_from_s:
            return
        floor = term.wanted_floor(self._floor)
        if floor is None:
            return
        self._note_floor_from_s = now_s + NOTE_FLOOR_S
        try:
            self._session.registry.note_floor(floor.text, version)
        except (VersionConflict, NodeExists, NoNode) as error:  # the next look tells why
            logger.debug("the readable floor was not noted: %s", error)
            self._session.has_news = True
        else:
            self._floor = floor

    def _write(self, term: Term, state: ReplicaState, version: int) -> None:
        try:
            version = self._session.registry.write(state.text, version)
            self._parts.knowledge.enter(state, version)  # before what it allows is done
        except (VersionConflict, NoNode):
            term.refused()  # raises
        except BaseException:  # also when it was not sent, or not noted: to doubt it costs no more than a read
            term.not_answered()
            raise
        else:
            term.written()

    def delete(self, topic: str, request: str) -> None:
        """Begin the epoch in which a topic is deleted, which ends this term; return if this request was done before it.

        Raises ZkUnavailable: whoever leads in that epoch is asked again. Raises ZkError as well.
        """
        session, term = self._session, self.leading.term
        nodes = session.read()
        if nodes.state is None or not nodes.is_mine:
            raise ZkUnavailable("another replica leads by now")
        state = ReplicaState.of(nodes.state, "ZooKeeper")
        if state.epoch != term.epoch or nodes.version != term.state_version:
            raise ZkUnavailable("the state is not certain")
        if state.has_done(topic, request) or all(where.topic != topic for where, _ in self._parts.logs.all()):
            return
        try:
            session.registry.write(
                state.deleting(topic, request, nodes.version, secrets.token_hex(DRAW_BYTES)).text, nodes.version
            )
        except (VersionConflict, NoNode) as error:
            raise ZkUnavailable("the state has changed") from error
        session.has_news = True
        raise ZkUnavailable(f"topic {topic} is deleted from epoch {state.epoch + 1} on")

    # Registering as the broker

    def _register_when_due(self) -> None:
        if self.registrar is not None or self.leading.term.registration() is None:
            return
        if SYSTEM_CLOCK.monotonic_s() < self._register_from_s:
            return
        self.leading.may_serve = True
        self.registrar = registrar = self._parts.new_registrar(
            self._registrar_failed, LeaderSession(self._session.client, self._session.id, self._check_of_state)
        )
        gevent.spawn(self._start_registrar, registrar)

    def _check_of_state(self) -> Check:
        version = self.leading.term.registration()
        if self.leading.term.has_ended or version is None:
            raise ZkUnavailable("the state is not certain")
        return self._session.registry.check(version)

    def _start_registrar(self, registrar: BrokerRegistrar) -> None:
        try:
            registrar.start()
        except ZkError as error:
            self._registrar_failed(error, registrar)

    def _registrar_failed(self, error: BaseException, registrar: BrokerRegistrar | None = None) -> None:
        """Note that registering has failed: it is tried again while this replica leads."""
        config, me = self._parts.config, self._parts.knowledge.me
        logger.warning("replica %s is not registered as broker %d: %s", me, config.brokerid, error)
        failed = registrar or self.registrar
        if failed is not None and failed is self.registrar:
            self._register_from_s = SYSTEM_CLOCK.monotonic_s() + REGISTER_RETRY_S
            self.registrar = None
            gevent.spawn(failed.stop)

    # Ending

    def hand_over(self) -> None:
        """Before a leader stops, let followers have what was taken and not confirmed, so that it is not cut off."""
        leading = self.leading
        leading.may_serve = False
        self._parts.close_clients()
        self._parts.logs.flush()
        ends_s = SYSTEM_CLOCK.monotonic_s() + HAND_OVER_S
        while not leading.term.all_readable() and leading.has_lease and SYSTEM_CLOCK.monotonic_s() < ends_s:
            gevent.sleep(HAND_OVER_LOOK_S)

    def note_readable(self) -> None:
        """Note up to where clients could read each log of this term."""
        term = self.leading.term
        self._parts.knowledge.note_readable(
            {where: term.readable(where) for where, _ in self._parts.logs.all() if term.has_log(where)}
        )

    def end(self) -> None:
        """Lead no longer: clients' connections end, and then nobody may read."""
        self.leading.end()
        registrar, self.registrar = self.registrar, None
        if registrar is not None:
            registrar.stop()
        self._parts.close_clients()
        self.note_readable()
        self._parts.logs.let_nobody_read()
        self._parts.knowledge.store()


def members_of(nodes: ReplicaNodes) -> Members:
    """Return the replicas that are alive."""
    return {Replica(name, member.disk): member for name, member in nodes.members.items()}


def _sessions(members: Members) -> dict[Replica, int]:
    return {replica: member.session for replica, member in members.items()}


def _able(members: Members) -> frozenset[Replica]:
    """Return who may be in sync: one that says what keeps it from that is put out at once."""
    return frozenset(replica for replica, member in members.items() if not member.trouble)


def floor_of(nodes: ReplicaNodes, broker_id: int) -> ReadableFloor | None:
    """Return what a leader has noted of what can be read. Raises ReplicaStateError."""
    return None if nodes.floor is None else ReadableFloor.of(nodes.floor, paths.replica_floor(broker_id))


def _names(state: ReplicaState) -> str:
    return ", ".join(sorted(str(replica) for replica in state.in_sync))
