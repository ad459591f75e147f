"""The consumer registry: which members a group has, and what they subscribe to (paper, section 3.2)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from zk import ephemeral, paths
from zk.cluster import text_from
from zk.errors import GroupInUse, MalformedNode
from zk.malformed import MalformedNodes
from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zk.client import ZkClient
    from zk.nodes import Watch

logger = logging.getLogger(__name__)


class ConsumerRegistry:
    """Reads and writes /consumers/{group}/ids and assignment. What they say is plain text here.

    With `session_id`, every call goes out in that session or raises NotConnected. Nothing is retried.
    Every method raises ZkUnavailable when ZooKeeper does not answer.
    """

    def __init__(self, client: ZkClient, session_id: int | None = None) -> None:
        self._nodes = Nodes(client, session_id)
        self.malformed = MalformedNodes(logger)

    def ensure_group(self, group: str) -> None:
        """Create a group's persistent parents, so that they can be watched."""
        self._nodes.ensure_persistent(paths.consumer_ids(group))
        self._nodes.ensure_persistent(paths.group_owners(group))
        self._nodes.ensure_persistent(paths.group_offsets(group))

    def register(self, group: str, consumer_id: str, subscription: str, rule: str | None = None) -> None:
        """Register a member with its subscription, in one write: 0.7 members stall on an empty one.

        `rule` is what it says of how to divide, which is there before it is a member. Raises NodeHeld when another
        session has that consumer id.
        """
        if not subscription:
            raise ValueError(f"consumer {consumer_id}: an empty subscription would stall the group's other members")
        if rule is not None:
            self._nodes.ensure_persistent(paths.assignments(group))
            ephemeral.claim(self._nodes, paths.assignment(group, consumer_id), rule.encode())
        ephemeral.claim(self._nodes, paths.consumer(group, consumer_id), subscription.encode())
        logger.info("Registered consumer %s of group %s: %s", consumer_id, group, subscription)

    def deregister(self, group: str, consumer_id: str) -> bool:
        """Remove a member that this session registered; False when it was not there or belongs to another."""
        is_removed = ephemeral.release(self._nodes, paths.consumer(group, consumer_id))
        # Only then: others would take a member that says nothing for one that divides as 0.7 does.
        ephemeral.release(self._nodes, paths.assignment(group, consumer_id))
        return is_removed

    def members(self, group: str, watch: Watch | None = None) -> list[str]:
        """List the ids of a group's members, sorted; empty for an unknown group."""
        return self._nodes.children(paths.consumer_ids(group), watch)

    def members_of_many(self, groups: Iterable[str]) -> dict[str, list[str]]:
        """Return the ids of the members of many groups, pipelined, by group."""
        by_path = {paths.consumer_ids(group): group for group in groups}
        return {by_path[path]: names for path, names in self._nodes.children_of_many(by_path).items()}

    def subscriptions(self, group: str) -> dict[str, str]:
        """Return what each member subscribes to, by consumer id. Nodes without text are skipped, logged and counted."""
        return self.subscriptions_of(group, self.members(group))

    def subscriptions_of(
        self, group: str, members: Iterable[str], watch_of: Callable[[str], Watch | None] = lambda _: None
    ) -> dict[str, str]:
        """Return the same for some members, each with its own watch; those that are gone are left out."""
        return self._texts({paths.consumer(group, member): member for member in members}, watch_of)

    def who_says_rules(self, group: str, watch: Watch | None = None) -> list[str]:
        """List the ids of those that say how they would divide, sorted; members or not."""
        return self._nodes.children(paths.assignments(group), watch)

    def rules_of(
        self, group: str, members: Iterable[str], watch_of: Callable[[str], Watch | None] = lambda _: None
    ) -> dict[str, str]:
        """Return what some of them say, each with its own watch; those that are gone are left out."""
        return self._texts({paths.assignment(group, member): member for member in members}, watch_of)

    def _texts(self, member_at: Mapping[str, str], watch_of: Callable[[str], Watch | None]) -> dict[str, str]:
        texts: dict[str, str] = {}
        for path, node in self._nodes.get_many(member_at, lambda path: watch_of(member_at[path])).items():
            try:
                texts[member_at[path]] = text_from(path, node.data)
            except MalformedNode as error:
                self.malformed.skip(error)
        return texts

    def groups(self, watch: Watch | None = None) -> list[str]:
        """List all groups that ever were, sorted."""
        return self._nodes.children(paths.CONSUMERS, watch)

    def delete_group(self, group: str) -> None:
        """Delete a group with its offsets, and what gateways keep of it. Raises GroupInUse while it has members."""
        members = self.members(group)
        if members:
            raise GroupInUse(group, members)
        for path in (paths.group(group), paths.gateway_commits(group), paths.gateway_members(group)):
            self._nodes.delete_tree(path)
