"""Where a group stands: what its further course depends on, in one number."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

    from tests.models.group.client import ModelClient
    from tests.models.group.group import GroupModel


def position_of(group: GroupModel) -> int:
    """Hash all that the further course depends on: two groups of the same position go on in the same way."""
    now_s = group.clock.now_s
    ensemble, referee = group.ensemble, group.referee
    servers = tuple(
        (
            frozenset(server.tree.items()),
            len(ensemble.log) - server.applied,
            server.lags,
            server.is_cut,
            frozenset(server.touched),
            frozenset(
                (key, tuple(_name_of(group, each) for each in clients)) for key, clients in server.watches.items()
            ),
        )
        for server in ensemble.servers
    )
    return hash(
        (
            servers,
            tuple((session_id, expires_s - now_s) for session_id, expires_s in ensemble.expires_s.items()),
            tuple(member.position for member in group.members.values()),
            tuple(_link_position(member.client, now_s) for member in group.members.values()),
            tuple(
                (key, tuple(task.history), now_s - task.began_s, task.deadline_s - now_s)
                for key, task in group.tasks.by_key.items()
            ),
            tuple((where, frozenset(offsets)) for where, offsets in referee.consumed.items()),
            frozenset(referee.deliveries.items()),
            frozenset(referee.written_by.items()),
            frozenset(referee.positions.items()),
            frozenset(referee.excused),
            frozenset(group.left.items()),
        )
    )


def _name_of(group: GroupModel, connection: object) -> str:
    return next(name for name, member in group.members.items() if member.client is connection)


def _link_position(client: ModelClient, now_s: float) -> Hashable:
    return (
        client.server,
        client.last_session,
        client.connect_asked[1] - now_s,
        (client.is_connected, client.is_stopped, client.is_frozen_in, client.is_frozen_out),
        tuple(each.request for each in client.outbox),
        tuple((what if isinstance(what, tuple) else what.request, repr(told)) for what, told in client.inbox),
        len(client.callbacks),
        frozenset((key, len(watches)) for key, watches in client.watches.items()),
    )
