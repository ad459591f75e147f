"""What must hold at every step, whatever happens: the referee looks at each change and at each message handed out."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from kafka2011.consumer.fair_assignment import assign_fairly
from kafka2011.consumer.topic_count import TopicCount
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from tests.models.group.ensemble import Change, Ensemble

GROUP = "g"
TOPIC = "t"
IDS = f"/consumers/{GROUP}/ids/"
RULES = f"/consumers/{GROUP}/assignment/"
OWNERS = f"/consumers/{GROUP}/owners/{TOPIC}/"
OFFSETS = f"/consumers/{GROUP}/offsets/{TOPIC}/"
TOPICS = f"/brokers/topics/{TOPIC}/"


class Violation(AssertionError):  # noqa: N818 - it is named for what it is
    """Something that must hold did not."""


class Key(NamedTuple):
    """One message."""

    where: TopicPartition
    offset: int


def divide(partitions: Iterable[TopicPartition], streams: Iterable[str]) -> dict[TopicPartition, str]:
    """Say whose each partition is: both sorted as text, cut into runs, and the first streams have one more."""
    left = sorted(partitions, key=lambda where: f"{where.broker_id}-{where.partition}")
    shares: dict[TopicPartition, str] = {}
    each = sorted(streams)
    while each and left:
        size = -(-len(left) // len(each))
        shares.update(dict.fromkeys(left[:size], each.pop(0)))
        left = left[size:]
    return shares


class Referee:
    """Looks at everything. `member_of` names the member that a session is of; those `of_07` promise less."""

    def __init__(self, ensemble: Ensemble, member_of: Callable[[int], str], of_07: Collection[str]) -> None:
        self.ensemble = ensemble
        self._member_of = member_of
        self._of_07 = of_07
        ensemble.before_change = self.look
        ensemble.after_change = self.note_division
        self.offsets: dict[TopicPartition, tuple[int, ...]] = {}  # of each partition's messages
        self.ends: dict[TopicPartition, int] = {}
        self.consumed: dict[TopicPartition, set[int]] = {}
        self.deliveries: Counter[Key] = Counter()
        self.written_by: dict[TopicPartition, int] = {}  # who wrote its offset last, as its owner
        self.writer: dict[TopicPartition, int] = {}  # who wrote its offset last
        self.positions: dict[TopicPartition, tuple[int, int]] = {}  # of its owner: the session, and how far it consumed
        self.excused: set[TopicPartition] = set()  # what was consumed and not committed may come again
        self.moved: set[tuple[TopicPartition, int]] = set()  # partitions whose offset another moved under an owner
        self.lost_by_force: set[tuple[TopicPartition, int]] = set()  # owner nodes that a stranger deleted
        self.fenced_late: set[tuple[TopicPartition, int]] = set()  # of these, between a claim and the first write
        self.divisions: dict[TopicPartition, set[str]] = {}  # whose it was by the registries since it was claimed
        self.leaving: set[str] = set()  # members that may give up everything
        self.losses: Counter[str] = Counter()  # sessions that ended with partitions, by member
        self._claims: dict[tuple[TopicPartition, int], int] = {}  # in which order sessions claimed a partition

    # Changes of znodes -----------------------------------------------------------------------------------------------

    def look(self, change: Change) -> None:
        """Judge a change that the leader is about to make."""
        path, session_id = change.path, change.session_id
        if change.kind == "end":
            tree = self.ensemble.leader.tree
            owned = [_partition(each) for each in tree if each.startswith(OWNERS) and tree[each].owner == session_id]
            self.excused.update(owned)
            self.losses[self._member_of(session_id)] += bool(owned)
        elif path.startswith(OFFSETS):
            self._look_at_offset(_partition(path), int(change.data or b"0"), session_id)
        elif path.startswith(OWNERS):
            if change.kind == "delete":
                self._look_at_release(_partition(path), session_id)
            elif change.kind == "create":
                self.divisions[_partition(path)] = {self.division().get(_partition(path), "")}
                self._claims[_partition(path), session_id] = len(self._claims)

    def _look_at_offset(self, where: TopicPartition, offset: int, session_id: int) -> None:
        consumed = self.consumed.get(where, set())
        skipped = [each for each in self.offsets.get(where, ()) if each < offset and each not in consumed]
        if skipped:
            raise Violation(f"the offset {offset} of {where} skips {skipped}, which nobody consumed")
        owner = self.owner_of(where)
        node = self.ensemble.leader.tree.get(f"{OFFSETS}{where.znode_name}")
        before = None if node is None else int(node.data or b"")
        if self._is_of_07(session_id):
            self.excused.add(where)
            if owner is not None:
                self.moved.add((where, owner))  # who may put that right
        elif before == offset:
            if self.written_by.get(where) != session_id and (where, session_id) in self.lost_by_force:
                self.fenced_late.add((where, session_id))
        elif (where, session_id) not in self.fenced_late:
            latest = self.written_by.get(where, 0)
            if self._claims.get((where, session_id), -1) < self._claims.get((where, latest), -1):
                raise Violation(f"session {session_id} commits {where} over session {latest}, a later owner")
            begins = owner == session_id and latest != session_id
            if begins and before is not None and not self._may_begin_elsewhere(where, offset, session_id):
                raise Violation(f"session {session_id} begins {where} at {offset}, and {before} was committed")
        self.writer[where] = session_id
        if owner == session_id:
            self.written_by[where] = session_id

    def _may_begin_elsewhere(self, where: TopicPartition, offset: int, session_id: int) -> bool:
        """Say whether an owner may begin at another offset than the one committed: nobody else had the partition since.

        What 0.7 commits, without a fence, may be taken for one's own commit that was not answered.
        """
        writer = self.writer.get(where, 0)
        session, position = self.positions.get(where, (0, 0))
        is_own = self._is_same_member(session_id, session) and position == offset
        return (
            (where, session_id) in self.moved
            or self._is_same_member(session_id, writer)
            or (self._is_of_07(writer) and is_own)
        )

    def _look_at_release(self, where: TopicPartition, session_id: int) -> None:
        node = self.ensemble.leader.tree[f"{OWNERS}{where.znode_name}"]
        member = self._member_of(session_id)
        is_forced = not member or member in self._of_07 or (where, session_id) in self.lost_by_force
        if node.owner != session_id and not is_forced:
            raise Violation(f"session {session_id} deletes the owner node of {where}, which is {node.owner}'s")
        if node.owner != session_id:
            self.lost_by_force.add((where, node.owner))
        if node.owner != session_id or self._is_of_07(session_id):
            self.excused.add(where)
            return
        committed = self.ensemble.leader.tree.get(f"{OFFSETS}{where.znode_name}")
        session, position = self.positions.get(where, (0, 0))
        if (
            session == session_id
            and where not in self.excused
            and int((committed and committed.data) or b"0") < position
        ):
            raise Violation(f"session {session_id} releases {where} and has not committed {position}")
        stream = (node.data or b"").decode()
        if member not in self.leaving and self.divisions[where] == {stream}:
            raise Violation(f"session {session_id} releases {where}, which was never another's since it was claimed")

    def _is_of_07(self, session_id: int) -> bool:
        return self._member_of(session_id) in self._of_07

    def _is_same_member(self, session_id: int, other: int) -> bool:
        return self._member_of(session_id) == self._member_of(other)

    def owner_of(self, where: TopicPartition) -> int | None:
        """Return the session that owns a partition by what the leader knows."""
        node = self.ensemble.leader.tree.get(f"{OWNERS}{where.znode_name}")
        return None if node is None else node.owner

    # Whose what is ---------------------------------------------------------------------------------------------------

    def division(self) -> dict[TopicPartition, str]:
        """Divide the partitions of the brokers that live among the members, one stream each.

        Fairly where all members say so; with one topic, that is another division, and hardly a fairer one.
        """
        tree = self.ensemble.leader.tree
        partitions = [
            TopicPartition(TOPIC, int(path[len(TOPICS) :]), number)
            for path, node in tree.items()
            if path.startswith(TOPICS)
            for number in range(int(node.data or b"0"))
        ]
        members = [path[len(IDS) :] for path in tree if path.startswith(IDS)]
        if members and all((said := tree.get(f"{RULES}{member}")) and said.data == b"fair" for member in members):
            shares = assign_fairly(partitions, dict.fromkeys(members, TopicCount.static({TOPIC: 1})))
            return {where: stream for stream, share in shares.items() for where in share}
        return divide(partitions, [f"{member}-0" for member in members])

    def note_division(self, change: Change) -> None:
        """Note whose what is after a change of members, of what they say, or of partitions."""
        if change.kind == "end" or change.path.startswith((IDS, RULES, TOPICS)):
            shares = self.division()
            for where, seen in self.divisions.items():
                seen.add(shares.get(where, ""))

    # Messages --------------------------------------------------------------------------------------------------------

    def hand_out(self, where: TopicPartition, offset: int, session_id: int | None, stream_id: str) -> None:
        """Judge a message that is handed out."""
        node = self.ensemble.leader.tree.get(f"{OWNERS}{where.znode_name}")
        key = Key(where, offset)
        if session_id is not None and (where, session_id) not in self.lost_by_force:
            if node is None:
                raise Violation(f"{stream_id} hands out {key}, which nobody owns")
            if (node.owner, node.data) != (session_id, stream_id.encode()):
                raise Violation(f"{stream_id} of session {session_id} hands out {key}, which is {node.data!r}'s")
        if session_id is None:
            self.excused.add(where)
        elif offset in self.consumed.get(where, ()) and where not in self.excused:
            raise Violation(f"{stream_id} hands out {key} again, without a reason")
        self.deliveries[key] += 1

    def consume(self, where: TopicPartition, offset: int, next_offset: int, session_id: int | None) -> None:
        """Note that an application is done with a message; no session: the member had given its partition up."""
        self.consumed.setdefault(where, set()).add(offset)
        if session_id is None:
            self.excused.add(where)
        else:
            self.positions[where] = (session_id, next_offset)

    def after(self, where: TopicPartition, offset: int) -> int:
        """Return where whoever has handled the message at an offset goes on."""
        return min((each for each in self.offsets[where] if each > offset), default=self.ends[where])

    def unconsumed(self) -> list[Key]:
        """List the messages that nobody consumed."""
        return [
            Key(where, offset)
            for where, offsets in self.offsets.items()
            for offset in offsets
            if offset not in self.consumed.get(where, ())
        ]


def _partition(path: str) -> TopicPartition:
    broker_id, number = path.rpartition("/")[2].split("-")
    return TopicPartition(TOPIC, int(broker_id), int(number))
