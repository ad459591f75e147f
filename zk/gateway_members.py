"""Which of a group's members are today's clients, who reach it by a gateway, and what they are called there."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, NamedTuple

from zk import ephemeral, paths
from zk.cluster import text_from
from zk.errors import MalformedNode
from zk.malformed import MalformedNodes
from zk.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zk.client import ZkClient
    from zk.known_nodes import KnownNodes
    from zk.nodes import Node, Watch

logger = logging.getLogger(__name__)


class GatewayMember(NamedTuple):
    """One of today's clients: its id in the group, the id that it gave itself, and its address.

    `instance_id` is its `group.instance.id`, None without one. `protocol` names its assignment protocol; "" if an older
    gateway registered it.
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    protocol: str = ""

    @property
    def text(self) -> str:
        """The text of its znode."""
        return json.dumps(self._asdict())

    @classmethod
    def from_node(cls, path: str, data: bytes | None) -> GatewayMember:
        """Parse that text. Raises MalformedNode."""
        text = text_from(path, data)
        try:
            document = json.loads(text)
            member_id, client_id, host = (str(document[name]) for name in ("member_id", "client_id", "host"))
            instance_id, protocol = document.get("instance_id"), str(document.get("protocol", ""))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise MalformedNode(path, text, "not a member that a gateway has registered") from error
        return cls(member_id, client_id, host, None if instance_id is None else str(instance_id), protocol)


class GatewayMemberRegistry:
    """Reads and writes /gateway/members, beside /consumers/{group}/ids: 0.7's members have no node here.

    With `session_id`, every call goes out in that session or raises NotConnected. Nothing is retried. Every method
    raises ZkUnavailable when ZooKeeper does not answer.
    """

    def __init__(self, client: ZkClient, session_id: int | None = None) -> None:
        self._nodes = Nodes(client, session_id)
        self.malformed = MalformedNodes(logger)

    def register(self, group: str, consumer_id: str, member: GatewayMember) -> None:
        """Say which client a member is; best before it is a member. Raises NodeHeld for another session's."""
        ephemeral.claim(self._nodes, paths.gateway_member(group, consumer_id), member.text.encode())

    def deregister(self, group: str, consumer_id: str) -> bool:
        """Say so no more; False when it was not said, or by another session."""
        return ephemeral.release(self._nodes, paths.gateway_member(group, consumer_id))

    def groups(self, watch: Watch | None = None) -> list[str]:
        """List the groups that have, or had, such members, sorted."""
        return self._nodes.children(paths.GATEWAY_MEMBERS, watch)

    def read(self, group: str) -> dict[str, GatewayMember]:
        """Return today's clients among a group's members, by consumer id. What cannot be read is left out."""
        return self._members(self._nodes.read_children(paths.gateway_members(group)).values())

    def members_of(self, known: KnownNodes) -> dict[str, GatewayMember]:
        """Return the same from a group's nodes as they were read last."""
        return self._members(known.nodes)

    def _members(self, nodes: Iterable[Node]) -> dict[str, GatewayMember]:
        members: dict[str, GatewayMember] = {}
        for node in nodes:
            try:
                members[node.path.rpartition("/")[2]] = GatewayMember.from_node(node.path, node.data)
            except MalformedNode as error:
                self.malformed.skip(error)
        return members
