"""Replication: a process's part among the replicas of its broker id, from session to session in ZooKeeper.

    connects ──▶ looks ──▶ waits ◀──▶ follows
                   │ in sync, and nobody leads
                   ▼
                 leads ──all that it had can be read──▶ registers as the broker
                   │ the state was written by another, or the session has ended
                   ▼
                 all clients' connections end, then the session, and with it all that was registered

One greenlet does all of it. What is to be done is said by `kafka2011.replica`; what a leader and a follower do between
two looks is in `leading` and `follower`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import gevent
from gevent.event import Event
from gevent.threadpool import ThreadPool
from kazoo.handlers.gevent import SequentialGeventHandler

from kafka2011.broker.monitoring.replica_metrics import ReplicaFacts
from kafka2011.broker.registrar import LeaderSession
from kafka2011.broker.replication.catch_up import CatchUp
from kafka2011.broker.replication.follower import Follower
from kafka2011.broker.replication.leading import Leading
from kafka2011.broker.replication.led_client import LedClient
from kafka2011.errors import KafkaError
from kafka2011.outages import Outages
from kafka2011.replica.following import Following
from kafka2011.replica.in_sync import LeadLostError, StateRead
from kafka2011.replica.state import Follow, Lead, Replica, ReplicaState, ReplicaStateError, choose_role
from kafka2011.replica.term import Term, TermRules
from zk import paths
from zk.clock import SYSTEM_CLOCK
from zk.cluster import TopicPartition
from zk.connecting import connect
from zk.errors import NodeExists, NodeHeld, NoNode, VersionConflict, ZkError, ZkUnavailable
from zk.nodes import Nodes
from zk.replicas import ReplicaRegistry
from zk.sessions import SessionEvents, SessionLease
from zk.watchdog import SessionWatchdog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafka2011.broker.registrar import BrokerRegistrar
    from kafka2011.broker.replication.replica_log import ReplicaLogs
    from kafka2011.broker.requests.parking import Parking
    from kafka2011.config import BrokerConfig
    from kafka2011.log.log import Log
    from kafka2011.replica.known import Known
    from kafka2011.replica.known_file import KnownFile
    from zk.client import ZkClient
    from zk.nodes import Check
    from zk.replicas import Member, ReplicaNodes

logger = logging.getLogger(__name__)

LOOK_S = 0.2
"""How often it looks whether there is something to do with what it knows."""
READ_S = 2.0
"""How often it reads the znodes if no watch has told of a change: one can be lost with its connection."""
STORE_S = 5.0
"""How often what can be read is noted on disk: what lies before that need not be compared after a restart."""
OLD_NODE_GRACE_MS = 5000
"""On top of the session timeout, for a former process of this name to go."""
CLIENTS_END_S = 30.0
"""How long what clients have begun may take to end; then the broker stops, before it changes a byte."""
WAITS_AT_ONCE = 4
"""For leaders; all but one of them are waits for former ones, which end by themselves."""
HAND_OVER_S = 3.0
"""How long a leader that stops lets followers get what only it has."""
HAND_OVER_LOOK_S = 0.02
SPREAD_S = 5.0
"""How long followers may take to have a new partition, beyond the lag after which they are not in sync."""
SPREAD_LOOK_S = 0.02
FETCH_BYTES = 8 * 1024 * 1024
"""What a follower is given at once; a single message may be larger."""


class Replication:
    """One replica's process. `start` and `stop` may be called twice.

    `new_registrar` makes the registrar of a session in which this replica leads; it is told whom to tell that it has
    failed. `end_clients` ends all connections, and
    says whether nothing is done for them any more. `on_failure` is told when the broker cannot go on.
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
    ) -> None:
        self._config = config
        self._logs = logs
        self._file = known_file
        self._parking = parking
        self._request_flush = request_flush
        self._new_registrar = new_registrar
        self._end_clients = end_clients
        self._on_failure = on_failure
        self._rules = TermRules(config.replica_lag_time_max_ms / 1000, config.min_insync_replicas, FETCH_BYTES)
        self._known: Known | None = None
        self._stored_s = 0.0
        self._client: ZkClient | None = None
        self._watchdog: SessionWatchdog | None = None
        self._follower: Follower | None = None
        self._leading: Leading | None = None
        self._registering: BrokerRegistrar | None = None
        self._register_from_s = 0.0
        self._loop: gevent.Greenlet[[], None] | None = None
        self._stopping = False
        self._wake = Event()
        self._has_changed = True  # since the znodes were read
        self._read_s = 0.0
        self._waits_for = ""
        self._takeovers = 0
        self._outages = Outages(logger)
        # Beside those of the disk: one that waits for a leader that hangs must hold up nobody else.
        self._threads = ThreadPool(WAITS_AT_ONCE)

    # What the broker asks

    def leading_now(self) -> Leading | None:
        """Return its term, if it leads."""
        return self._leading

    def note_appended(self, log: Log) -> bool:
        """Let followers get what was appended; say whether this replica leads. Does not wait."""
        if self._leading is None:
            return False
        self._leading.appended(log)
        return True

    def note_flushed(self, log: Log) -> None:
        """Let clients read, if this replica leads, what is on enough disks. Does not wait."""
        if self._leading is not None:
            self._leading.flushed(log)

    @property
    def is_connected(self) -> bool:
        """Whether it has a session in ZooKeeper now."""
        return self._client is not None and self._client.session_id is not None

    @property
    def registrar(self) -> BrokerRegistrar | None:
        """What registers it as the broker, while it leads."""
        return self._registering

    @property
    def obstacle(self) -> str | None:
        """Why it neither leads, as the registered broker, nor follows; None if it does."""
        if self._leading is not None:
            registrar = self._registering
            return None if registrar is not None and registrar.is_registered else "leads, and is not registered yet"
        if self._follower is not None:
            return self._follower.obstacle
        return self._waits_for or "has not found out yet who leads"

    def facts(self) -> ReplicaFacts | None:
        """Return what it is by now; None before it knows that itself."""
        known, leading = self._known, self._leading
        if known is None:
            return None
        followers = None if leading is None else leading.alive(SYSTEM_CLOCK.monotonic_s())
        return ReplicaFacts(known.replica.name, known.epoch, self._takeovers, self._logs.cut_bytes, followers)

    def spread(self, topic: str, partitions: int) -> None:
        """Have so many partitions of a topic, with or without messages, at all that are in sync.

        Whichever of them leads next has as many then. Raises KafkaError, and ZkUnavailable when another leads by now,
        whom the request is left to.
        """
        leading = self._leading
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

    def new_client(self) -> LedClient:
        """Return what is done for a client that has connected."""
        return LedClient(self._leading)

    def start(self, member: Callable[[ZkClient, Replica], Member]) -> None:
        """Connect, and begin to follow or to lead, soon; `member` says where other replicas reach this one.

        Raises ReplicaStateError when this replica may not go on, NodeHeld when another process has its name, and
        ZkError.
        """
        if self._loop is not None:
            return
        self._stopping = False
        self._member = member
        self._known = known = self._file.load_or_begin(self._config.replica_name)
        self._check_logs(known)
        self._open_session()
        if self._registry.read().state is None:
            raise ReplicaStateError(
                f"broker {self._config.brokerid} has no replicas yet: run `kafka2011 replicas init"
                f" {self._config.brokerid}` for the log.dir that has everything"
            )
        self._loop = gevent.spawn(self._run)

    def stop(self, *, has_failed: bool = False) -> None:
        """End the role and the session, and with it all that is registered; after a failure, at once."""
        self._stopping = True
        self._wake.set()
        loop, self._loop = self._loop, None
        try:
            if loop is not None:
                loop.join()
                if not has_failed:
                    self._hand_over()
            self._end_session()
        except (KafkaError, OSError) as error:
            logger.critical("replica of broker %d did not stop in order: %s", self._config.brokerid, error)

    def _hand_over(self) -> None:
        """Before a leader stops, let followers have what was taken and not confirmed, so that it is not cut off."""
        leading = self._leading
        if leading is None:
            return
        leading.may_serve = False
        self._close_clients()
        self._logs.flush()
        ends_s = SYSTEM_CLOCK.monotonic_s() + HAND_OVER_S
        while not leading.term.all_readable() and leading.has_lease and SYSTEM_CLOCK.monotonic_s() < ends_s:
            gevent.sleep(HAND_OVER_LOOK_S)

    def _check_logs(self, known: Known) -> None:
        """Raise ReplicaStateError if the disk has not what it had."""
        logs = dict(self._logs.all())
        missing = known.missing(logs)
        if missing:
            raise ReplicaStateError(
                f"replica {known.replica} has had {', '.join(map(str, missing[:10]))}, and its disk has not: with an"
                " empty log.dir it comes back as a new replica"
            )
        for where, readable in known.readable.items():
            end = logs[where].appended_end_offset
            if end < readable:
                raise ReplicaStateError(
                    f"replica {known.replica} has had {where} up to offset {readable}, and its disk has it up to {end}:"
                    " with an empty log.dir it comes back as a new replica"
                )

    # Sessions

    def _open_session(self) -> None:
        config, known = self._config, self._known
        assert known is not None
        client = connect(
            config.zk_connect,
            config.zk_sessiontimeout_ms,
            config.zk_connectiontimeout_ms,
            SequentialGeventHandler(),
        )
        try:
            session_id = Nodes(client).session_id
            registry = ReplicaRegistry(client, config.brokerid, session_id)
            member = self._member(client, known.replica)
            registry.join(known.replica.name, member, config.zk_sessiontimeout_ms + OLD_NODE_GRACE_MS)
        except BaseException:
            client.abandon()
            raise
        self._client, self._session_id, self._registry = client, session_id, registry
        self._watchdog = _watchdog_of(client)
        self._lease = SessionLease(client, session_id)
        self._events = SessionEvents(client)
        self._events.wake(self._wake.set)
        self._renewing = gevent.spawn(self._renew, self._lease)
        self._has_changed = True

    def _renew(self, lease: SessionLease) -> None:
        while True:
            try:
                lease.renew()
            except ZkError as error:
                logger.debug("the lease was not renewed: %s", error)
            gevent.sleep(lease.renew_interval_s)

    def _end_session(self) -> None:
        try:
            self._end_role()
        finally:
            client, self._client = self._client, None
            if client is not None:
                self._renewing.kill()
                self._lease.end()
                self._events.close()
                leaving = gevent.spawn(client.shutdown)  # in a greenlet, because ZooKeeper may be out of reach
                leaving.join(self._config.zk_sessiontimeout_ms / 1000)
                if not leaving.ready():
                    leaving.kill(block=False)
            watchdog, self._watchdog = self._watchdog, None
            if watchdog is not None:
                self._threads.apply(watchdog.close)

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            try:
                self._go_on_guarded()
            except Exception as error:  # noqa: BLE001 - a background task that dies silently would be worse
                self._on_failure(error)
                return
            self._wake.wait(LOOK_S)

    def _go_on_guarded(self) -> None:
        try:
            self._go_on()
            self._outages.over()
        except ZkUnavailable as error:
            self._outages.failed("replica %s waits for ZooKeeper: %s", self._me, error)
        except NodeHeld as error:
            self._outages.failed("replica %s waits for its own former session to end: %s", self._me, error)
        except LeadLostError as error:
            logger.warning("replica %s does not lead any more: %s", self._me, error)
            self._end_session()

    @property
    def _me(self) -> Replica:
        assert self._known is not None
        return self._known.replica

    def _go_on(self) -> None:
        """Do what there is to do now."""
        if self._client is None:
            self._open_session()
        assert self._client is not None
        if self._leading is not None and not self._leading.has_lease and self._leading.may_serve:
            self._close_clients()  # they find out who leads now; the lease may come back
        session_id = self._client.session_id
        if session_id is not None and session_id != self._session_id:
            logger.warning("replica %s has lost its session", self._me)
            self._end_session()
            self._wake.set()
            return
        now_s = SYSTEM_CLOCK.monotonic_s()
        if self._has_changed or now_s - self._read_s >= READ_S:
            self._has_changed = False  # before: what changes after the read wakes us again
            self._read_s = now_s
            try:
                self._look(self._registry.read(self._watch))
            except BaseException:
                self._has_changed = True
                raise
        if self._leading is not None:
            self._lead_on(self._leading)
        if now_s - self._stored_s >= STORE_S:
            self._store()

    def _watch(self, _event: object) -> None:
        self._has_changed = True
        self._wake.set()

    def _look(self, nodes: ReplicaNodes) -> None:
        """Take the role that the znodes give."""
        where = paths.replica_state(self._config.brokerid)
        if nodes.state is None:
            raise ReplicaStateError(f"{where} has gone: an operator has removed the replicas")
        state = ReplicaState.of(nodes.state, where)
        members = frozenset(Replica(name, member.disk) for name, member in nodes.members.items())
        if self._leading is not None:
            term = self._leading.term
            if not nodes.is_mine or state.epoch != term.epoch:
                raise LeadLostError(f"epoch {state.epoch} has begun, led by {state.leader}")
            term.note_members(members)
            self._leading.followers = members - {self._me}
            return
        assert self._known is not None
        node = None if nodes.leader is None else _replica(nodes.leader, self._config.brokerid)
        role = choose_role(self._me, self._known.epoch, state, nodes.version, node, is_mine=nodes.is_mine)
        follower = self._follower
        if follower is not None and role == follower.following.role:
            return
        self._end_role()
        if isinstance(role, Lead):
            self._take(role, members, state.leader)
        elif isinstance(role, Follow):
            self._follow(role, state, nodes.members.get(role.leader.name))
        else:
            self._wait(role.reason)

    def _wait(self, reason: str) -> None:
        if reason != self._waits_for:
            logger.warning("replica %s waits: %s", self._me, reason)
        self._waits_for = reason

    # Roles

    def _follow(self, role: Follow, state: ReplicaState, leader: Member | None) -> None:
        if leader is None or leader.disk != role.leader.disk:
            self._wait(f"the leader {role.leader} has no znode among the members")
            return
        assert self._client is not None
        security = self._client.security
        if leader.by_tls and security.brokers is None:
            self._wait(f"the leader {role.leader} listens by TLS alone, and zk.connect names no file that says how")
            return
        self._enter(state)
        assert self._known is not None
        following = Following(
            self._me,
            role,
            logs=dict(self._logs.all()),
            readable=self._known.readable,
            new_log=self._logs.make,
        )
        self._waits_for = ""
        self._follower = Follower(
            following,
            self._logs,
            (leader.host, leader.port),
            security.path if leader.by_tls else "",
            self._config.brokerid,
            self._on_failure,
            self._threads,
        )
        self._follower.start()

    def _take(self, role: Lead, members: frozenset[Replica], former: Replica | None) -> None:
        """Take the lead from the former leader. What is not answered is found out with the next look."""
        state, version = role.write
        try:
            version = self._registry.lead(state.text, version, str(self._me))
        except (VersionConflict, NodeExists, NoNode):
            self._has_changed = True
            self._wake.set()
            return
        self._enter(state)
        self._logs.flush()
        assert self._known is not None
        now_s = SYSTEM_CLOCK.monotonic_s()
        term = Term(
            self._me,
            state,
            version,
            self._rules,
            logs=dict(self._logs.all()),
            readable=self._known.readable,
            now_s=now_s,
        )
        term.note_members(members)
        self._lease.renew()
        leading = Leading(
            term,
            self._logs,
            self._lease,
            catch_up=CatchUp(self._config.replica_max_bytes_per_second),
            parking=self._parking,
            request_flush=self._request_flush,
            clock=SYSTEM_CLOCK,
        )
        leading.followers = members - {self._me}
        self._leading = leading
        self._takeovers += 1
        self._waits_for = ""
        gap_s = 0 if former in {None, self._me} else self._config.replica_address_gap_ms / 1000
        self._register_from_s = now_s + gap_s
        logger.info("replica %s leads in epoch %d; in sync: %s", self._me, term.epoch, _names(state))

    def _lead_on(self, leading: Leading) -> None:
        """Have the state written as it should be, and register once that may be."""
        term = leading.term
        leading.note_logs()
        leading.publish(term.advance())
        while (wanted := term.wanted(SYSTEM_CLOCK.monotonic_s())) is not None:
            if isinstance(wanted, StateRead):
                nodes = self._registry.read(self._watch)
                assert wanted.after_sync, "every read is after a sync"
                if nodes.state is None:
                    raise LeadLostError("the state has gone")
                term.found(ReplicaState.of(nodes.state, "ZooKeeper"), nodes.version)
            else:
                logger.info("replica %s: in sync from now on: %s", self._me, _names(wanted.state))
                self._write(term, wanted.state, wanted.version)
            leading.publish_all()
        self._register_when_due(leading)

    def _write(self, term: Term, state: ReplicaState, version: int) -> None:
        try:
            self._registry.write(state.text, version)
        except (VersionConflict, NoNode):
            term.refused()  # raises
        except BaseException:  # also when it was not sent: to doubt it costs no more than a read
            term.not_answered()
            raise
        else:
            term.written()

    def _register_when_due(self, leading: Leading) -> None:
        if self._registering is not None or leading.term.registration() is None:
            return
        if SYSTEM_CLOCK.monotonic_s() < self._register_from_s:
            return
        leading.may_serve = True
        assert self._client is not None
        self._registering = registrar = self._new_registrar(
            self.registrar_failed, LeaderSession(self._client, self._session_id, self._check_of(leading))
        )
        gevent.spawn(self._start_registrar, registrar)

    def _check_of(self, leading: Leading) -> Callable[[], Check]:
        def check() -> Check:
            version = leading.term.registration()
            if leading.term.has_ended or version is None:
                raise ZkUnavailable("the state is not certain")
            return self._registry.check(version)

        return check

    def _start_registrar(self, registrar: BrokerRegistrar) -> None:
        try:
            registrar.start()
        except ZkError as error:
            self.registrar_failed(error, registrar)

    def registrar_failed(self, error: BaseException, registrar: BrokerRegistrar | None = None) -> None:
        """Note that registering has failed: it is tried again while this replica leads."""
        logger.warning("replica %s is not registered as broker %d: %s", self._me, self._config.brokerid, error)
        failed = registrar or self._registering
        if failed is not None and failed is self._registering:
            self._register_from_s = SYSTEM_CLOCK.monotonic_s() + LOOK_S
            self._registering = None
            gevent.spawn(failed.stop)

    def _end_role(self) -> None:
        """Neither lead nor follow; when this returns, nobody appends or reads."""
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.end()
            self._note_readable(follower.following.readable())
        leading, self._leading = self._leading, None
        if leading is not None:
            leading.end()
            registrar, self._registering = self._registering, None
            if registrar is not None:
                registrar.stop()
            self._close_clients()
            self._note_readable({where: leading.term.readable(where) for where, _ in self._logs.all()})
            self._logs.let_nobody_read()
        if self._known is not None and (follower is not None or leading is not None):
            self._store()

    def _close_clients(self) -> None:
        if not self._end_clients(CLIENTS_END_S):
            raise KafkaError(f"what clients have begun does not end within {CLIENTS_END_S:g} s")

    # What this replica knows

    def _enter(self, state: ReplicaState) -> None:
        """Note an epoch on disk before anything is done in it."""
        assert self._known is not None
        self._known = self._known.entering(state)
        self._store()

    def _note_readable(self, readable: Mapping[TopicPartition, int]) -> None:
        assert self._known is not None
        self._known = self._known.with_readable(readable)

    def _store(self) -> None:
        assert self._known is not None
        if self._leading is not None:
            term = self._leading.term
            self._note_readable({where: term.readable(where) for where, _ in self._logs.all() if term.has_log(where)})
        if self._follower is not None:
            self._note_readable(self._follower.following.readable())
        self._stored_s = SYSTEM_CLOCK.monotonic_s()
        self._file.store(self._known)


def _replica(text: str, broker_id: int) -> Replica:
    try:
        return Replica.of(text)
    except ValueError as error:
        raise ReplicaStateError(f"{paths.replica_leader(broker_id)}: {error}") from error


def _names(state: ReplicaState) -> str:
    return ", ".join(sorted(str(each) for each in state.in_sync))


def _watchdog_of(client: ZkClient) -> SessionWatchdog | None:
    """Have a client's session end with this process, not when its timeout is over: others lead that much sooner."""
    try:
        return SessionWatchdog(client)
    except OSError as error:
        logger.warning("no watchdog of the ZooKeeper session was started: %s", error)
        return None
