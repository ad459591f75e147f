"""One replica's process around the shipped rules: looks at ZooKeeper, leads or follows, and dies."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kafka2011.log.retention import most_deletable
from kafka2011.replica.exchange import ReplicaData, WrongEpochError
from kafka2011.replica.followed_log import LeaderLacksReadableError, OtherBytesError
from kafka2011.replica.following import Following
from kafka2011.replica.in_sync import LeadLostError, StateRead
from kafka2011.replica.state import Follow, Lead, Replica, Wait, choose_role, why_too_old
from kafka2011.replica.term import Term, TermRules
from tests.models.replica.logs import SIZE, ModelLog
from tests.models.replica.registry import NotAnsweredError, RefusedError, SessionEndedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka2011.replica.exchange import ReplicaFetch
    from kafka2011.replica.known import Known
    from kafka2011.replica.state import ReplicaState, StateWrite
    from tests.models.replica.registry import Nodes, Sent
    from tests.models.replica.world import World
    from zk.cluster import TopicPartition

MAX_LAG_S = 4.0


@dataclass
class Disk:
    """A log.dir: its logs, and the file `replica`."""

    known: Known
    logs: dict[TopicPartition, ModelLog] = field(default_factory=dict)

    def copy(self) -> Disk:
        """Return what a snapshot of the disk has."""
        return Disk(self.known, {where: log.copy_of_disk() for where, log in self.logs.items()})

    def has_what_it_knows(self) -> bool:
        """Say whether every partition is there, up to where it is known to have been readable."""
        ends = {where: log.appended_end_offset for where, log in self.logs.items()}
        return all(ends.get(where, -1) >= end for where, end in self.known.readable.items())

    def has_bytes(self, state: ReplicaState) -> int:
        """Return the sum of the ends of all logs that are not to be deleted by that state."""
        doomed = state.deleted_since(self.known.epoch)
        return sum(log.appended_end_offset for where, log in self.logs.items() if where.topic not in doomed)


class Process:
    """The process of one replica, which may be dead; its disk outlives it."""

    def __init__(self, name: str, disk: Disk, world: World) -> None:
        self.name = name
        self.disk = disk
        self.world = world
        self.is_alive = False
        self.life = 0
        self.session = 0
        self.known = disk.known
        self.term: Term | None = None
        self.is_serving = False
        self.following: Following | None = None
        self.sent: Sent | None = None  # a write of the state, until it is answered
        self.wanted: StateWrite | None = None  # what was sent
        self.connection = 0
        self.asked: ReplicaFetch | None = None  # what was asked of the leader, and not answered yet
        self.deletions: dict[str, int] = {}  # in which epoch each topic was deleted, by the state that it acts on

    @property
    def me(self) -> Replica:
        return self.disk.known.replica

    # Lives

    def start(self) -> None:
        self.is_alive = True
        self.life += 1
        for log in self.disk.logs.values():
            log.flush()  # recovery
        if not self.disk.has_what_it_knows():
            self.disk = self.world.new_disk(self.name)  # it does not start: an operator gives it an empty log.dir
        self.known = self.disk.known
        self._connect()

    def die(self) -> None:
        self._end_role()
        self.is_alive = False

    def _connect(self) -> None:
        self.session = self.world.registry.new_session()
        node = (self.me, self.session, self.known.newest_seen)
        self.world.registry.history.append(
            replace(self.world.registry.now, members=(*self.world.registry.now.members, node))
        )

    def has_lease(self) -> bool:
        return self.session in self.world.registry.sessions

    def lose_lease(self) -> None:
        """Serve nobody any more."""
        self._end_role()

    def _end_role(self) -> None:
        if self.term is not None:
            self.known = self.known.with_readable({where: self.term.readable(where) for where in self.disk.logs})
            self.term.end()
        if self.following is not None:
            self.known = self.known.with_readable(self.following.readable())
        self.term = self.following = self.asked = self.sent = None
        self.is_serving = False

    # ZooKeeper

    def look(self) -> None:
        """Look at the state and the leader's node, and take the role that they give."""
        try:
            nodes = self.world.registry.read(self.session, after_sync=False)
        except SessionEndedError:
            self._end_role()
            self._connect()
            return
        self.act_on(nodes)

    def act_on(self, nodes: Nodes) -> None:
        """Take the role that znodes give, which were read."""
        if self._is_too_old(nodes):
            nodes = self.world.registry.read(self.session, after_sync=True)
            if self._is_too_old(nodes):
                self._wait_for_operator(nodes)
                return
        if self.term is not None:
            if nodes.state.epoch > self.term.epoch:
                self._end_role()
                self._connect_anew()
            else:
                self._look_as_leader(nodes)
            return
        is_mine = nodes.leader is not None and nodes.leader[1] == self.session
        node = None if nodes.leader is None else nodes.leader[0]
        if self.known.epoch > nodes.state.epoch:
            return  # of a server that lags
        role = choose_role(
            self.me,
            self.known.epoch,
            nodes.state,
            nodes.version,
            node,
            is_mine=is_mine,
            has_bytes=self.disk.has_bytes(nodes.state),
            draw=self.world.draw(),
            floor=nodes.floor,
        )
        if self.following is not None and role == self.following.role:
            self._enter(nodes.state, nodes.version)
            return
        self._end_role()
        if isinstance(role, Wait) and role.has_gone_back:
            self.world.count("waits: its disk has gone back")
        if isinstance(role, Lead):
            self._take(role)
        elif isinstance(role, Follow):
            self._enter(nodes.state, nodes.version)
            self.following = Following(
                self.me,
                role,
                logs=self.disk.logs,
                readable=self.known.readable,
                new_log=self.new_log,
                range_bytes=self.world.range_bytes,
            )
            self.connect_to_leader()

    def _look_as_leader(self, nodes: Nodes) -> None:
        assert self.term is not None
        self.term.note_members(nodes.seen, nodes.sessions)

    def _is_too_old(self, nodes: Nodes) -> bool:
        """Say whether this disk, or a member's, has seen a newer state."""
        return bool(why_too_old(nodes.state, nodes.version, {**nodes.seen, self.me: self.known.newest_seen}))

    def _wait_for_operator(self, nodes: Nodes) -> None:
        """Neither lead nor follow: ZooKeeper has gone back."""
        self.world.count("waits: ZooKeeper has gone back")
        has_node = nodes.leader is not None and nodes.leader[1] == self.session
        has_led = self.term is not None or has_node
        self._end_role()
        if has_led:
            self._connect_anew()

    def _connect_anew(self) -> None:
        self.world.registry.end(self.session)
        self._connect()

    def new_log(self, where: TopicPartition) -> ModelLog:
        log = self.disk.logs.get(where)
        if log is None:
            self.disk.logs[where] = log = ModelLog()
            log.deletion = self.deletions.get(where.topic, 0)
        return log

    def _enter(self, state: ReplicaState, version: int) -> None:
        doomed = state.deleted_since(self.known.epoch)
        self.deletions = {it.topic: it.epoch for it in state.deleted}
        self.known = self.known.without(doomed)
        for where in [where for where in self.disk.logs if where.topic in doomed]:
            del self.disk.logs[where]
            self.world.count("logs deleted")
        known = self.known.entering(state, version)
        if (known.epoch, known.seen) != (self.known.epoch, self.known.seen):
            self.known = known
            self.persist()

    def persist(self) -> None:
        """Write the file `replica`."""
        if self.term is not None:
            self.known = self.known.with_readable({where: self.term.readable(where) for where in self.disk.logs})
        if self.following is not None:
            self.known = self.known.with_readable(self.following.readable())
        self.disk.known = self.known

    def _take(self, role: Lead) -> None:
        session, me, (state, version) = self.session, self.me, role.write

        def change(now: Nodes) -> Nodes:
            if now.leader is not None and now.leader[1] != session:
                raise RefusedError
            return replace(now.write(state, version), leader=(me, session))

        try:
            nodes = self.world.registry.transact(session, change)
        except (RefusedError, NotAnsweredError, SessionEndedError):
            return
        if self._is_too_old(nodes):
            self.world.count("waits: ZooKeeper has gone back, as is seen after a takeover")
            self._connect_anew()
            return
        self._enter(state, nodes.version)
        rules = TermRules(MAX_LAG_S, self.world.min_in_sync, 2 * SIZE)
        self.term = Term(
            me,
            state,
            nodes.version,
            rules,
            logs=self.disk.logs,
            readable=self.known.readable,
            now_s=self.world.now_s,
        )
        self.world.count("takeovers")
        self.world.begins(self, state)

    def write_state(self) -> None:
        """Do what the term wants of the state."""
        term = self.term
        if term is None:
            return
        try:
            if self.sent is not None:
                self._hear_of_write(term, self.sent)
                return
            wanted = term.wanted(self.world.now_s)
            if isinstance(wanted, StateRead):
                nodes = self.world.registry.read(self.session, after_sync=wanted.after_sync)
                if nodes.state.epoch == term.epoch:
                    self._enter(nodes.state, nodes.version)
                term.found(nodes.state, nodes.version)
                term.advance(self.world.now_s)
                self.world.count("doubts")
            elif wanted is not None:
                is_more = wanted.state.in_sync > self.world.registry.now.state.in_sync
                self.sent = self.world.registry.send(self.session, lambda now: now.write(wanted.state, wanted.version))
                self.wanted = wanted
                self.world.count("expansions" if is_more else "shrinks")
        except (LeadLostError, SessionEndedError):
            self._end_role()

    def _hear_of_write(self, term: Term, sent: Sent) -> None:
        is_lost = self.world.chance.random() < self.world.registry.lost_answers
        if sent.outcome == "lost" or is_lost:
            term.not_answered()
        elif sent.outcome is None:
            return
        elif sent.outcome == "done":
            assert self.wanted is not None
            self._enter(self.wanted.state, self.wanted.version + 1)
            term.written()
            term.advance(self.world.now_s)
        else:
            term.refused()
        self.sent = None

    def note_floor(self) -> None:
        """Note in ZooKeeper how much everybody in sync has."""
        term, state = self.term, self.world.registry.now.state
        floor = None if term is None else term.wanted_floor(self.world.registry.now.floor)
        if term is None or floor is None:
            return

        def change(now: Nodes) -> Nodes:
            if now.state != state or state.epoch != term.epoch:
                raise RefusedError
            return replace(now, floor=floor)

        with suppress(RefusedError, NotAnsweredError, SessionEndedError):
            self.world.registry.transact(self.session, change)
            self.world.count("floors")

    def register(self) -> None:
        """Register as the broker, if the term says so."""
        term = self.term
        version = None if term is None or self.is_serving else term.registration()
        if term is None or version is None:
            return
        session, name, world = self.session, self.name, self.world

        def change(now: Nodes) -> Nodes:
            if now.version != version or now.broker is not None:
                raise RefusedError
            world.count("registrations")
            world.referee.is_registered({where: term.readable(where) for where in self.disk.logs}, name)
            return replace(now, broker=(name, session))

        try:
            world.registry.transact(session, change)
        except (RefusedError, SessionEndedError):
            return
        except NotAnsweredError:
            pass
        self.is_serving = True

    # Followers

    def ask(self) -> ReplicaFetch | None:
        """Return what to ask the leader; None if that was asked, or there is no leader."""
        if self.following is None or self.asked is not None:
            return None
        self.asked = replace(self.following.fetch(), connection=self.connection)
        return self.asked

    def connect_to_leader(self) -> None:
        """Give up the connection to the leader, on which a question may be under way, for a new one."""
        self.asked = None
        self.connection = self.world.next_connection()

    def answer(self, fetch: ReplicaFetch) -> ReplicaData | None:
        if self.term is None:
            return None
        try:
            return self.term.answer(fetch, self.world.now_s)
        except WrongEpochError:
            return None

    def take(self, fetch: ReplicaFetch, data: ReplicaData) -> None:
        """Take an answer on the connection on which it was asked for."""
        if self.following is None or self.asked is not fetch:
            return
        self.asked = None
        before = {where: log.appended_end_offset for where, log in self.disk.logs.items()}
        try:
            self.following.take(data)
        except WrongEpochError:
            self._end_role()
            return
        except (LeaderLacksReadableError, OtherBytesError) as error:
            raise AssertionError(f"{self.name} stays out: {error}") from error
        if any(self.disk.logs[where].appended_end_offset < end for where, end in before.items()):
            self.world.count("cuts")

    def reconnect(self) -> None:
        """Lose the connection to the leader, and follow from the start."""
        if self.following is not None:
            self._end_role()

    # The logs

    def flush(self, where: TopicPartition) -> None:
        if where in self.disk.logs:
            self.disk.logs[where].flush()

    def roll(self, where: TopicPartition) -> None:
        if self.term is not None and where in self.disk.logs:
            self.disk.logs[where].roll()

    def retain(self, where: TopicPartition) -> None:
        """Delete what retention may."""
        if self.term is not None and where in self.disk.logs:
            log = self.disk.logs[where]
            segments = most_deletable(log.segment_offsets, self.term.readable(where))
            is_known = self.term.epoch >= self.world.referee.loss_epoch and not self.world.referee.is_deleted(
                where, log
            )
            if segments and is_known:
                start = log.segment_offsets[segments]
                log.delete_before(start)
                deleted = self.world.referee.deleted
                deleted[where] = max(deleted[where], start)
                self.world.count("deletions")

    def delete(self, topic: str) -> None:
        """Have a topic deleted from the next epoch on, as an operator wants."""
        term, now, world = self.term, self.world.registry.now, self.world
        if term is None or now.state.epoch != term.epoch or term.state_version != now.version:
            return
        state, version = now.state.deleting(topic, str(world.now_s), now.version, world.draw()), now.version

        def change(nodes: Nodes) -> Nodes:
            after = nodes.write(state, version)
            world.count("topics deleted")
            world.referee.deletes(topic, state.epoch)
            return after

        with suppress(RefusedError, NotAnsweredError, SessionEndedError):
            self.world.registry.transact(self.session, change)

    def produce(self, where: TopicPartition, message: bytes) -> int:
        """Append a message as a client's, and return its offset."""
        assert self.term is not None
        log = self.new_log(where)
        self.term.add_log(where, log)
        offset = log.appended_end_offset
        log.append(message, log.segment_offsets[-1])
        return offset

    def readable(self) -> Mapping[TopicPartition, int]:
        """Return up to where it thinks that clients may have read."""
        if self.term is not None:
            return {where: self.term.readable(where) for where in self.disk.logs}
        return self.known.readable if self.following is None else self.following.readable()
