"""ZooKeeper as replicas use it: writes on a version, answers that are lost, servers that lag, sessions that end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from kafka2011.replica.lineage import SeenState
    from kafka2011.replica.state import ReadableFloor, Replica, ReplicaState

ANY_VERSION = -1


class RefusedError(Exception):
    """A transaction was refused: another version, or a node that is there."""


class NotAnsweredError(Exception):
    """Nobody knows whether a transaction was, or will be, done."""


class SessionEndedError(Exception):
    """The session has ended."""


@dataclass(frozen=True)
class Nodes:
    """All znodes at one time. Those that are ephemeral are with the session that made them."""

    state: ReplicaState
    version: int = 0
    leader: tuple[Replica, int] | None = None
    broker: tuple[str, int] | None = None
    members: tuple[tuple[Replica, int, SeenState], ...] = ()
    floor: ReadableFloor | None = None

    def without(self, session: int) -> Nodes:
        """Return what is left when a session ends."""
        return replace(
            self,
            leader=None if self.leader is not None and self.leader[1] == session else self.leader,
            broker=None if self.broker is not None and self.broker[1] == session else self.broker,
            members=tuple(each for each in self.members if each[1] != session),
        )

    @property
    def seen(self) -> dict[Replica, SeenState]:
        """The newest state that each member has seen, as of when it became one."""
        return {replica: seen for replica, _, seen in self.members}

    @property
    def sessions(self) -> dict[Replica, int]:
        """The session of each member."""
        return {replica: session for replica, session, _ in self.members}

    def write(self, state: ReplicaState, version: int) -> Nodes:
        """Return them with another state. Raises RefusedError."""
        if version not in {self.version, ANY_VERSION}:
            raise RefusedError
        return replace(self, state=state, version=self.version + 1)


class Sent:
    """A transaction that was sent; `outcome` is None until it is "done", "refused" or "lost"."""

    def __init__(self, session: int, change: Callable[[Nodes], Nodes]) -> None:
        self.session = session
        self.change = change
        self.outcome: str | None = None


@dataclass
class Registry:
    """All that ever was, the transactions that are under way, and the sessions that live."""

    chance: Random
    history: list[Nodes]
    lost_answers: float
    lag: float
    sessions: set[int] = field(default_factory=set)
    _under_way: list[Sent] = field(default_factory=list)
    _seen: dict[int, int] = field(default_factory=dict)  # the newest that a session has seen
    _last_session: int = 0
    _restored_at: int = 0

    @property
    def now(self) -> Nodes:
        return self.history[-1]

    def new_session(self) -> int:
        self._last_session += 1
        self.sessions.add(self._last_session)
        self._seen[self._last_session] = self._restored_at
        return self._last_session

    @property
    def is_busy(self) -> bool:
        """Whether anything is under way."""
        return bool(self._under_way)

    def end(self, session: int) -> None:
        """End a session, whoever thinks it lives: nothing of it that is under way is done any more."""
        self.sessions.discard(session)
        for sent in self._take(session):
            sent.outcome = "lost"
        self.history.append(self.now.without(session))

    def go_back(self, nodes: Nodes) -> None:
        """Have all be what it was, and nobody be connected."""
        for session in sorted(self.sessions):
            self.end(session)
        self.history.append(Nodes(nodes.state, nodes.version, floor=nodes.floor))
        self._restored_at = len(self.history) - 1

    def transact(self, session: int, change: Callable[[Nodes], Nodes]) -> Nodes:
        """Make a change, and return what there is then. Raises RefusedError, NotAnsweredError and SessionEndedError."""
        sent = self.send(session, change)
        if self.chance.random() < self.lost_answers:
            raise NotAnsweredError
        self._resolve(session, lost=0)
        if sent.outcome == "refused":
            raise RefusedError
        self._seen[session] = len(self.history) - 1
        return self.now

    def send(self, session: int, change: Callable[[Nodes], Nodes]) -> Sent:
        """Send a transaction, which is done at any time later, or never. Raises SessionEndedError."""
        if session not in self.sessions:
            raise SessionEndedError
        sent = Sent(session, change)
        self._under_way.append(sent)
        return sent

    def go_on(self) -> None:
        """Have one session's first transaction that is under way done, or lost."""
        if self._under_way:
            session = self.chance.choice(self._under_way).session
            first = next(each for each in self._under_way if each.session == session)
            self._under_way.remove(first)
            self._decide(first, lost=0.3)

    def _take(self, session: int) -> list[Sent]:
        mine = [each for each in self._under_way if each.session == session]
        self._under_way = [each for each in self._under_way if each.session != session]
        return mine

    def _resolve(self, session: int, *, lost: float = 0.3) -> None:
        under_way = self._take(session)
        for each in under_way:
            self._decide(each, lost=lost if each is under_way[-1] else 0.3)

    def _decide(self, sent: Sent, *, lost: float) -> None:
        if self.chance.random() < lost:
            sent.outcome = "lost"
            return
        try:
            self.history.append(sent.change(self.now))
        except RefusedError:
            sent.outcome = "refused"
        else:
            sent.outcome = "done"

    def read(self, session: int, *, after_sync: bool) -> Nodes:
        """Read at a server that may lag, unless a sync went before. Raises SessionEndedError."""
        if session not in self.sessions:
            raise SessionEndedError
        if after_sync:
            self._resolve(session)
        if after_sync or self.chance.random() >= self.lag:
            self._seen[session] = len(self.history) - 1
        else:
            newest = len(self.history)
            self._seen[session] = self.chance.randrange(max(self._seen[session], newest - 6), newest)
        return self.history[self._seen[session]]

    def is_certain(self, members: Callable[[ReplicaState], bool]) -> bool:
        """Say whether something is so of the state, whatever of what is under way is done."""
        return members(self.now.state) and not self.is_busy
