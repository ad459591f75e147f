"""Who may change the znodes that are there already: made by 0.7's clients, or before a user was named."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kazoo.security import ACL, OPEN_ACL_UNSAFE, Permissions

from zk import paths
from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zk.client import ZkClient

_OF_ALL = Permissions.ALL & ~Permissions.READ


@dataclass(frozen=True, slots=True)
class Protection:
    """Who may change what: znodes that anybody may, and those that are the user's alone, by path, in order.

    `without_user` are registrations of brokers and members that anybody may change: their processes live and have no
    user, as all of 0.7. They go with their sessions, and are not among `open_nodes`.
    """

    open_nodes: Sequence[str] = ()
    closed_nodes: Sequence[str] = ()
    without_user: Sequence[str] = ()
    shut_out: Mapping[str, str] = field(default_factory=dict)
    """Those of them that need a znode which is the user's, and the first of those."""


def is_open_to_all(acls: Iterable[ACL]) -> bool:
    """Return whether anybody may change a znode, or what is right below it."""
    return any(acl.id.scheme == "world" and acl.perms & _OF_ALL for acl in acls)


def look(client: ZkClient) -> Protection:
    """Read who may change what below the chroot, which is included."""
    found = Nodes(client).permissions_of_many(_all_paths(client))
    open_nodes, without_user, closed_nodes = [], [], []
    for path, (acls, stat) in found.items():
        if not is_open_to_all(acls):
            closed_nodes.append(path)
        elif stat.ephemeralOwner and _is_registration(path):
            without_user.append(path)
        else:
            open_nodes.append(path)
    shut_out = {}
    for registration in without_user:
        first = next((path for path in closed_nodes if _needs(registration, path)), None)
        if first is not None:
            shut_out[registration] = first
    return Protection(open_nodes, closed_nodes, without_user, shut_out)


def protect(client: ZkClient, open_paths: Sequence[str]) -> None:
    """Give znodes the ACL of the client's user.

    Raises NotAllowed when the client has no user, and what one of them raised once all were tried.
    """
    Nodes(client).set_acls(open_paths, client.default_acl)


def undo(client: ZkClient, closed_paths: Sequence[str]) -> None:
    """Let anybody change znodes again. Raises as `protect`."""
    Nodes(client).set_acls(closed_paths, OPEN_ACL_UNSAFE)


def _is_registration(path: str) -> bool:
    return paths.parent(path) in {paths.BROKER_IDS, f"{paths.CONSUMERS}/{_group_of(path)}/ids"}


def _group_of(path: str) -> str:
    return path.split("/")[2] if path.startswith(f"{paths.CONSUMERS}/") else ""


def _needs(registration: str, path: str) -> bool:
    """Say whether a broker or a member of 0.7 writes a znode, or makes some right below it."""
    group = _group_of(registration)
    below = f"{paths.CONSUMERS}/{group}" if group else paths.BROKER_TOPICS
    return path == below or path.startswith(f"{below}/")


def _all_paths(client: ZkClient) -> list[str]:
    nodes = Nodes(client)
    every_path, level = [], ["/"]
    while level:
        every_path += level
        level = [
            f"{parent.rstrip('/')}/{name}"
            for parent, names in nodes.children_of_many(level).items()
            for name in names
            if (parent, name) != ("/", "zookeeper")  # the server's own, where there is no chroot
        ]
    return every_path
