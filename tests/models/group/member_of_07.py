"""A member that behaves as Kafka 0.7.2 does, one znode after another.

It gives up everything before it claims its new share, all of it or none; reads offsets before it claims; commits
without conditions, in whatever session it has; hands out without a lease; and deletes owner nodes by their paths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tests.models.group.member import BACKOFF_S
from tests.models.group.referee import GROUP, TOPIC, divide
from zk import paths
from zk.brokers import BrokerRegistry
from zk.cluster import TopicPartition
from zk.consumers import ConsumerRegistry
from zk.errors import NodeExists, ZkError
from zk.nodes import Nodes
from zk.offsets import OffsetRegistry

if TYPE_CHECKING:
    from collections.abc import Hashable

    from tests.models.group.client import ModelClient
    from tests.models.group.referee import Referee
    from tests.models.group.tasks import Tasks
    from zk.client import ZkClient

_NEVER_S = float("inf")
_TRIES = 8  # 0.7.2 tries four times, 2 s apart, and then waits until a member or a partition comes or goes
_PATIENCE_MS = 10**9


class MemberOf07:
    """One member with one stream, of the same form as `ModelMember`."""

    is_leaving = False
    lacks_start = False
    fetch_at_s = 0.0
    in_hand = None
    takes_part = True

    def __init__(self, name: str, client: ModelClient, tasks: Tasks, referee: Referee) -> None:
        self.name = name
        self.client = client
        self.is_gone = False
        self.try_at_s = 0.0
        self.consumed: dict[TopicPartition, int] = {}  # of what it believes to own
        self._claimed: list[TopicPartition] = []
        self._is_woken = True
        self._tries = 0
        self._tasks = tasks
        self._referee = referee
        self._session_id: int | None = None
        self._seen: object = None  # what the last rebalance that succeeded had read
        zk_client = cast("ZkClient", client)
        self._consumers = ConsumerRegistry(zk_client)
        self._brokers = BrokerRegistry(zk_client)
        self._offsets = OffsetRegistry(zk_client)
        self._nodes = Nodes(zk_client)
        client.session_timeout_ms = _PATIENCE_MS  # zkclient waits for an answer as long as the connection lives
        client.add_listener(self._wake)

    def _wake(self, _event: object) -> None:
        self._is_woken = True

    def take_part(self, *, takes_part: bool) -> None:
        """Do nothing: whatever its application does, it keeps what it has."""

    @property
    def owned(self) -> set[TopicPartition]:
        return set(self.consumed)

    @property
    def running(self) -> set[str]:
        return set(self._tasks.of(self.name))

    @property
    def is_due(self) -> bool:
        return not self.is_gone and (self._is_woken or self.client.clock.now_s >= self.try_at_s)

    def start(self, name: str) -> None:
        """Begin a try or a commit, unless that is under way."""
        if name in self.running or self.is_gone or name not in {"try", "commit"}:
            return
        self._tasks.start(self.name, name, self._try if name == "try" else self._commit_quietly, hash(self.position))

    def _try(self) -> None:
        self._tries = 1 if self._is_woken else self._tries + 1
        self._is_woken, self.try_at_s = False, _NEVER_S
        try:
            is_done = self._rebalance()
        except ZkError:
            is_done = False
        if not is_done and self._tries < _TRIES:
            self.try_at_s = self.client.clock.now_s + BACKOFF_S

    def _rebalance(self) -> bool:
        session_id = self.client.session_id
        if session_id is None:
            return False
        if session_id != self._session_id:
            self.consumed.clear()
            self._claimed.clear()
            self._seen = None
            self._consumers.register(GROUP, self.name, f'{{ "{TOPIC}": 1 }}')
            self._session_id = session_id
        members = self._consumers.members(GROUP, self._wake)
        counts = self._brokers.partitions_of(TOPIC, self._wake)
        if (members, counts) == self._seen:
            return True
        self._seen = None
        self._commit()
        for where in self._claimed:
            self._nodes.delete(paths.owner(GROUP, where))
        self._claimed.clear()
        self.consumed.clear()
        shares = divide(TopicPartition.all_of(TOPIC, counts), [f"{member}-0" for member in members])
        wanted = [where for where, stream_id in shares.items() if stream_id == f"{self.name}-0"]
        starts = {where: self._start(where) for where in wanted}
        for where in wanted:
            self._claimed.append(where)
            if not self._claim(where):
                return False
        self.consumed.update(starts)
        self._seen = (members, counts)
        return True

    def _claim(self, where: TopicPartition) -> bool:
        """Make an owner node; one with our text is taken for ours. If another has it, give up what was claimed."""
        text = f"{self.name}-0".encode()
        try:
            self._nodes.create_with_parents(paths.owner(GROUP, where), text, ephemeral=True)
        except NodeExists as error:
            node = self._nodes.get(error.path)
            if node is None or node.data != text:
                self._claimed.remove(where)
                for mine in self._claimed:
                    self._nodes.delete(paths.owner(GROUP, mine))
                self._claimed.clear()
                return False
        return True

    def _start(self, where: TopicPartition) -> int:
        found = self._offsets.read(GROUP, where)
        return 0 if found is None else found.offset

    def _commit(self) -> None:
        for where, offset in list(self.consumed.items()):
            self._offsets.write(GROUP, where, offset)

    def _commit_quietly(self) -> None:
        try:
            self._commit()
        except ZkError:
            return

    def read(self) -> bool:
        """Hand out the next message, which counts as consumed at once; False when there is none."""
        for where, offset in self.consumed.items():
            if offset < self._referee.ends[where]:
                self._referee.hand_out(where, offset, None, f"{self.name}-0")
                self.consumed[where] = self._referee.after(where, offset)
                self._referee.consume(where, offset, self.consumed[where], None)
                return True
        return False

    def work(self) -> None:
        """Hand out all that there is, and commit."""
        while self.read():
            pass
        self.start("commit")

    def lose_lease(self) -> None:
        """Do nothing: it has none."""

    def check(self) -> None:
        """Do nothing: it counts nothing."""

    def kill(self) -> None:
        """End its process and its session."""
        self.is_gone = True
        self.consumed.clear()
        self._tasks.drop(self.name)
        self.client.close()

    @property
    def position(self) -> Hashable:
        return (
            self.is_gone,
            (self._is_woken, self._tries),
            self.try_at_s - self.client.clock.now_s,
            tuple(self.consumed.items()),
            tuple(self._claimed),
            self._session_id,
            repr(self._seen),
        )
