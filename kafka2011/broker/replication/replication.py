"""Replication: a process's part among the replicas of its broker id, from session to session in ZooKeeper.

One greenlet does all of it: it reads the znodes, becomes what they say (`states`, `leader_state`), and does what there
is to do. The rules are in `kafka2011.replica`; what a leader and a follower do between two rounds is in `leading` and
`follower`.
"""

from __future__ import annotations

import itertools
import logging
import secrets
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import gevent
from gevent.event import Event
from gevent.threadpool import ThreadPool

from kafka2011.broker.monitoring.replica_metrics import ReplicaFacts
from kafka2011.broker.replication.hang_watch import HangWatch
from kafka2011.broker.replication.knowledge import Knowledge
from kafka2011.broker.replication.leader_state import LeaderState, Members, floor_of, members_of
from kafka2011.broker.replication.led_client import LedClient
from kafka2011.broker.replication.session import ReplicaSession
from kafka2011.broker.replication.states import (
    FollowerState,
    ReplicaParts,
    RoleState,
    StartingState,
    StoppedState,
    why_not_follow,
)
from kafka2011.broker.replication.view import ReplicaView
from kafka2011.errors import KafkaError
from kafka2011.outages import Outages
from kafka2011.replica.codec import EXACT_PARTITIONS
from kafka2011.replica.in_sync import LeadLostError
from kafka2011.replica.known_file import NotStoredNowError
from kafka2011.replica.lineage import DRAW_BYTES
from kafka2011.replica.state import Follow, Lead, Replica, ReplicaState, ReplicaStateError, choose_role
from zk import paths
from zk.clock import SYSTEM_CLOCK
from zk.cluster import TopicPartition
from zk.errors import NodeExists, NodeHeld, NoNode, VersionConflict, ZkUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka2011.broker.registrar import BrokerRegistrar, LeaderSession
    from kafka2011.broker.replication.leading import Leading
    from kafka2011.broker.replication.replica_log import ReplicaLogs
    from kafka2011.broker.requests.parking import Parking
    from kafka2011.config import BrokerConfig
    from kafka2011.log.log import Log
    from kafka2011.replica.known_file import KnownFile
    from zk.client import ZkClient
    from zk.replicas import Member, ReplicaNodes

logger = logging.getLogger(__name__)

LOOK_S = 0.2
"""How often it looks whether there is something to do with what it knows."""
READ_S = 2.0
"""How often it reads the znodes if no watch has told of a change: one can be lost with its connection."""
WAITS_AT_ONCE = 4
"""For leaders; all but one of them are waits for former ones, which end by themselves."""
SPREAD_S = 5.0
"""How long followers may take to have a new partition, beyond the lag after which they are not in sync."""
SPREAD_LOOK_S = 0.02


class Replication:
    """One replica's process. `start` and `stop` may be called twice.

    The callables are as for ReplicaParts, and `disk_waits_s` as for HangWatch.
    """

    def __init__(
        self,
        config: BrokerConfig,
        logs: ReplicaLogs,
        known_file: KnownFile,
        *,
        parking: Parking,
        request_flush: Callable[[Log], None],
        new_registrar: Callable[[Callable[[BaseException], None], LeaderSession], BrokerRegistrar],
        end_clients: Callable[[float], bool],
        on_failure: Callable[[BaseException], None],
        disk_waits_s: Callable[[], float],
    ) -> None:
        self._config = config
        # Beside those of the disk: one that waits for a leader that hangs must hold up nobody else.
        self._threads = ThreadPool(WAITS_AT_ONCE)
        self._knowledge = Knowledge(known_file)
        self._parts = ReplicaParts(
            config,
            logs,
            self._knowledge,
            parking,
            request_flush,
            new_registrar,
            end_clients,
            on_failure,
            self._threads,
        )
        self._state: RoleState = StoppedState()
        self._session: ReplicaSession | None = None
        self._loop: gevent.Greenlet[[], None] | None = None
        self._is_stopping = False
        self._wake = Event()
        self._read_s = 0.0
        self._view: ReplicaView | None = None
        self._takeovers = 0
        self._connections = itertools.count(1)
        self._outages = Outages(logger)
        self._hang_watch = HangWatch(config, self._beat, self.leading_now, disk_waits_s)

    # What the broker asks

    @property
    def logs(self) -> ReplicaLogs:
        """The logs that it has copies of."""
        return self._parts.logs

    def leading_now(self) -> Leading | None:
        """Return its term, if it leads."""
        return self._state.leading

    def view(self) -> ReplicaView | None:
        """Return what it saw when it last looked; None without a session."""
        return self._view

    @property
    def is_connected(self) -> bool:
        """Whether it has a session in ZooKeeper now."""
        return self._session is not None and self._session.is_connected

    @property
    def registrar(self) -> BrokerRegistrar | None:
        """What registers it as the broker, while it leads."""
        return self._state.registrar

    @property
    def obstacle(self) -> str | None:
        """Why it neither leads, as the registered broker, nor follows; None if it does."""
        return self._state.obstacle

    def facts(self) -> ReplicaFacts | None:
        """Return what it is by now; None before it knows that itself."""
        if not self._knowledge.is_loaded:
            return None
        known, leading = self._knowledge.known, self._state.leading
        followers = None if leading is None else leading.alive(SYSTEM_CLOCK.monotonic_s())
        logs, trouble = self._parts.logs, self._state.trouble
        return ReplicaFacts(
            *(known.replica.name, known.epoch, self._takeovers, logs.cut_bytes, followers),
            *(len(logs.obstacles), bool(trouble)),
        )

    def note_appended(self, log: Log) -> bool:
        """Let followers get what was appended; say whether this replica leads. Does not wait."""
        leading = self._state.leading
        if leading is None:
            return False
        leading.appended(log)
        return True

    def note_flushed(self, log: Log) -> None:
        """Let clients read, if this replica leads, what is on enough disks. Does not wait."""
        leading = self._state.leading
        if leading is not None:
            leading.flushed(log)

    def spread(self, topic: str, partitions: int) -> None:
        """Have so many partitions of a topic, with or without messages, at all that are in sync.

        Whichever of them leads next has as many then. Raises KafkaError, and ZkUnavailable when another leads by now,
        whom the request is left to.
        """
        leading = self._state.leading
        if leading is None:
            raise ZkUnavailable("another replica leads by now")
        deadline_s = SYSTEM_CLOCK.monotonic_s() + leading.term.max_lag_s + SPREAD_S
        waiting = leading.make(TopicPartition(topic, self._config.brokerid, number) for number in range(partitions))
        while not all(map(leading.term.is_at_all_in_sync, waiting)):
            if leading.term.has_ended:
                raise ZkUnavailable("another replica leads by now")
            if SYSTEM_CLOCK.monotonic_s() > deadline_s:
                raise KafkaError(f"topic {topic} has {partitions} partitions at its leader, and not yet at all in sync")
            gevent.sleep(SPREAD_LOOK_S)

    def check_exact(self) -> None:
        """Raise KafkaError if a replica that lives cannot keep an exact number of partitions.

        One that is in sync and does not live is waited for until it is out of sync. Raises ZkUnavailable when another
        replica leads by now.
        """
        while (leading := self._state.leading) is not None and (view := self._view) is not None:
            old = [each for each, member in view.members.items() if EXACT_PARTITIONS not in member.speaks]
            if old:
                raise KafkaError(f"replica {old[0]} runs an older release, which keeps no exact number of partitions")
            if leading.term.in_sync() <= view.members.keys():
                return
            gevent.sleep(SPREAD_LOOK_S)
        raise ZkUnavailable("another replica leads by now")

    def delete(self, topic: str, request: str) -> None:
        """Have all replicas delete a topic, each before it does anything in the next epoch.

        Returns if that was done because of this request. Else raises ZkUnavailable: the request is left to whoever
        leads in that epoch.
        """
        state = self._state
        if not isinstance(state, LeaderState):
            raise ZkUnavailable("another replica leads by now")
        state.delete(topic, request)

    def new_client(self, on_refused: Callable[[], None]) -> LedClient:
        """Return what is done for a client that has connected."""
        return LedClient(self._state.leading, next(self._connections), on_refused)

    # Starting and stopping

    def start(self, member: Callable[[ZkClient, Replica], Member]) -> None:
        """Connect, and begin to follow or to lead, soon; `member` says where other replicas reach this one.

        Raises ReplicaStateError when this replica may not go on, NodeHeld when another process has its name, and
        ZkError.
        """
        if self._loop is not None:
            return
        self._is_stopping = False
        self._knowledge.load(self._config.replica_name, self._parts.logs)
        self._state = StartingState()
        session = self._new_session(member)
        if session.registry.read().state is None:
            raise ReplicaStateError(
                f"broker {self._config.brokerid} has no replicas yet: run `kafka2011 replicas init"
                f" {self._config.brokerid}` for the log.dir that has everything"
            )
        self._loop = gevent.spawn(partial(self._run, member))
        self._hang_watch.start()

    def stop(self, *, has_failed: bool = False) -> None:
        """End the role and the session, and with it all that is registered; after a failure, at once."""
        self._is_stopping = True
        self._hang_watch.stop()
        self._wake.set()
        loop, self._loop = self._loop, None
        try:
            if loop is not None:
                loop.join()
                if not has_failed and isinstance(self._state, LeaderState):
                    self._state.hand_over()
            self._end_session()
        except (KafkaError, OSError) as error:
            logger.critical("replica of broker %d did not stop in order: %s", self._config.brokerid, error)

    def _beat(self, within_ms: int) -> None:
        if self._session is not None:
            self._session.beat(within_ms)

    def _new_session(self, member: Callable[[ZkClient, Replica], Member]) -> ReplicaSession:
        known = self._knowledge.known

        def with_seen(client: ZkClient, me: Replica) -> Member:
            return replace(member(client, me), seen=known.newest_seen.text)

        self._session = session = ReplicaSession(self._config, known.replica, with_seen, self._wake.set, self._threads)
        return session

    def _end_session(self) -> None:
        try:
            self._become(StoppedState() if self._is_stopping else StartingState())
        finally:
            session, self._session, self._view = self._session, None, None
            if session is not None:
                session.end()

    # Going on

    def _run(self, member: Callable[[ZkClient, Replica], Member]) -> None:
        while not self._is_stopping:
            self._wake.clear()
            try:
                self._go_on_guarded(member)
            except Exception as error:  # noqa: BLE001 - a background task that dies silently would be worse
                self._parts.on_failure(error)
                return
            self._wake.wait(LOOK_S)

    def _go_on_guarded(self, member: Callable[[ZkClient, Replica], Member]) -> None:
        me = self._knowledge.me
        try:
            self._go_on(self._session or self._new_session(member))
            self._outages.over()
        except ZkUnavailable as error:
            self._outages.failed("replica %s waits for ZooKeeper: %s", me, error)
        except NodeHeld as error:
            self._outages.failed("replica %s waits for its own former session to end: %s", me, error)
        except NotStoredNowError as error:
            self._outages.failed("replica %s waits: %s", me, error)
        except LeadLostError as error:
            logger.warning("replica %s does not lead any more: %s", me, error)
            self._end_session()

    def _go_on(self, session: ReplicaSession) -> None:
        """Do what there is to do now."""
        if isinstance(self._state, LeaderState):
            self._state.end_clients_without_lease()
        if session.has_ended:
            logger.warning("replica %s has lost its session", self._knowledge.me)
            self._end_session()
            self._wake.set()
            return
        now_s = SYSTEM_CLOCK.monotonic_s()
        if session.has_news or now_s - self._read_s >= READ_S:
            session.has_news = False  # before: what changes after the read wakes us again
            self._read_s = now_s
            try:
                nodes = session.read()
                if session.has_ended:
                    self._wake.set()
                    return
                self._look(session, nodes)
            except BaseException:
                session.has_news = True
                raise
        self._state.go_on()
        session.tell(self._state.trouble, self._parts.logs.damage(), self._knowledge.known.newest_seen.text)
        if self._knowledge.is_store_due:
            self._state.note_readable()
            self._knowledge.store()

    def _look(self, session: ReplicaSession, nodes: ReplicaNodes) -> None:
        """Become what the znodes say. Raises LeadLostError, ReplicaStateError and ZkError."""
        where = paths.replica_state(self._config.brokerid)
        if nodes.state is None:
            raise ReplicaStateError(f"{where} has gone: an operator has removed the replicas")
        state = ReplicaState.of(nodes.state, where)
        members = members_of(nodes)
        self._view = ReplicaView.of(self._knowledge.known, state, members, session.client.security)
        if isinstance(self._state, LeaderState):
            self._state.check(nodes, state, members)
            return
        known = self._knowledge.known
        if why := self._knowledge.why_too_old(state, nodes.version, members):
            self._wait(why, why)
            return
        node = None if nodes.leader is None else _replica(nodes.leader, self._config.brokerid)
        doomed = state.deleted_since(known.epoch)
        role = choose_role(
            known.replica,
            known.epoch,
            state,
            nodes.version,
            node,
            is_mine=nodes.is_mine,
            has_bytes=sum(log.appended_end_offset for at, log in self._parts.logs.all() if at.topic not in doomed),
            draw=secrets.token_hex(DRAW_BYTES),
            floor=floor_of(nodes, self._config.brokerid),
        )
        if self._state.is_still(role):
            self._knowledge.enter(state, nodes.version)
            return
        if not isinstance(self._state, StartingState):
            self._become(StartingState())
        if isinstance(role, Lead):
            self._take(session, role, members, state.leader)
        elif isinstance(role, Follow):
            self._follow(session, role, state, nodes)
        else:
            self._wait(role.reason, role.reason if role.has_gone_back else "")

    def _become(self, state: RoleState) -> None:
        """Be something else; the old state is over when this returns, and nobody sees it meanwhile."""
        old, self._state = self._state, state
        old.end()

    def _wait(self, reason: str, trouble: str = "") -> None:
        if reason != self._state.obstacle:
            logger.warning("replica %s waits: %s", self._knowledge.me, reason)
            self._become(StartingState(reason, trouble))

    def _follow(self, session: ReplicaSession, role: Follow, state: ReplicaState, nodes: ReplicaNodes) -> None:
        leader = nodes.members.get(role.leader.name)
        reason = why_not_follow(session, role, leader)
        if reason is not None:
            self._wait(reason)
            return
        assert leader is not None, "there is a reason then"
        self._state = FollowerState(self._parts, session, role, state, nodes.version, leader)

    def _take(self, session: ReplicaSession, role: Lead, members: Members, former: Replica | None) -> None:
        try:
            self._state = LeaderState.take(self._parts, session, role, members, former)
        except (VersionConflict, NodeExists, NoNode):  # somebody was faster: who is found out with the next round
            session.has_news = True
            self._wake.set()
        else:
            self._takeovers += 1


def _replica(text: str, broker_id: int) -> Replica:
    try:
        return Replica.of(text)
    except ValueError as error:
        raise ReplicaStateError(f"{paths.replica_leader(broker_id)}: {error}") from error
