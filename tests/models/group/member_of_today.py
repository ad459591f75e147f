"""A member whose client speaks today's protocol: the gateway's shipped member, and a client that obeys what it is told.

The client learns of a rebalance only by its heartbeat, commits what it has done before it gives a partition up, and
gives up everything before it joins again, unless it `keeps` what it can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kafka2011.consumer.membership import AUDIT_INTERVAL_S
from kafka2011.gateway.groups.member import GroupMember, Timeouts
from kafka2011.gateway.protocol.errors import ErrorCode
from tests.models.group.referee import GROUP, IDS, TOPIC, Violation
from tests.models.group.tasks import TaskEvent, TaskLock
from zk.commit_notes import GroupCommit
from zk.errors import ZkError
from zk.gateway_members import GatewayMember
from zk.offsets import OffsetRegistry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable

    from kafka2011.consumer.group_registries import GroupSession
    from tests.models.group.client import ModelClient
    from tests.models.group.referee import Referee
    from tests.models.group.tasks import Tasks
    from zk.client import ZkClient
    from zk.cluster import TopicPartition

HEARTBEAT_S = 1
NAP_S = 12
_NEVER_S = float("inf")
_TIMEOUTS = Timeouts(session_s=60, rebalance_s=30)


class MemberOfToday:
    """One member with its client, of the same form as `ModelMember`."""

    in_hand = None
    takes_part = True

    def __init__(self, name: str, client: ModelClient, tasks: Tasks, referee: Referee, *, keeps: bool) -> None:
        self.name = name
        self.client = client
        self.is_gone = False
        self.is_leaving = False
        self.has_left = False
        self.try_at_s = _NEVER_S
        self.fetch_at_s = 0.0  # of the next heartbeat
        self.held: dict[TopicPartition, int] = {}  # what its client has, and where it goes on
        self._keeps = keeps
        self._generation = 0
        self._joins = True  # its client is to join
        self._told_in: GroupSession | None = None
        self._clock = client.clock
        self._tasks = tasks
        self._referee = referee
        zk_client = cast("ZkClient", client)
        self._offsets = OffsetRegistry(zk_client)
        who = GatewayMember(name, "a client", "h")
        threads = _TaskThreads(tasks, self)
        self.member = GroupMember(zk_client, "h:1", GROUP, name, who, _TIMEOUTS, self._is_overdue, threads)

    # What the gateway does -------------------------------------------------------------------------------------------

    @property
    def running(self) -> set[str]:
        return set(self._tasks.of(self.name))

    @property
    def owned(self) -> set[TopicPartition]:
        membership = self.member.membership
        return set() if membership is None else set(membership.rebalancer.owned)

    @property
    def is_due(self) -> bool:
        membership = self.member.membership
        if self.is_gone or self.is_leaving or membership is None:
            return False
        return membership.is_woken or self._clock.now_s >= self.try_at_s

    def start(self, name: str) -> None:
        """Begin something, unless it is under way."""
        membership = self.member.membership
        if name == "find starts":  # what is done for a client that has to be told something
            name = "heartbeat"
        if name in self.running or self.is_gone or (name in {"try", "renew"} and membership is None):
            return
        if name == "renew" and self._clock.now_s >= self.fetch_at_s:
            self.start("heartbeat")
        acts: dict[str, Callable[[], object]] = {
            "try": self._try,
            "renew": lambda: membership is None or membership.renew_lease(),
            "heartbeat": self._heartbeat,
            "nap": self.nap,
            "join": self._join,
            "commit": lambda: self._commit(list(self.held)),
            "leave": self._leave,
            "expel": self._expel,
        }
        act = acts[name]
        self._tasks.start(self.name, name, lambda: (act(), None)[1], hash(self.position))

    def _try(self) -> None:
        membership = self.member.membership
        assert membership is not None
        self.try_at_s = _NEVER_S
        wait_s = membership.rebalance()
        # The audit of every ten seconds is left out, so that nothing may depend on it.
        self.try_at_s = _NEVER_S if wait_s == AUDIT_INTERVAL_S else self._clock.now_s + wait_s

    def _is_overdue(self, _member: GroupMember) -> None:
        if not self.is_leaving:
            raise Violation(f"the client of {self.name} was never told that it is to join again")
        raise Violation(f"{self.name} waits for its client, which is gone")

    def _expel(self) -> None:
        """Have the client count as gone, which still has what it had until it hears of that."""
        self._referee.excused.update(self.held)
        self._end()

    def _leave(self) -> None:
        self._commit(list(self.held))
        self.held.clear()
        self._end()

    def _end(self) -> None:
        self.is_leaving = True
        self._referee.leaving.add(self.name)
        self.member.leave()
        self.is_gone = self.has_left = True  # the session goes on: other members of the gateway use it
        self.held.clear()

    # What the client does --------------------------------------------------------------------------------------------

    @property
    def lacks_start(self) -> bool:
        """Whether the client has something to hear with its next heartbeat."""
        if self.is_gone or self.is_leaving or "join" in self.running:
            return False
        return self._joins or self.member.state.heartbeat(self._generation) is not ErrorCode.NONE

    def nap(self) -> None:
        """Have its client do nothing for some time, as one that works on a message for long."""
        self.fetch_at_s = self._clock.now_s + NAP_S

    def _heartbeat(self) -> None:
        if self._clock.now_s < self.fetch_at_s:
            return
        self.fetch_at_s = self._clock.now_s + HEARTBEAT_S
        if self.lacks_start:
            self.start("join")

    def _join(self) -> None:
        self._joins = True
        if not self._keeps:
            self._give_up(list(self.held))
        member = self.member
        join = member.begin_join()
        member.state.join(set(self.held))
        member.note_change()
        member.wanted_topics = (TOPIC,)
        try:
            member.follow_wishes()
            member.await_share(join, _TIMEOUTS.rebalance_s)
            self._generation = member.state.answer_join()
            self._told_in = member.membership.rebalancer.session if member.membership is not None else None
            share = member.state.sync(self._generation)
            if isinstance(share, ErrorCode):
                return
            gone = self.held.keys() - share
            self._give_up(gone)
            for where in sorted(share - self.held.keys()):
                committed = self._offsets.read(GROUP, where)
                self.held[where] = 0 if committed is None else committed.offset
        except ZkError:
            return
        self._joins = bool(gone)

    def _give_up(self, partitions: Collection[TopicPartition]) -> None:
        self._commit(partitions)
        for where in partitions:
            self.held.pop(where, None)

    def _commit(self, partitions: Collection[TopicPartition]) -> None:
        commits = {where: GroupCommit(self.held[where]) for where in partitions if where in self.held}
        failed = set(commits)
        if not self.member.state.may_commit(self._generation):
            try:
                outcomes = self.member.commit(commits)
                failed = {where for where, failure in outcomes.items() if failure is not None}
            except ZkError:
                pass
        self._referee.excused.update(failed)

    def read(self) -> bool:
        """Handle the next message, which counts as consumed at once; False when there is none."""
        for where, offset in sorted(self.held.items(), key=lambda item: item[1]):  # of all its partitions in turn
            if offset < self._referee.ends[where]:
                session_id = self._session_of(where)
                self._referee.hand_out(where, offset, session_id, f"{self.name}-0")
                self.held[where] = self._referee.after(where, offset)
                self._referee.consume(where, offset, self.held[where], session_id)
                return True
        return False

    def work(self) -> None:
        """Handle all that there is, and commit."""
        while self.read():
            pass
        self.start("commit")

    def _session_of(self, where: TopicPartition) -> int | None:
        """Return the session in which the client's partition is certainly its own; None if there may be another."""
        membership = self.member.membership
        session = None if membership is None else membership.rebalancer.session
        if membership is None or session is None or session is not self._told_in or self.is_leaving:
            return None
        if session.lease.until_s <= self._clock.now_s:
            return None
        if where not in membership.rebalancer.owned:
            if (where, session.session_id) in self._referee.lost_by_force:
                return None
            raise Violation(f"the client of {self.name} has {where}, which was given up without its knowledge")
        return session.session_id

    def take_part(self, *, takes_part: bool) -> None:
        """Do nothing: whether it comes back is seen by its heartbeats."""

    # What happens to it ----------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """End the gateway's process and its session."""
        self.is_gone = True
        self.held.clear()
        self._tasks.drop(self.name)
        self.client.close()

    def lose_lease(self) -> None:
        """Have the lease run out, as after a silence."""
        self.client.connect_asked = (0, 0.0)
        membership = self.member.membership
        session = None if membership is None else membership.rebalancer.session
        if session is not None and session.session_id == self.client.last_session:
            lease = session.lease
            lease.until_s = min(lease.until_s, self._clock.now_s)
            lease.answered.clear()  # type: ignore[attr-defined]

    def check(self) -> None:
        """See that its client has what is its own, once nothing more happens; or that nothing is left of it."""
        if self.has_left and f"{IDS}{self.name}" in self.client.ensemble.leader.tree:
            raise Violation(f"{self.name} has left, and is still a member")
        if not self.is_gone and set(self.held) != self.owned:
            raise Violation(f"the client of {self.name} has {sorted(self.held)} of {sorted(self.owned)} at rest")

    @property
    def position(self) -> Hashable:
        """All that its further behaviour depends on, times from now, as far as its own parts know it."""
        now_s, state, membership = self._clock.now_s, self.member.state, self.member.membership
        rebalancer = None if membership is None else membership.rebalancer
        return (
            (self.is_gone, self.is_leaving, self._joins, self._generation),
            (self.try_at_s - now_s, self.fetch_at_s - now_s),
            tuple(self.held.items()),
            (frozenset(state.share), frozenset(state.releasing), frozenset(state.held), state.generation),
            rebalancer
            and (
                membership is not None and membership.is_woken,
                tuple(
                    (where, owned.version, owned.committed_offset, owned.unanswered_offset, owned.explicit_offset)
                    for where, owned in rebalancer.owned.items()
                ),
                tuple(rebalancer.uncommitted),
                tuple(rebalancer.claimed.items()),
                tuple(rebalancer.left.items()),
                rebalancer.session and (rebalancer.session.session_id, rebalancer.session.lease.until_s - now_s),
            ),
        )


class _TaskThreads:
    """Threads of a membership: the model itself starts their turns."""

    def __init__(self, tasks: Tasks, member: MemberOfToday) -> None:
        self._tasks = tasks
        self._member = member

    def new_event(self) -> TaskEvent:
        return TaskEvent(self._tasks)

    def new_lock(self) -> TaskLock:
        return TaskLock(self._tasks)

    def start(self, run: Callable[[], None], name: str) -> _Turns:
        del run
        if not name.endswith(" rebalance"):
            return _Turns(self._tasks, self._member.name, "renew")
        self._member.try_at_s = 0.0  # its first turn is due at once
        return _Turns(self._tasks, self._member.name, "try")

    def is_this(self, thread: object) -> bool:
        del thread
        return False


class _Turns:
    """The turns of one such thread."""

    def __init__(self, tasks: Tasks, member: str, name: str) -> None:
        self._tasks = tasks
        self._key = member, name

    def join(self, timeout: float | None = None) -> None:
        self._tasks.wait(lambda: not self.is_alive(), timeout)

    def is_alive(self) -> bool:
        return self._key in self._tasks.by_key
