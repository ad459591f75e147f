"""Ephemeral znodes of this session: claim, hold, release.

A create whose answer was lost may have happened, so "exists already" says nothing by itself: the session that owns
the node decides. The same text under another session is not ours: most often it is our own node from the previous
session, which will go, and with it whatever was built on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zk.clock import SYSTEM_CLOCK
from zk.errors import NodeExists, NodeHeld, SessionExpired, ZkError, ZkUnavailable, raise_first
from zk.nodes import Creation, Write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from zk.clock import Clock
    from zk.nodes import Check, Node, Nodes

    IsOurs = Callable[[Node], bool]

_CLAIMS = 5
"""How often a node may vanish between create and read before that is an error."""
_LOOK_AGAIN_S = 1.0
"""A watch can be lost with its connection, so a waiting holder also looks by itself."""


def claim(nodes: Nodes, path: str, data: bytes) -> None:
    """Make an ephemeral node of ours hold `data`, in one attempt, in one session. Raises NodeHeld."""
    raise_first(claim_many(nodes, {path: data}).values())


def claim_while(nodes: Nodes, path: str, data: bytes, check: Check) -> None:
    """Make an ephemeral node of ours hold `data` as long as another znode is at a version, in one step.

    Raises NodeHeld, and VersionConflict or NoNode for that other znode.
    """
    bound = nodes.within(nodes.session_id)
    try:
        bound.transact([check, Creation(path, data, ephemeral=True)])
    except NodeExists:
        held = bound.get(path)
        if held is None or held.owner != bound.session_id:
            raise NodeHeld(path, *((None, 0) if held is None else (held.data, held.owner))) from None
        bound.transact([check, Write(path, data, held.version)])


def claim_many(
    nodes: Nodes, data_by_path: Mapping[str, bytes], is_ours: IsOurs = lambda _: True
) -> dict[str, NodeHeld]:
    """Make ephemeral nodes of ours, pipelined, and return those that another holds.

    Another session, or one in this session whose nodes are not ours as `is_ours` says. Raises the first error once all
    were tried: each may be ours by then.
    """
    bound = nodes.within(nodes.session_id)
    held: dict[str, NodeHeld] = {}
    left = dict(data_by_path)
    for _ in range(_CLAIMS):
        outcomes = bound.create_many(left, ephemeral=True)
        raise_first(outcomes.values(), but=NodeExists)
        left = {path: left[path] for path, outcome in outcomes.items() if outcome is not None}
        if not left:
            return held
        different: list[Write] = []
        for path, node in bound.get_many(left).items():
            data = left.pop(path)  # the others' session ended between the two calls
            if node.owner != bound.session_id or not is_ours(node):
                held[path] = NodeHeld(path, node.data, node.owner)
            elif node.data != data:
                different.append(Write(path, data, node.version))
        raise_first(bound.set_many(different).values())
        if not left:
            return held
    raise ZkError(f"{', '.join(left)}: came and went {_CLAIMS} times while it was claimed")


def hold(nodes: Nodes, path: str, data: bytes, wait_ms: int, clock: Clock = SYSTEM_CLOCK) -> None:
    """Claim a node, waiting up to `wait_ms` for another's to go and for ZooKeeper to come back.

    Raises NodeHeld, naming the holder, or ZkUnavailable, whichever was the last obstacle; SessionExpired at once, since
    the registration must then begin anew.
    """
    deadline_s = clock.monotonic_s() + wait_ms / 1000
    changed = nodes.client.handler.event_object()

    def on_change(_event: object) -> None:
        changed.set()

    while True:
        changed.clear()
        try:
            claim(nodes, path, data)
        except SessionExpired:
            raise
        except (NodeHeld, ZkUnavailable) as error:
            if clock.monotonic_s() >= deadline_s:
                raise
            if isinstance(error, NodeHeld) and not _watched(nodes, path, on_change):
                continue
        else:
            return
        changed.wait(min(_LOOK_AGAIN_S, max(deadline_s - clock.monotonic_s(), 0)))


def _watched(nodes: Nodes, path: str, on_change: Callable[[object], None]) -> bool:
    """Set a watch on a node; False when it is already gone."""
    try:
        return nodes.exists(path, on_change)
    except ZkUnavailable:
        return True


def release(nodes: Nodes, path: str) -> bool:
    """Delete a node if it belongs to this session; False, with nothing deleted, when it does not or is absent."""
    return bool(release_many(nodes, [path]))


def release_many(nodes: Nodes, wanted: Iterable[str], is_ours: IsOurs = lambda _: True) -> AbstractSet[str]:
    """Delete, pipelined, those nodes that belong to this session and are ours, and return which did.

    Raises the first error once all were tried: each may be gone by then.
    """
    bound = nodes.within(nodes.session_id)
    found = bound.get_many(wanted).items()
    return bound.delete_many(path for path, node in found if node.owner == bound.session_id and is_ours(node))
