"""How a group comes to rest, and what must hold then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.models.group.member_of_today import MemberOfToday
from tests.models.group.referee import IDS, OFFSETS, OWNERS, TOPIC, Violation
from zk.cluster import TopicPartition

if TYPE_CHECKING:
    from tests.models.group.group import GroupModel, Member

_ROUNDS = 200


def settle(group: GroupModel) -> None:
    """Mend everything, let no more events happen, and see that the group comes to rest and loses nothing."""
    _mend(group)
    _come_to_rest(group)
    away = [member for member in _alive(group) if not member.takes_part]
    if away:
        for member in away:
            member.take_part(takes_part=True)
        _come_to_rest(group)
    for _ in range(_ROUNDS):
        if not _alive(group) or not (left := _undone(group)):
            break
        if not _read_once(group):
            group.second()
            group.go_on()
        for member in _alive(group):
            member.start("commit")
        while _round(group):
            pass
    else:
        raise Violation(f"never came to an end: {left}")
    _check_at_rest(group)


def _come_to_rest(group: GroupModel) -> None:
    for _ in range(_ROUNDS):
        if not _round(group):
            break
    else:
        raise Violation("the group does not come to rest")
    _check_at_rest(group)


def _alive(group: GroupModel) -> list[Member]:
    return [member for member in group.members.values() if not member.is_gone]


def _mend(group: GroupModel) -> None:
    for number in range(len(group.ensemble.servers)):
        group.ensemble.cut(number, is_cut=False)
        group.ensemble.lag(number, lags=False)
    for member in _alive(group):
        client = member.client
        client.is_frozen_in = client.is_frozen_out = client.is_stopped = False
        client.receive()
        if not client.is_connected:
            client.connect(client.server)
    group.tasks.stopped.clear()


def _round(group: GroupModel) -> bool:
    """Let each go on; when nobody can, let a second pass if somebody waits for it. False when nobody does."""
    is_busy = False
    for member in _alive(group):
        client = member.client
        if not client.is_connected:
            client.connect(client.server)
        client.call_back()
        if member.is_due and "try" not in member.running:
            member.start("try")
            is_busy = True
        if member.in_hand is not None and member.running:
            member.read()
        while client.can_be_served:
            is_busy = True
            client.serve()
            group.tasks.run_ready()
    group.go_on()
    if not is_busy and any(
        member.running or member.lacks_start or member.try_at_s < float("inf") for member in _alive(group)
    ):
        is_busy = True
        group.second()
        group.go_on()
    return is_busy


def _check_at_rest(group: GroupModel) -> None:
    tree = group.ensemble.leader.tree
    owners = {
        TopicPartition(TOPIC, *map(int, path[len(OWNERS) :].split("-"))): (node.data or b"").decode()
        for path, node in tree.items()
        if path.startswith(OWNERS)
    }
    if owners != group.referee.division():
        raise Violation(f"owners at rest are {owners}, not {group.referee.division()}")
    for member in group.members.values():
        if member.is_gone:
            if isinstance(member, MemberOfToday):
                member.check()
            continue
        mine = {where for where, stream in owners.items() if stream == f"{member.name}-0"}
        if member.owned != mine:
            raise Violation(f"{member.name} believes to own {member.owned}, not {mine}")
        if (f"{IDS}{member.name}" in tree) is not member.takes_part:
            raise Violation(f"{member.name} is {'no ' if member.takes_part else 'a '}member at rest")
        member.check()


def _undone(group: GroupModel) -> list[object]:
    """List what is left to consume and to commit of the partitions that there are."""
    live = group.referee.division()
    committed = {where: group.ensemble.leader.tree.get(f"{OFFSETS}{where.znode_name}") for where in live}
    ends = group.referee.ends
    return [
        *(key for key in group.referee.unconsumed() if key.where in live),
        *((where, node) for where, node in committed.items() if node is None or int(node.data or b"") != ends[where]),
    ]


def _read_once(group: GroupModel) -> bool:
    """Let every application come back once; say whether one was given a message."""
    return sum([member.read() for member in _alive(group)]) > 0
