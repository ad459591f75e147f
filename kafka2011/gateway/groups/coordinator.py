"""The coordinator of groups, as today's clients know one: it only keeps their registrations, and decides nothing.

Algorithm 1 decides whose each partition is, for members of both protocols (paper, section 3.2).
"""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, NamedTuple

import gevent

from kafka2011.gateway.groups.greenlets import Greenlets
from kafka2011.gateway.groups.member import GroupMember, NotOwnedError, Timeouts
from kafka2011.gateway.protocol.errors import ErrorCode
from zk.clock import SYSTEM_CLOCK
from zk.errors import ZkError
from zk.gateway_members import GatewayMember

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zk.client import ZkClient
    from zk.cluster import TopicPartition
    from zk.commit_notes import GroupCommit

logger = logging.getLogger(__name__)

LOOK_S = 0.25
"""How often it is looked which clients have been silent for too long."""
LEAVE_WAIT_S = 3.0
"""How long a client that leaves waits until its group is without it."""
MOST_MEMBERS = 10_000
"""Of all groups of this gateway; and as many clients may have been told an id and not have come with it yet."""
STOP_S = 5.0


class Joining(NamedTuple):
    """What a client says when it joins: who it is, what it wants, and which partitions it still has.

    `member_id` is empty at first. `needs_id`: it must come again with the id that it is given. `protocol` is the name
    of its assignment protocol.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    timeouts: Timeouts
    topics: tuple[str, ...]
    owned: frozenset[TopicPartition]
    needs_id: bool
    protocol: str = ""


class Joined(NamedTuple):
    """What it is answered."""

    error: ErrorCode
    member_id: str
    generation: int = -1


class Coordinator:
    """The members that today's clients are in the groups of this gateway, by group and member id."""

    def __init__(self, client: ZkClient, zk_connect: str) -> None:
        self._client = client
        self._zk_connect = zk_connect
        self._members: dict[str, dict[str, GroupMember]] = {}
        self._pending: dict[str, float] = {}  # ids that were given to clients, until when they may join with them
        self._watcher: gevent.Greenlet[..., None] | None = None
        self._is_ending = False

    def start(self) -> None:
        """Look after silent clients from now on."""
        self._watcher = gevent.spawn(self._watch)

    def end_joins(self) -> None:
        """Answer every client that waits for its share, now and from now on, so that it looks for another gateway."""
        self._is_ending = True
        for member in self.members():
            member.end_join()

    def stop(self) -> None:
        """Have all members leave."""
        if self._watcher is not None:
            self._watcher.kill()
        leaving = [self._remove(member) for member in self.members()]
        gevent.joinall(leaving, STOP_S)
        gevent.killall(leaving)  # what ZooKeeper has not been told ends with the session

    @property
    def groups(self) -> list[str]:
        """The groups that have members here."""
        return list(self._members)

    def members(self, group: str | None = None) -> list[GroupMember]:
        """Return the members of a group, or of all groups."""
        groups = self._members.values() if group is None else [self._members.get(group, {})]
        return [member for members in groups for member in members.values()]

    def drop(self, group: str) -> None:
        """Have all members of a group leave: another gateway coordinates it."""
        for member in self.members(group):
            self._remove(member)

    # What clients ask for

    def join(self, group: str, joining: Joining) -> Joined:
        """Let a client join or join again, and wait for its share for as long as its rebalance timeout."""
        if self._is_ending:
            return Joined(ErrorCode.NOT_COORDINATOR, joining.member_id)
        found = self._find_or_register(group, joining)
        if not isinstance(found, GroupMember):
            return found
        member = found
        member.last_seen_s = SYSTEM_CLOCK.monotonic_s()
        join = member.begin_join()
        member.who = member.who._replace(protocol=joining.protocol)
        try:
            member.state.join(joining.owned)
            member.note_change()
            member.wanted_topics = joining.topics
            member.follow_wishes()
            member.await_share(join, joining.timeouts.rebalance_s)
            is_newest = member.joining == join
        finally:
            if member.joining == join:
                member.end_join()
            member.last_seen_s = SYSTEM_CLOCK.monotonic_s()
        if member.state.is_gone:
            return Joined(ErrorCode.UNKNOWN_MEMBER_ID, "")
        if not is_newest:
            return Joined(ErrorCode.NOT_COORDINATOR, member.who.member_id)
        return Joined(ErrorCode.NONE, member.who.member_id, member.state.answer_join())

    def sync(
        self,
        group: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        has_number: Callable[[TopicPartition], bool],
    ) -> frozenset[TopicPartition] | ErrorCode:
        """Return a client's share, as far as its partitions have numbers for clients."""
        member = self._find(group, member_id, instance_id)
        if isinstance(member, ErrorCode):
            return member
        follows = member.wanted_topics == member.topics  # else the client must first give up what it has
        return member.state.sync(generation, lambda where: follows and has_number(where))

    def heartbeat(self, group: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Note that a client lives, and say whether it is to join again."""
        member = self._find(group, member_id, instance_id)
        return member if isinstance(member, ErrorCode) else member.state.heartbeat(generation)

    def leave(self, group: str, member_id: str, instance_id: str | None) -> ErrorCode:
        """Let a client leave, or whoever has that instance id, and wait until the group is without it."""
        if not member_id and instance_id is not None:
            member: GroupMember | ErrorCode | None = self._of_instance(group, instance_id)
            if member is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        else:
            member = self._find(group, member_id, instance_id)
        if isinstance(member, ErrorCode):
            return member
        assert member is not None
        # A client that has closed may then ask for the group's deletion. Without ZooKeeper this member leaves later.
        self._remove(member).join(LEAVE_WAIT_S)
        return ErrorCode.NONE

    def commit(
        self,
        group: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        commits: Mapping[TopicPartition, GroupCommit],
    ) -> ErrorCode | dict[TopicPartition, ErrorCode]:
        """Commit places in logs for a client; return what became of each, or why nothing is committed."""
        member = self._find(group, member_id, instance_id)
        if isinstance(member, ErrorCode):
            return member
        error = member.state.may_commit(generation)
        if error:
            return error
        outcomes: dict[TopicPartition, ErrorCode] = {}
        for where, failure in member.commit(commits).items():
            if failure is None:
                outcomes[where] = ErrorCode.NONE
            elif isinstance(failure, NotOwnedError):
                outcomes[where] = ErrorCode.ILLEGAL_GENERATION
            else:
                logger.warning("%s: %s is not committed for now: %s", member.consumer_id, where, failure)
                outcomes[where] = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return outcomes

    # Inside

    def _find(self, group: str, member_id: str, instance_id: str | None) -> GroupMember | ErrorCode:
        member = self._members.get(group, {}).get(member_id)
        if member is None:
            if instance_id is not None and self._of_instance(group, instance_id) is not None:
                return ErrorCode.FENCED_INSTANCE_ID
            return ErrorCode.UNKNOWN_MEMBER_ID
        member.last_seen_s = SYSTEM_CLOCK.monotonic_s()
        return member

    def _of_instance(self, group: str, instance_id: str) -> GroupMember | None:
        return next((member for member in self.members(group) if member.who.instance_id == instance_id), None)

    def _find_or_register(self, group: str, joining: Joining) -> GroupMember | Joined:
        member_id, instance_id = joining.member_id, joining.instance_id
        if member_id:
            if self._pending.pop(member_id, None) is None or member_id in self._members.get(group, {}):
                found = self._find(group, member_id, instance_id)
                return Joined(found, member_id) if isinstance(found, ErrorCode) else found
        else:
            member_id = f"{joining.client_id}-{uuid.uuid4()}"
            if instance_id is None and joining.needs_id:
                self._forget_pending()
                if len(self._pending) >= MOST_MEMBERS:
                    return Joined(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
                self._pending[member_id] = SYSTEM_CLOCK.monotonic_s() + joining.timeouts.session_s
                return Joined(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        return self._register(group, member_id, joining)

    def _register(self, group: str, member_id: str, joining: Joining) -> GroupMember | Joined:
        who = GatewayMember(member_id, joining.client_id, joining.host, joining.instance_id, joining.protocol)
        known = None if joining.instance_id is None else self._of_instance(group, joining.instance_id)
        if known is not None:  # another process of a static member: its share stays
            del self._members[group][known.who.member_id]
            known.who = who
            known.state.restart()
            self._members[group][member_id] = known
            return known
        if len(self.members()) >= MOST_MEMBERS:
            logger.warning("group %s: there are %d members already", group, MOST_MEMBERS)
            return Joined(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        name = joining.instance_id or member_id
        consumer_id = f"{group}_{_as_component(name)}"
        member = GroupMember(
            self._client, self._zk_connect, group, consumer_id, who, joining.timeouts, self._expel, Greenlets()
        )
        self._members.setdefault(group, {})[member_id] = member
        logger.info("group %s: %s of %s joins as %s", group, joining.client_id, joining.host, consumer_id)
        return member

    def _forget_pending(self) -> None:
        now_s = SYSTEM_CLOCK.monotonic_s()
        self._pending = {member_id: until_s for member_id, until_s in self._pending.items() if until_s > now_s}

    def _expel(self, member: GroupMember) -> None:
        if member.state.is_gone:
            return
        logger.warning(
            "%s has not joined again within %.1f s: it counts as gone", member.consumer_id, member.timeouts.rebalance_s
        )
        self._remove(member)

    def _remove(self, member: GroupMember) -> gevent.Greenlet[..., None]:
        members = self._members.get(member.group, {})
        if members.get(member.who.member_id) is member:
            del members[member.who.member_id]
            if not members:
                self._members.pop(member.group, None)
        member.state.leave()
        return gevent.spawn(_leave, member)

    def _watch(self) -> None:
        while True:
            gevent.sleep(LOOK_S)
            now_s = SYSTEM_CLOCK.monotonic_s()
            for member in self.members():
                if not member.joining and now_s - member.last_seen_s > member.timeouts.session_s:
                    logger.warning(
                        "%s has been silent for %.1f s: it counts as gone",
                        member.consumer_id,
                        member.timeouts.session_s,
                    )
                    self._remove(member)


def _leave(member: GroupMember) -> None:
    try:
        member.leave()
    except ZkError as error:
        logger.warning("%s leaves when the gateway's session ends: %s", member.consumer_id, error)


def _as_component(name: str) -> str:
    """Return a name that may stand in a znode's path."""
    return "".join(c if c.isprintable() and c not in "/ " else "_" for c in name)[:200]


def unique(topics: Iterable[str]) -> tuple[str, ...]:
    """Return topics sorted, each once: the same for the same subscription."""
    return tuple(sorted(set(topics)))
