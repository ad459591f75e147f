"""Who may change the znodes that are there already: made by 0.7's clients, or before a user was named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kazoo.security import ACL, Permissions

from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zk.client import ZkClient

_OF_ALL = Permissions.ALL & ~Permissions.READ


def is_open_to_all(acls: Iterable[ACL]) -> bool:
    """Return whether anybody may change a znode, or what is right below it."""
    return any(acl.id.scheme == "world" and acl.perms & _OF_ALL for acl in acls)


def find_open(client: ZkClient) -> list[str]:
    """Return the paths of all znodes, the chroot's own included, that anybody may change, in order."""
    return [path for path, acls in Nodes(client).acls_of_many(_all_paths(client)).items() if is_open_to_all(acls)]


def protect(client: ZkClient) -> Sequence[str]:
    """Give those that `find_open` finds the ACL of the client's user, and return their paths.

    Raises NotAllowed when the client has no user, and what one of them raised once all were tried.
    """
    open_paths = find_open(client)
    Nodes(client).set_acls(open_paths)
    return open_paths


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
